"""The speed to reach: a row of each figure beside "at most", as the rows of a table."""

import statistics

from lib import figures
from lib.plan import OURS

CONNECTION_BYTES_MAX = 240
COOLDOWN_BYTES_MAX = 28
CHURN_RATIO_MAX = 1.25


def rows(variants, memory, bench):
    """[(name, measured, asked, met)]. `variants` is {key: {label: runs}}, `bench` {head: ratio to httparse}."""
    new = "CPU, new connection each"
    return [
        _against("CPU, keep-alive 64, against the epoll loop", 1.03, variants, "keep-alive-64-curl", ["limit"]),
        _against(f"{new}, against the better of epoll loop and nginx", 1.00, variants, "new-connection", ["limit", "nginx"]),
        _against("CPU, pipelined × 16, against the epoll loop", 1.10, variants, "pipelined", ["limit"]),
        _row("bytes to bytes against httparse, bare curl", 1.30, bench.get("curl")),
        _row("bytes to bytes against httparse, other heads", 1.15,
             max((bench[head] for head in ("guzzle", "browser") if head in bench), default=None)),
        _bytes("memory per idle connection", CONNECTION_BYTES_MAX, memory.get("idle", {}).get(OURS)),
        _bytes("memory per live cooldown", COOLDOWN_BYTES_MAX, memory.get("cooldowns")),
        _churn(memory.get("churn")),
    ]


def _row(name, at_most, measured, note="", unit="×"):
    if measured is None:
        return name, "not measured in this run", f"{at_most:,.2f} {unit}", None
    return name, f"{measured:,.2f} {unit}{note and f' ({note})'}", f"{at_most:,.2f} {unit}", measured <= at_most


def _against(name, at_most, variants, key, others):
    found = variants.get(key, {})
    absent = [other for other in others if other not in found]
    ratios = figures.ratios(found.get(OURS, []), [found[other] for other in others if other in found], "cpu_us")
    if not ratios:
        return _row(name, at_most, None)
    note = f"{min(ratios):.2f} to {max(ratios):.2f}, {len(ratios)} rounds{''.join(f', without {each}' for each in absent)}"
    return _row(name, at_most, statistics.median(ratios), note)


def _churn(measured):
    name = "memory after churn, against before"
    if not measured:
        return _row(name, CHURN_RATIO_MAX, None)
    note = f"{measured['share'] * 90:.0f} minutes' worth"
    return _row(name, CHURN_RATIO_MAX, measured["rss_bytes_after"] / measured["rss_bytes_before"], note)


def _bytes(name, at_most, measured):
    return _row(name, at_most, measured and measured["rss_bytes_each"], unit="bytes")
