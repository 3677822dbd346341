"""The write side of one service, durable. Nothing is pinned: the recorder and the workers share the machine as they would.

Single `POST /v1/votes` over 64 kept connections and status reads, in alternation; a batch of NDJSON; the p99 of status
reads, alone and beside 20,000 votes a second, in alternation.
"""

import statistics
import time

from lib import process, votes, wrk
from lib.competitor import PATH
from lib.service import Service

VOTES_A_SECOND = 20_000
BATCH_VOTES = 1_000_000


def medians(pairs):
    return [statistics.median(column) for column in zip(*pairs)]


def singles(service, chosen, table):
    rates = []
    for pair in range(chosen.pairs):
        reads, _ = wrk.rate(service.port, PATH, "head.lua", chosen.seconds)
        cast, _ = wrk.rate(service.control_port, "", "cast.lua", chosen.seconds, service.key, pair * 4_000_000)
        rates.append((cast, reads, cast / reads))
    cast, reads, ratio = medians(rates)
    table.add("single votes over 64 connections, against status reads", f"{cast:,.0f}/s, reads {reads:,.0f}/s; {ratio:.2f} ×",
              "at least 0.50 ×", ratio >= 0.5)


def batch(service, table):
    # The body is made beforehand, so that the time is the service's alone.
    body = list(votes.past(BATCH_VOTES, 0))
    began = time.monotonic()
    service.control.batch(iter(body), BATCH_VOTES)
    rate = BATCH_VOTES / (time.monotonic() - began)
    table.add(f"a batch of {BATCH_VOTES:,} votes", f"{rate:,.0f} votes/s", "at least 300,000", rate >= 300_000)


def reads_beside_votes(service, chosen, table):
    p99s, first = [], 300_000_000
    for _ in range(chosen.pairs):
        _, alone = wrk.rate(service.port, PATH, "head.lua", chosen.seconds)
        rush = votes.cast_at_rate(service, VOTES_A_SECOND, first, process.EVERY_CPU)
        began, before = time.monotonic(), service.control.metric(votes.RECORDED)
        _, beside = wrk.rate(service.port, PATH, "head.lua", chosen.seconds)
        rate = (service.control.metric(votes.RECORDED) - before) / (time.monotonic() - began)
        process.stop(rush)
        first += VOTES_A_SECOND * (chosen.seconds + 60)
        p99s.append((alone, beside, beside / alone, rate))
    alone, beside, ratio, rate = medians(p99s)
    table.add(f"p99 of reads, alone and beside {rate:,.0f} votes/s", f"{alone:,.0f} µs, {beside:,.0f} µs; {ratio:.2f} ×",
              "at most 2 ×", ratio <= 2)


def measure(chosen, table):
    service = Service(chosen.binary, "writes")
    for server in votes.SERVERS:
        service.control.put_server(server)
    singles(service, chosen, table)
    batch(service, table)
    reads_beside_votes(service, chosen, table)
