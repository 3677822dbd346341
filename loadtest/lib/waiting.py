"""`?wait=`: the memory of a held request beyond that of an idle connection, and the time from a vote's 201 to the
waiter's answer. The p99 of a good client, alone and while a crowd that waits for one vote is told of it. The CPU time
per player and minute, polled every 5 s and with `wait=25`, and the time until a vote is known. The service has the
first CPU, all clients have the second.
"""

import concurrent.futures
import gc
import os
import statistics

from lib import process, prober, usage
from lib.crowd import Crowd, OnePair
from lib.propagation import percentile
from lib.service import Service

WAITERS, PLAYERS = 15_000, 3_000
VOTES_PER_SECOND = 1_000
WAIT_SECONDS = 50
POLL_SECONDS, HELD_SECONDS = 5, 25
# A player votes about once in this many seconds of waiting.
VOTE_SECONDS = 60
PROBES_PER_SECOND = 1_000
# The rate at which a crowd whose votes were told asks again, for the next round.
AGAIN_PER_SECOND = 12_000
BESIDE_SECONDS_MAX = 120
# Connections of the good client and of clients that went a moment ago.
CONNECTIONS_SPARE = 100
# Descriptors of either side beside those of the crowd.
DESCRIPTORS_SPARE = 500
# Answers that are due at the end of a run come within this.
SETTLE_SECONDS = 10
# The name of each way, its `wait` in seconds, and whether it keeps its connection.
WAYS = (
    ("a new connection every 5 s", 0, False),
    ("kept, every 5 s", 0, True),
    (f"wait={HELD_SECONDS}", HELD_SECONDS, True),
)


def ms(seconds):
    return f"{seconds * 1e3:.2f} ms"


def tail_of(took):
    """(p50, p99, the most), and the text of it."""
    took = sorted(took)
    found = percentile(took, 50), percentile(took, 99), took[-1]
    return found, "p50 {}, p99 {}, at most {}".format(*map(ms, found))


def a_service(chosen, name):
    most = max(WAITERS, PLAYERS)
    bounds = ["--max-connections", most + CONNECTIONS_SPARE, "--max-waiting", most]
    return Service(chosen.binary, name, ["--workers", "1", *bounds], process.cpus()[0])


def memory_and_told(chosen, table):
    service = a_service(chosen, "told")
    crowd = Crowd(service, WAITERS)
    crowd.open_all()
    crowd.ask_all()
    crowd.run(lambda: crowd.free == WAITERS, SETTLE_SECONDS)
    idle = usage.memory([service.process.pid]).rss
    crowd.wait = WAIT_SECONDS
    crowd.ask_all()
    crowd.until_held()
    each = (usage.memory([service.process.pid]).rss - idle) / WAITERS
    table.add(f"memory of a waiting request, of {WAITERS:,}", f"{each:.0f} bytes", "512 bytes", each <= 512)
    crowd.run(lambda: False, chosen.told_seconds, (VOTES_PER_SECOND, crowd.cast))
    crowd.run(crowd.are_told, SETTLE_SECONDS)
    table.expect_none("told: wrong answers, and waiters that were not told", crowd.faults())
    votes = [vote for vote in crowd.votes if vote.acked and vote.told]
    if not votes:
        raise process.Failed("nobody was told")
    rate = len(votes) / (max(vote.acked for vote in votes) - votes[0].sent)
    (p50, p99, _), said = tail_of(vote.told - vote.acked for vote in votes)
    name = f"from 201 to the waiter's answer, {rate:,.0f} votes/s"
    table.add(name, said, "p50 1 ms, p99 5 ms", p50 <= 1e-3 and p99 <= 5e-3)
    table.add("from sending to 201", tail_of(vote.acked - vote.sent for vote in votes)[1])
    early = sum(vote.told < vote.acked for vote in votes) / len(votes)
    table.add("waiters told before the 201 was read (below 0)", f"{early:.0%}")


def beside(chosen, table):
    service = a_service(chosen, "beside")
    crowd = OnePair(service, WAITERS, WAIT_SECONDS)
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        alone = [took for _, took in pool.submit(prober.probe, service.port, PROBES_PER_SECOND, chosen.alone_seconds).result()]
        crowd.open_all()
        # The good client goes before the crowd on the generator's CPU. A quick run, which is a look, may be on a busy machine,
        # where the crowd would have no CPU at all and the service would close its idle connections.
        if not chosen.quick:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        probing = pool.submit(prober.probe, service.port, PROBES_PER_SECOND, BESIDE_SECONDS_MAX)
        rounds = []
        for _ in range(chosen.rounds):
            crowd.ask_all(AGAIN_PER_SECOND)
            crowd.until_held()
            rounds.append(crowd.tell())
        prober.ENOUGH.set()
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        took = probing.result()
    table.expect_none("beside: wrong answers, and waiters that were not told", crowd.faults())
    told = [each for since, each in took if any(begin <= since <= end for begin, end in rounds)]
    ((_, base, _), said), ((_, p99, _), said_told) = tail_of(alone), tail_of(told)
    table.add(f"another client alone, {PROBES_PER_SECOND:,} questions/s", said)
    length = statistics.median(end - begin for begin, end in rounds)
    table.add(f"beside {WAITERS:,} waiters of one vote, {len(rounds)} times ({ms(length)} each)",
              f"{said_told}; p99 {p99 / base:.1f} ×", "3 ×", p99 <= 3 * base)


def cpu(chosen, table):
    minutes, first = PLAYERS * chosen.cpu_seconds / 60, None
    for name, wait, kept in WAYS:
        service = a_service(chosen, "cpu")
        crowd = Crowd(service, PLAYERS, wait, kept)
        if kept:
            crowd.open_all()
        paces = [(PLAYERS / VOTE_SECONDS, crowd.cast)]
        if wait:
            # As if the players had been waiting for long: some time out in each second, from the first one on.
            crowd.ask_all(PLAYERS, lambda player, wait: 1 + player.nth % wait)
        else:
            paces.append((PLAYERS / POLL_SECONDS, crowd.ask_nth))
        used = [usage.run_seconds([service.process.pid], threads) for threads in ("worker", "")]
        crowd.run(lambda: False, chosen.cpu_seconds, *paces)
        used = [usage.run_seconds([service.process.pid], threads) - before for threads, before in zip(("worker", ""), used)]
        crowd.run(crowd.are_told, SETTLE_SECONDS, *paces[1:])
        table.expect_none(f"{name}: wrong answers, and players that were not told", crowd.faults())
        each, whole = (seconds / minutes * 1e6 for seconds in used)
        delay = statistics.mean(vote.told - vote.acked for vote in crowd.votes if vote.told)
        first = first or each
        said = f"{each:,.0f} µs ({whole:,.0f} with its vote); told after {ms(delay)}"
        asked = ("0.20 ×", each <= first / 5) if wait else ()
        table.add(f"CPU per player and minute, {name}", f"{said}; {each / first:.2f} ×", *asked)
        process.stop(service.process)


def measure(chosen, table):
    names = "told_seconds", "alone_seconds", "rounds", "cpu_seconds"
    vars(chosen).update(zip(names, (4, 2, 3, 5) if chosen.quick else (20, 8, 12, 30)))
    if WAITERS + DESCRIPTORS_SPARE > process.descriptors():
        raise process.Missing(f"a process may have {process.descriptors():,} descriptors here, see ulimit -Hn")
    # A garbage collection of this program must not be in the figures.
    gc.disable()
    with process.only_cpu(process.cpus()[1]):
        for part in (memory_and_told, beside, cpu):
            count = process.started_count()
            part(chosen, table)
            process.stop_since(count)
            gc.collect()
    gc.enable()
