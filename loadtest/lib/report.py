"""The report: Markdown around the charts, all out of the results and nothing measured here."""

import collections

from lib import chart, figures
from lib.plan import BESIDE, OURS, SMALL
from lib.table import microseconds

CPU_NOTE = "CPU time per request, of all the competitor's processes; shorter is better"
PERCENTILES = ["p50", "p99", "p99.9"]


def write(results, folder):
    """Writes report.md and its charts beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["# Load test", "", *_machine(results), "", "## Speed to reach", "", *rows(results["targets"]), ""]
    lines += _listed("Missing", [f"**{name}**: {reason}" for name, reason in results["missing"].items()])
    if results["variants"]:
        lines += _cpu(results["variants"], results["titles"], folder)
    if results["latency"]:
        lines += _latency(results["latency"], results["titles"], folder)
    if results["memory"]:
        lines += _memory(results["memory"], results["titles"], folder)
    for scenario in results["alone"]:
        lines += [f"## {scenario['title']}", "", *rows(scenario["rows"]), ""]
    lines += _listed("Failures", [f"{count} × {text}" for text, count in collections.Counter(results["failures"]).items()])
    (folder / "report.md").write_text("\n".join(lines) + "\n")


def rows(found):
    """What was measured beside what is asked, as Markdown lines."""
    verdicts = {True: "met", False: "**missed**", None: ""}
    lines = ["| | measured | asked | |", "|---|---|---|---|"]
    return lines + [_row([name, measured, asked, verdicts[met]]) for name, measured, asked, met in found]


def _machine(results):
    machine, options = results["machine"], results["options"]
    kind = "Virtual machine" if machine["virtual"] else "Machine"
    versions = ", ".join(text for text in machine["versions"].values() if text)
    return [
        f"{machine['date']}, commit {machine['commit']}. {kind} with {machine['cpus']} CPUs ({machine['cpu']}), "
        f"{machine['memory_mib']} MiB, kernel {machine['kernel']}, {machine['system']}; "
        f"load before the run {machine['load_average']:.2f}.",
        "",
        f"{options['pairs']} alternating rounds of {options['seconds']} s each. Figures are medians.",
        "",
        f"Versions: {versions}.",
    ]


def _cpu(variants, titles, folder):
    """A row for each scenario, which links to its chart, and a column for each competitor."""
    labels = [label for label in titles if label != SMALL and any(label in variant["runs"] for variant in variants)]
    lines, notes = [f"| | {' | '.join(titles[label] for label in labels)} |", "|---|" + "--:|" * len(labels)], []
    for variant in variants:
        runs, title = variant["runs"], variant["title"]
        if not runs:
            continue
        bars = [_cpu_bar(label, runs[label], titles) for label in _ordered(runs, "cpu_us")]
        legend = [("user", "user time"), ("system", "system time")]
        link = _chart(folder, variant["key"], title, chart.svg(title, CPU_NOTE, bars, legend))
        cells = [f"{figures.median(runs[label], 'cpu_us'):.2f}" if label in runs else "—" for label in labels]
        lines.append(_row([link, *cells]))
        notes += _vote_notes(runs, titles) + _error_notes(runs)
    return ["## CPU µs per request", "", *lines, "", *notes, *([""] if notes else [])]


def _ordered(runs, name):
    return sorted(runs, key=lambda label: figures.median(runs[label], name) or 0)


def _cpu_bar(label, runs, titles):
    total = figures.median(runs, "cpu_us")
    share = figures.pooled(runs, "user_us") / figures.pooled(runs, "cpu_us")
    text = f"{total:.1f} µs" if total < 100 else f"{total:.0f} µs"
    parts = [total * share, total * (1 - share)]
    return chart.Bar(titles.get(label, label), parts, *figures.spread(runs, "cpu_us"), text, label == OURS)


def _latency(runs, titles, folder):
    bars, rows = [], {}
    for label in _ordered(runs, "latency_us.p99"):
        found, rate = runs[label], f"{runs[label][0]['rate']:,}/s"
        middles = {name: figures.median(found, f"latency_us.{name}") for name in PERCENTILES}
        text, spread = f"{microseconds(middles['p99'])} at {rate}", figures.spread(found, "latency_us.p99")
        bars.append(chart.Bar(titles.get(label, label), [middles["p99"]], *spread, text, label == OURS))
        met = "" if all(run["rate_met"] for run in found) else " (not met)"
        rows[label] = [rate + met, f"{figures.median(found, 'cpu_us'):.2f}", *map(microseconds, middles.values())]
    note = "corrected for coordinated omission; shorter is better"
    return [
        f"## {BESIDE['latency']}",
        "",
        *_table(["rate", "CPU µs/request", *PERCENTILES], rows, titles),
        "",
        _chart(folder, "latency", "Chart", chart.svg("p99 latency at a fixed rate", note, bars, [])),
        "",
    ]


def _memory(memory, titles, folder):
    lines = [f"## {BESIDE['memory']}", ""]
    if idle := memory.get("idle"):
        lines += _idle(idle, titles, folder)
    if cooldowns := memory.get("cooldowns"):
        lines.append(
            f"* {cooldowns['cooldowns']:,} live cooldowns: {cooldowns['rss_bytes_each']:.1f} bytes each, "
            f"the whole process {cooldowns['rss_bytes'] / 2**20:,.0f} MiB"
        )
    if churn := memory.get("churn"):
        before, after = churn["rss_bytes_before"] / 2**20, churn["rss_bytes_after"] / 2**20
        lines.append(
            f"* churn, {churn['share'] * 90:.0f} minutes' worth ({churn['votes']:,} votes that came and "
            f"expired): {before:,.0f} MiB before, {after:,.0f} MiB after"
        )
    return lines + [""]


def _idle(idle, titles, folder):
    order = sorted(idle, key=lambda label: idle[label]["rss_bytes_each"])
    bars, rows = [], {}
    for label in order:
        rss = idle[label]["rss_bytes_each"]
        each = max(rss, 0)
        bars.append(chart.Bar(titles.get(label, label), [each], each, each, f"{each:,.0f} bytes", label == OURS))
        rows[label] = [f"{rss:,.0f}"]
    title = f"memory per idle connection, of {idle[order[0]]['connections']:,}"
    drawn = chart.svg(title, "resident memory of all processes; shorter is better", bars, [])
    return [*_table(["bytes per idle connection"], rows, titles), "", _chart(folder, "idle", "Chart", drawn), ""]


def _vote_notes(runs, titles):
    """What was recorded beside the reads, where anything was."""
    rates = [
        f"{titles.get(label, label)} {figures.median(found, 'votes_per_second'):,.0f}"
        for label, found in runs.items()
        if "votes_per_second" in found[0]
    ]
    return [f"* votes recorded beside the reads, a second: {', '.join(rates)}"] if rates else []


def _error_notes(runs):
    """A line for every competitor whose load generator counted errors."""
    lines = []
    for label, found in runs.items():
        errors = [f"{count} {name}" for run in found for name, count in run["errors"].items()]
        if errors:
            lines.append(f"* errors while {label} was timed: {', '.join(errors)}")
    return lines


def _listed(title, texts):
    return [f"## {title}", "", *(f"* {text}" for text in texts), ""] if texts else []


def _chart(folder, name, title, drawn):
    """Writes a chart; the link to it."""
    (folder / f"{name}.svg").write_text(drawn)
    return f"[{title}]({name}.svg)"


def _table(columns, rows, titles):
    """A row a competitor, ours in bold; the figures to the right."""
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "--:|" * len(columns)]
    for label, cells in rows.items():
        title = titles.get(label, label)
        lines.append(_row([f"**{title}**" if label == OURS else title, *cells]))
    return lines


def _row(cells):
    return f"| {' | '.join(cells)} |"
