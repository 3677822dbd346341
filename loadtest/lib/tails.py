"""The tails of reads at a fixed rate: p99 and p99.9 alone, and beside the service's other work.

The service has one CPU for all its threads. Reads and disturbances come from the other CPU. There the reads have
priority over everything else, if the system allows it (chrt). Asked without a pause, the service answers many requests
in a turn. The rate of the reads is a third of that, which takes about half of its CPU.

A time counts from the instant at which the request was due until the kernel has the answer. Nothing is due while the
load generator does not run (pacer.c): the client of a disturbance shares its CPU, and must not count as the service.
Each disturbance is timed in turn with the reads alone, and a ratio is taken inside each pair. A million cooldowns are
there all the time; in a sweep, those that it takes away.
"""

import itertools
import statistics
import threading
import time

from lib import figures, pacer, paths, process, usage, votes
from lib.control import Control
from lib.service import Service
from lib.table import microseconds

COOLDOWNS = 1_000_000
# More votes than the service drops from table and store (see recorder/mod.rs), so that it drops all the time.
EXPIRED_A_SECOND = 170_000
LOAD_SECONDS_MAX = 10
SCRAPE_SECONDS = 0.1
LEAD_SECONDS = 0.3
SECONDS = 4
# Two measurements agree up to this ratio.
AGREE_MAX = 1.2
PIECES, PIECE_SECONDS = 20, 0.25
# Every read, and every vote, is a thread's work, and the kernel gives each thread its turn. docs/REFERENCE.md promises
# the bound.
STARVED_VOTES, STARVED_MAX_US = 50, 1_000_000
BUSY = 16
LOOPS = ("vote_status_lateness_seconds", "vote_status_event_loop_lag_seconds")
# See VoteStatusLoopLag.
ALERT_SECONDS = 0.025
# How long an answer may take, as a multiple of its time without the disturbance.
GOALS = {"p99": 1.5, "p99.9": 3.0}


class First(Service):
    """A service that comes before all others of the machine, where the system allows it: its threads are on a par."""

    def start(self):
        self._command = [*first(), *self._command]
        return super().start()


def first():
    command = ["nice", "-n", "-20"]
    said = process.output([*command, "nice"])
    return command if said.stdout.strip() == "-20" else []


class Bench:
    """One service, and the requests to it."""

    def __init__(self, chosen, name, *more):
        self.server, self.cpu = process.cpus()
        self.seconds, self.binary = min(chosen.seconds, SECONDS), chosen.binary
        self.service = First(chosen.binary, name, ["--workers", "1", *more], self.server)
        self.priority = pacer.priority()
        # Votes of every step have addresses of their own.
        self.firsts = itertools.count(COOLDOWNS, 2 * COOLDOWNS)
        for number in votes.SERVERS:
            self.service.control.put_server(number)

    @property
    def control(self):
        """A new connection: a kept one may have been idle for too long."""
        return Control(self.service.control_port, self.service.key)

    def reads(self, rate, seconds=None):
        """The figures of the pacer, and `waited`: how long, in µs, the worker waited each time that it wanted its CPU."""
        seconds_before, times_before = usage.waits(self.service.process.pid, "worker")
        found = pacer.finish(pacer.start(self.service.port, rate, seconds or self.seconds, self.cpu, prefix=self.priority))
        seconds_after, times_after = usage.waits(self.service.process.pid, "worker")
        found["waited"] = (seconds_after - seconds_before) / max(1, times_after - times_before) * 1e6
        return found

    def counting(self, metric):
        """A function that tells by how much a second the metric has grown since."""
        control = self.control
        began, before = time.monotonic(), control.metric(metric)
        return lambda: (control.metric(metric) - before) / (time.monotonic() - began)


# A disturbance prepares, yields, starts its work, yields, and at last yields its rate.


def votes_at(rate):
    def disturb(bench):
        yield
        service, seconds = bench.service, bench.seconds + 4 * LEAD_SECONDS
        first = next(bench.firsts)
        caster = pacer.start(service.control_port, rate, seconds, bench.cpu, service.key, first, bench.priority)
        time.sleep(LEAD_SECONDS)
        yield
        yield pacer.finish(caster)["requests_per_second"]

    return disturb


def sweep(bench):
    count = int(EXPIRED_A_SECOND * (bench.seconds + 1))
    cooldown_over = time.time() + LOAD_SECONDS_MAX + bench.seconds
    bench.control.batch(votes.past(count, next(bench.firsts), int(cooldown_over) - 60), count)
    yield
    time.sleep(max(0, cooldown_over + LEAD_SECONDS - time.time()))
    rate = bench.counting("vote_status_dropped_total")
    yield
    yield rate()


def import_votes(bench):
    file = bench.service.folder / "import.ndjson"
    file.write_bytes(b"".join(votes.past(COOLDOWNS, next(bench.firsts))))
    key = bench.service.folder / "key"
    key.write_text(bench.service.key)
    key.chmod(0o600)
    yield
    url = f"http://127.0.0.1:{bench.service.control_port}"
    command = [bench.binary, "import", "--votes", file, "--control-url", url, "--control-key-file", key]
    started = process.spawn(command, bench.cpu, paths.WORK / "import.log")
    time.sleep(LEAD_SECONDS)
    rate = bench.counting(votes.RECORDED)
    yield
    said = rate()
    if started.wait():
        raise process.Failed(f"import: {process.tail(paths.WORK / 'import.log')}")
    yield said


def scrape(bench):
    over, scrapes, control = threading.Event(), [], bench.control

    def ask():
        while not over.wait(SCRAPE_SECONDS):
            scrapes.append(control.text("GET", "/metrics"))

    yield
    thread, began = threading.Thread(target=ask), time.monotonic()
    thread.start()
    yield
    over.set()
    thread.join()
    yield len(scrapes) / (time.monotonic() - began)


# The title, the unit of the rate, and the disturbance.
BESIDE = (
    ("1,000 single durable votes/s", "votes", votes_at(1_000)),
    ("5,000 single durable votes/s", "votes", votes_at(5_000)),
    ("a sweep", "rows", sweep),
    ("an import of 1 million votes", "votes", import_votes),
    ("scrapes of /metrics", "scrapes", scrape),
)


def paired(bench, disturb, rate, pairs):
    """[{figures of the reads beside it, `alone`: those of the reads alone, `done`: what it did a second}, …]"""
    found = []
    for _ in range(pairs):
        steps = disturb(bench)
        next(steps)
        alone = bench.reads(rate)
        next(steps)
        beside = bench.reads(rate)
        found.append({**beside, "alone": alone, "done": next(steps)})
    return found


def tell(title, unit, pairs, table):
    """Medians of the pairs, and a ratio taken inside each of them. Lost is the share of time in which the load generator was
    not given its CPU beside the disturbance."""
    done, lost = figures.median(pairs, "done"), figures.median(pairs, "lost")
    said, met = [], True
    waited = [statistics.median(each["waited"] for each in some) for some in ([pair["alone"] for pair in pairs], pairs)]
    for name, goal in GOALS.items():
        ratios = [pair[name] / pair["alone"][name] for pair in pairs]
        alone, beside = statistics.median(pair["alone"][name] for pair in pairs), statistics.median(pair[name] for pair in pairs)
        ratio = statistics.median(ratios)
        said.append(f"{name} {microseconds(alone)} → {microseconds(beside)}, {ratio:.2f} × ({min(ratios):.2f} to {max(ratios):.2f})")
        met &= ratio <= goal
    asked = ", ".join(f"{goal} ×" for goal in GOALS.values())
    table.add(f"{title}, {done:,.0f} {unit}/s", f"{'; '.join(said)}; the worker waits {waited[0]:.0f} → {waited[1]:.0f} µs for its CPU; {lost:.1%} lost", asked, met)


def agree(bench, rate, table):
    """Measures the same twice, in short pieces in turn: a smaller difference between other figures means nothing."""
    found = [(bench.reads(rate, PIECE_SECONDS), bench.reads(rate, PIECE_SECONDS)) for _ in range(PIECES)]
    for name in ("p99", "waited"):
        one, other = (statistics.median(pair[nth][name] for pair in found) for nth in range(2))
        ratio = max(one, other) / min(one, other)
        table.add(f"the same twice, {name}", f"{microseconds(one)}, {microseconds(other)}; {ratio:.2f} ×", f"{AGREE_MAX} ×", ratio <= AGREE_MAX)


def starve(bench, table):
    """Single votes beside as many reads as the service answers."""
    votes_found = pacer.start(
        bench.service.control_port, STARVED_VOTES, bench.seconds, bench.cpu, bench.service.key, next(bench.firsts), bench.priority
    )
    reads = bench.reads(0)
    found = pacer.finish(votes_found)
    said = f"p50 {microseconds(found['p50'])}, p99 {microseconds(found['p99'])}, longest {microseconds(found['max'])}"
    what = f"{STARVED_VOTES} single votes/s beside {reads['requests_per_second']:,.0f} reads/s"
    table.add(what, said, microseconds(STARVED_MAX_US), found["max"] <= STARVED_MAX_US)


def shortage(bench, rate, table):
    """Busy processes on the CPU of the service: whether the metrics say what clients see."""
    busy = [process.spawn([*first(), "sh", "-c", "while :; do :; done"], bench.server, paths.WORK / "busy.log") for _ in range(BUSY)]
    try:
        before = [bench.control.buckets(name) for name in LOOPS]
        clients = bench.reads(rate // BUSY)["p99"] / 1e6
        after = [bench.control.buckets(name) for name in LOOPS]
    finally:
        for each in busy:
            process.kill(each)
    late, turns = (figures.quantile(*each, 0.99) for each in zip(before, after, strict=True))
    met = late > ALERT_SECONDS or clients <= ALERT_SECONDS
    said = f"clients {clients * 1e3:.1f} ms; by the metrics late {late * 1e3:g} ms at most, turns {turns * 1e3:g} ms at most"
    table.add(f"p99 beside {BUSY} busy processes", said, "an alert where clients wait", met)


def measure(chosen, table):
    pacer.build()
    full = Bench(chosen, "full")
    full.control.batch(votes.past(COOLDOWNS, 0), COOLDOWNS)
    rate = int(full.reads(0, 1)["requests_per_second"] / 3)
    pids, before, since = [full.service.process.pid], usage.cpu_time([full.service.process.pid]), time.monotonic()
    full.reads(rate, 1)
    spent = usage.cpu_time(pids) - before
    share = (spent.user + spent.system) / (time.monotonic() - since)
    priority = "before everything else on its CPU" if pacer.priority() else "without priority on its CPU"
    table.add("reads alone", f"{rate:,} a second take {share:.0%} of a CPU; the load generator {priority}")
    agree(full, rate, table)
    starve(full, table)
    shortage(full, rate, table)
    for title, unit, disturb in BESIDE:
        bench = Bench(chosen, "swept", "--cooldown-minutes", "1") if disturb is sweep else full
        tell(title, unit, paired(bench, disturb, rate, chosen.pairs), table)
        if bench is not full:
            process.stop(bench.service.process)
