"""The report: Markdown around the charts, all out of the results and nothing measured here."""

from lib import chart, figures
from lib.plan import OURS, TITLES

CPU_NOTE = "CPU time per request, of all the competitor's processes; shorter is better"


def write(results, folder):
    """Writes report.md and its charts beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        "# Load test",
        "",
        *_machine(results),
        "",
        "## Speed to reach",
        "",
        *targets(results["targets"]),
        "",
    ]
    lines += _missing(results)
    for variant in results["variants"]:
        lines += _variant(variant, results["titles"], folder)
    if results["latency"]:
        lines += _latency(results, folder)
    lines += _memory(results["memory"], results["titles"], folder)
    lines += _failures(results["failures"])
    (folder / "report.md").write_text("\n".join(lines) + "\n")


def targets(rows):
    """The table of targets, as Markdown lines."""
    lines = ["| | at most | measured | |", "|---|---|---|---|"]
    for row in rows:
        word = {True: "met", False: "**missed**", None: "—"}[row["met"]]
        verdict = f"{word} ({row['note']})" if row["note"] else word
        at_most, measured = _amount(row["at_most"], row["unit"]), _amount(row["measured"], row["unit"])
        lines.append(_row([row["name"], at_most, measured, verdict]))
    return lines


def _machine(results):
    machine, options = results["machine"], results["options"]
    kind = "virtual machine" if machine["virtual"] else "machine"
    versions = ", ".join(f"{name}: {text}" for name, text in machine["versions"].items() if text)
    return [
        f"{machine['date']}, commit {machine['commit']}. "
        f"{kind} with {machine['cpus']} CPUs ({machine['cpu']}), "
        f"{machine['memory_mib']} MiB, kernel {machine['kernel']}, {machine['system']}; "
        f"load before the run {machine['load_average']:.2f}.",
        "",
        f"{options['pairs']} alternating rounds of {options['seconds']} s each; "
        "the server on one CPU, the load generator on another. "
        "Figures are medians; a ratio is the median of the ratios inside each round; "
        "the split in user and system time is of all rounds together.",
        "",
        f"<details><summary>Versions</summary>\n\n{versions}\n\n</details>",
    ]


def _missing(results):
    if not results["missing"]:
        return []
    lines = ["## Missing", ""]
    return lines + [f"* **{name}**: {reason}" for name, reason in results["missing"].items()] + [""]


def _variant(variant, titles, folder):
    runs = variant["runs"]
    lines = [f"## {variant['scenario']}. {variant['title']}", ""]
    if runs:
        name = f"{variant['key']}.svg"
        (folder / name).write_text(_cpu_chart(variant["title"], runs, titles))
        lines += [f"![{variant['title']}]({name})", ""]
        lines += [
            "| | requests/s | CPU µs/request | user | system | against vote-status | p50 | p99 | RSS MiB |",
            "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
        ]
        lines += [_run_row(label, runs, titles) for label in _by_cpu(runs)] + [""]
    for label, reason in variant["left_out"].items():
        lines.append(f"* left out: {titles.get(label, label)}: {reason}")
    return lines + _vote_notes(runs, titles) + _error_notes(runs) + [""]


def _run_row(label, runs, titles):
    found = runs[label]
    ratio = figures.ratio(found, [runs[OURS]], "cpu_us") if OURS in runs else None
    cells = [
        _bold(titles.get(label, label), label),
        f"{figures.median(found, 'requests_per_second'):,.0f}",
        f"{figures.median(found, 'cpu_us'):.2f}",
        f"{figures.pooled(found, 'user_us'):.2f}",
        f"{figures.pooled(found, 'system_us'):.2f}",
        _number(ratio, "{:.2f} ×"),
        _microseconds(figures.median(found, "latency_us.p50")),
        _microseconds(figures.median(found, "latency_us.p99")),
        f"{figures.median(found, 'rss_bytes') / 2**20:,.1f}",
    ]
    return _row(cells)


def _cpu_chart(title, runs, titles):
    bars = []
    for label in _by_cpu(runs):
        least, most = figures.spread(runs[label], "cpu_us")
        total = figures.median(runs[label], "cpu_us")
        share = figures.pooled(runs[label], "user_us") / figures.pooled(runs[label], "cpu_us")
        parts = [total * share, total * (1 - share)]
        text = f"{total:.1f} µs" if total < 100 else f"{total:.0f} µs"
        bars.append(chart.Bar(titles.get(label, label), parts, least, most, text, label == OURS))
    return chart.svg(title, CPU_NOTE, bars, [("user", "user time"), ("system", "system time")])


def _latency(results, folder):
    runs, titles = results["latency"], results["titles"]
    names = ["p50", "p90", "p99", "p99.9", "p99.99"]
    order = sorted(runs, key=lambda label: figures.median(runs[label], "latency_us.p99") or 0)
    bars = []
    for label in order:
        middle = figures.median(runs[label], "latency_us.p99")
        least, most = figures.spread(runs[label], "latency_us.p99")
        text = f"{_microseconds(middle)} at {runs[label][0]['rate']:,}/s"
        bars.append(chart.Bar(titles.get(label, label), [middle], least, most, text, label == OURS))
    (folder / "latency.svg").write_text(
        chart.svg(
            "p99 latency at a fixed rate", "corrected for coordinated omission; shorter is better", bars, []
        )
    )
    lines = [f"## 5. {TITLES[5]}", "", "![p99 latency](latency.svg)", ""]
    lines += [f"| | rate | CPU µs/request | {' | '.join(names)} |", "|---|--:|--:|" + "--:|" * len(names)]
    for label in order:
        cells = [_microseconds(figures.median(runs[label], f"latency_us.{name}")) for name in names]
        met = "" if all(run["rate_met"] for run in runs[label]) else " (not met)"
        rate = f"{runs[label][0]['rate']:,}/s{met}"
        cpu = f"{figures.median(runs[label], 'cpu_us'):.2f}"
        lines.append(_row([_bold(titles.get(label, label), label), rate, cpu, *cells]))
    return lines + [
        "",
        "oha, half of its maximum on vote-status; a competitor whose own maximum is below three quarters "
        "of that gets half of its own.",
        "",
    ]


def _memory(memory, titles, folder):
    if not memory:
        return []
    lines = [f"## 7. {TITLES[7]}", ""]
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
    bars = []
    for label in order:
        each = max(idle[label]["rss_bytes_each"], 0)
        bars.append(
            chart.Bar(titles.get(label, label), [each], each, each, f"{each:,.0f} bytes", label == OURS)
        )
    connections = idle[order[0]]["connections"]
    title = f"memory per idle connection, of {connections:,}"
    (folder / "idle.svg").write_text(
        chart.svg(title, "resident memory of all processes; shorter is better", bars, [])
    )
    lines = [
        f"![{title}](idle.svg)",
        "",
        "| | bytes per idle connection (RSS) | (PSS) | all, MiB |",
        "|---|--:|--:|--:|",
    ]
    for label in order:
        found = idle[label]
        each = [f"{found[name]:,.0f}" for name in ("rss_bytes_each", "pss_bytes_each")]
        total = f"{found['rss_bytes'] / 2**20:,.1f}"
        lines.append(_row([_bold(titles.get(label, label), label), *each, total]))
    return lines + [""]


def _failures(failures):
    if not failures:
        return []
    return ["## Failures", ""] + [f"* {text}" for text in failures] + [""]


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


def _by_cpu(runs):
    return sorted(runs, key=lambda label: figures.median(runs[label], "cpu_us"))


def _row(cells):
    return f"| {' | '.join(cells)} |"


def _bold(text, label):
    return f"**{text}**" if label == OURS else text


def _number(value, form):
    return "—" if value is None else form.format(value)


def _microseconds(value):
    if value is None:
        return "—"
    return f"{value / 1000:,.1f} ms" if value >= 1000 else f"{value:,.0f} µs"


def _amount(value, unit):
    if value is None:
        return "—"
    return f"{value:.2f} ×" if unit == "×" else f"{value:,.2f} bytes"
