"""Numbers out of runs: medians, spreads, and ratios taken inside one round. No text, no files."""

import statistics


def of_run(counted, cpu, memory):
    """The figures of one timed run: what the load generator counted, and what the server used."""
    requests = max(counted["requests"], 1)
    seconds = counted["duration_us"] / 1e6
    return {
        "requests": counted["requests"],
        "requests_per_second": counted["requests"] / seconds,
        "user_us": cpu.user * 1e6 / requests,
        "system_us": cpu.system * 1e6 / requests,
        "cpu_us": (cpu.user + cpu.system) * 1e6 / requests,
        "cpu_share": (cpu.user + cpu.system) / seconds,
        "latency_us": {name: value for name, value in counted["latency_us"].items() if value > 0},
        "errors": {name: count for name, count in counted["errors"].items() if count},
        "rss_bytes": memory.rss,
        "pss_bytes": memory.pss,
    }


def values(runs, name):
    """One figure of all runs; a dot reaches into a group, as in `latency_us.p99`."""
    group, _, inner = name.partition(".")
    if not inner:
        return [run[name] for run in runs]
    return [run[group][inner] for run in runs if inner in run[group]]


def median(runs, name):
    found = values(runs, name)
    return statistics.median(found) if found else None


def quantile(before, after, share):
    """The upper bound of the bucket that holds this quantile of the values in between; for the last, its lower bound."""
    counts = sorted((bound, after[bound] - before[bound]) for bound in after)
    wanted, finite = share * counts[-1][1], [bound for bound, _ in counts if bound != float("inf")]
    return next((bound for bound, count in counts[:-1] if count >= wanted), finite[-1])


def spread(runs, name):
    """(least, most)"""
    found = values(runs, name)
    return (min(found), max(found)) if found else (None, None)


def pooled(runs, name):
    """One figure per request over all rounds together.

    The kernel samples whether a thread is in user or system mode, so one short run says little about it.
    """
    requests = sum(run["requests"] for run in runs)
    return sum(run[name] * run["requests"] for run in runs) / requests


def ratios(runs, others, name):
    """This run's figure against the other's of the same round, for each round that both have.

    `others` is one or more lists of runs: the least figure of each round is what counts.
    """
    best = {}
    for other in others:
        for run in other:
            best[run["round"]] = min(run[name], best.get(run["round"], run[name]))
    return [run[name] / best[run["round"]] for run in runs if best.get(run["round"])]
