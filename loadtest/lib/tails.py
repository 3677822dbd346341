"""What loadtest/tails found, as a table and charts. Nothing is measured here."""

import statistics

from lib import chart, figures, machine
from lib.report import microseconds

# How many times as long as alone an answer may take.
GOALS = {"p99": 1.5, "p99.9": 3.0}


def row(title, unit, pairs):
    """The medians of the pairs; a ratio is taken inside each of them."""
    found = {"title": title, "unit": unit, "done": figures.median(pairs, "done"), "lost": figures.median(pairs, "lost")}
    for name in GOALS:
        alone, beside = [pair["alone"][name] for pair in pairs], [pair[name] for pair in pairs]
        ratios = [after / before for before, after in zip(alone, beside)]
        alone, beside, ratio = map(statistics.median, (alone, beside, ratios))
        found[name] = {"alone": alone, "beside": beside, "ratio": ratio, "least": min(ratios), "most": max(ratios)}
    return found


def cells(found):
    """A row of the table, as texts."""
    parts = [found["title"], f"{found['done']:,.0f} {found['unit']}/s"]
    for name, goal in GOALS.items():
        figure = found[name]
        verdict = "" if figure["ratio"] <= goal else " **missed**"
        parts.append(f"{microseconds(figure['alone'])} → {microseconds(figure['beside'])}")
        parts.append(f"{figure['ratio']:.2f} × ({figure['least']:.2f} to {figure['most']:.2f}){verdict}")
    return [*parts, f"{found['lost']:.1%}"]


def write(results, folder):
    """report.md and its charts into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    what, lines = results["machine"], ["# Tails of reads beside other work", ""]
    where = "one CPU for all threads of the service" if results["pinned"] else "the service on every CPU"
    first = "before everything else on its CPU" if results["priority"] else "without priority on its CPU"
    lines += [
        f"{machine.said(what)}; load before the run {what['load_average']:.2f}.",
        "",
        f"{results['rate']:,} reads a second, with which the service alone takes {results['cpu_share']:.0%} of a CPU; "
        f"{results['pairs']} pairs of {results['seconds']} s, alone and beside; {where}, the load generator {first}. Times "
        "count from the instant at which a request was due until the kernel has its answer; figures are medians of the "
        "pairs, and a ratio is the median of the pairs' ratios (least to most). Lost is the share of time in which the "
        "load generator was not given its CPU beside the disturbance: nothing was due then.",
        "",
        "| beside | done | p99 | at most 1.5 × | p99.9 | at most 3 × | lost |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [f"| {' | '.join(cells(found))} |" for found in results["rows"]]
    for percentile, goal in GOALS.items():
        bars = [_bar(found["title"], found[percentile]) for found in results["rows"]]
        bars.insert(0, chart.Bar("alone", [1.0], 1.0, 1.0, "1 ×", ours=True))
        note = f"times the {percentile} alone; shorter is better; at most {goal} × is wanted"
        (folder / f"{percentile}.svg").write_text(chart.svg(f"{percentile} of reads beside other work", note, bars, []))
        lines += ["", f"![{percentile}]({percentile}.svg)"]
    (folder / "report.md").write_text("\n".join(lines) + "\n")


def _bar(title, figure):
    return chart.Bar(title, [figure["ratio"]], figure["least"], figure["most"], f"{figure['ratio']:.2f} ×")

