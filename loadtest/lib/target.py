"""The speed to reach: a row of each figure beside "at most", as the rows of a table."""

from lib import figures
from lib.plan import OURS, SMALL

CONNECTION_BYTES_MAX = 1024
COOLDOWN_BYTES_MAX = 24
# Judged by rows of their own, so "every other scenario" leaves them out.
_OWN_ROWS = ("keep-alive-64-curl", "new-connection", "pipelined")


def rows(variants, latency, memory, bench, cooldowns=10_000_000):
    """[(name, measured, asked, met)]. `variants` is {key: {label: runs}}, `bench` {head: ratio to httparse}."""
    runs = {**variants, **({"latency": latency} if latency else {})}
    new = "CPU, new connection each"
    return [
        _against("CPU, keep-alive 64, against the epoll loop", 1.03, runs, "keep-alive-64-curl", ["limit"]),
        _against(f"{new}, against the better of epoll loop and nginx", 1.00, runs, "new-connection", ["limit", "nginx"]),
        _against("CPU, pipelined × 16, against the epoll loop", 1.10, runs, "pipelined", ["limit"]),
        _best_peer("CPU against the best peer, worst other scenario", 0.98, runs, _cpu),
        _best_peer("user time against the best peer, worst other scenario", 0.60, runs, _user),
        _row("bytes to bytes against httparse, bare curl", 1.30, bench.get("curl")),
        _row("bytes to bytes against httparse, other heads", 1.15,
             max((bench[head] for head in ("guzzle", "browser") if head in bench), default=None)),
        _against(f"{cooldowns:,} cooldowns against 1 thousand", 1.02, runs, "spread", [SMALL]),
        _bytes("memory per idle connection", CONNECTION_BYTES_MAX, memory.get("idle", {}).get(OURS)),
        _bytes("memory per live cooldown", COOLDOWN_BYTES_MAX, memory.get("cooldowns")),
    ]


def _row(name, at_most, measured, note="", unit="×"):
    if measured is None:
        return name, "not measured in this run", f"{at_most:,.2f} {unit}", None
    return name, f"{measured:,.2f} {unit}{f' ({note})' if note else ''}", f"{at_most:,.2f} {unit}", measured <= at_most


def _against(name, at_most, runs, key, others):
    found = runs.get(key, {})
    present = [found[other] for other in others if other in found]
    absent = [other for other in others if other not in found]
    measured = figures.ratio(found[OURS], present, "cpu_us") if OURS in found and present else None
    return _row(name, at_most, measured, f"without {', '.join(absent)}" if absent else "")


def _best_peer(name, at_most, runs, compare):
    """The worst, over the scenarios, of the ratio to whichever peer was best there."""
    worst = None, ""
    for key, found in runs.items():
        peers = [runs_of for label, runs_of in found.items() if label not in (OURS, SMALL, "limit")]
        if key in _OWN_ROWS or OURS not in found or not peers:
            continue
        ratio = compare(found[OURS], peers)
        if ratio is not None and (worst[0] is None or ratio > worst[0]):
            worst = ratio, key
    return _row(name, at_most, *worst)


def _cpu(ours, peers):
    return figures.ratio(ours, peers, "cpu_us")


def _user(ours, peers):
    least = min(figures.pooled(peer, "user_us") for peer in peers)
    return figures.pooled(ours, "user_us") / least if least else None


def _bytes(name, at_most, measured):
    return _row(name, at_most, measured and measured["rss_bytes_each"], unit="bytes")
