"""The speed to reach: each row of issue 5's table, measured beside "at most"."""

from dataclasses import dataclass

from lib import figures
from lib.plan import OURS, SMALL

CONNECTION_BYTES_MAX = 1024
COOLDOWN_BYTES_MAX = 24
# Judged by rows of their own, so "every other scenario" leaves them out.
_OWN_ROWS = ("keep-alive-64-curl", "new-connection", "pipelined")


@dataclass(frozen=True)
class Row:
    """`measured` is None where this run did not measure it; `note` then says why."""

    name: str
    at_most: float
    measured: float = None
    unit: str = "×"
    note: str = ""

    @property
    def met(self):
        return None if self.measured is None else self.measured <= self.at_most


def rows(variants, latency, memory, bench, cooldowns=10_000_000):
    """The table. `variants` is {key: {label: runs}}, `bench` {head: ratio to httparse}."""
    runs = {**variants, **({"latency": latency} if latency else {})}
    new = "CPU per request, new connection each"
    return [
        _against("CPU per request, keep-alive 64, against the limit", 1.03, runs, "keep-alive-64-curl", ["limit"]),
        _against(f"{new}, against the better of the limit and nginx", 1.00, runs, "new-connection", ["limit", "nginx"]),
        _against("CPU per request, pipelined × 16, against the limit", 1.10, runs, "pipelined", ["limit"]),
        _best_peer("CPU per request against the best peer, worst of the other scenarios", 0.98, runs, _cpu),
        _best_peer("user time against the best peer, worst of the other scenarios", 0.60, runs, _user),
        _bench("bytes to bytes against httparse alone, bare curl", 1.30, bench, ["curl"]),
        _bench("bytes to bytes against httparse alone, the other heads", 1.15, bench, ["guzzle", "browser"]),
        _against(f"{cooldowns:,} cooldowns against 1 thousand, keep-alive", 1.02, runs, "spread", [SMALL]),
        _bytes("memory per idle connection", CONNECTION_BYTES_MAX, memory.get("idle", {}).get(OURS)),
        _bytes("memory per live cooldown", COOLDOWN_BYTES_MAX, memory.get("cooldowns")),
    ]


def _against(name, at_most, runs, key, others):
    found = runs.get(key, {})
    present = [found[other] for other in others if other in found]
    if OURS not in found or not present:
        return Row(name, at_most, note="not timed in this run")
    absent = [other for other in others if other not in found]
    note = f"without {', '.join(absent)}" if absent else ""
    return Row(name, at_most, figures.ratio(found[OURS], present, "cpu_us"), note=note)


def _best_peer(name, at_most, runs, compare):
    """The worst, over the scenarios, of the ratio to whichever peer was best there."""
    worst = None
    for key, found in runs.items():
        peers = [runs_of for label, runs_of in found.items() if label not in (OURS, SMALL, "limit")]
        if key in _OWN_ROWS or OURS not in found or not peers:
            continue
        ratio = compare(found[OURS], peers)
        if ratio is not None and (worst is None or ratio > worst[0]):
            worst = (ratio, key)
    if worst is None:
        return Row(name, at_most, note="not timed in this run")
    return Row(name, at_most, worst[0], note=worst[1])


def _cpu(ours, peers):
    return figures.ratio(ours, peers, "cpu_us")


def _user(ours, peers):
    least = min(figures.pooled(peer, "user_us") for peer in peers)
    return figures.pooled(ours, "user_us") / least if least else None


def _bench(name, at_most, bench, heads):
    known = [bench[head] for head in heads if head in bench]
    if not known:
        return Row(name, at_most, note="not measured in this run")
    return Row(name, at_most, max(known), note="criterion")


def _bytes(name, at_most, measured):
    if measured is None:
        return Row(name, at_most, unit="bytes", note="not measured in this run")
    return Row(name, at_most, measured["rss_bytes_each"], "bytes")
