"""Alternating rounds: each times every competitor once, there and back, so that drift hits all alike."""

import threading
import time

from lib import figures, wrk
from lib.process import Failed

VOTES_PER_SECOND = 1000


class NothingAnswered(Failed):
    """The load ran, and not one answer came."""


def rounds(fleet, options):
    """(number of the round, competitor), in the order in which they are timed."""
    for number in range(options.pairs):
        for started in fleet.running if number % 2 == 0 else fleet.running[::-1]:
            if not (options.quick and number > 0 and started.competitor.slow):
                yield number, started


def time_variant(variant, fleet, options, cpu, progress):
    """The runs of every competitor at one variant: {label: [figures, …]}; failures go to `fleet.failed`."""
    runs = {}
    for number, started in rounds(fleet, options):
        where = f"{variant.scenario} · {variant.key} · {started.label}"
        progress.say(f"{where} · round {number + 1}/{options.pairs}")
        with fleet.noting(started.label, f"{variant.key}: "):
            try:
                run = time_once(variant, started, options.seconds, cpu)
            except NothingAnswered:
                # On a busy machine a short run can starve as a whole, which says nothing about the competitor.
                run = time_once(variant, started, options.seconds, cpu)
            runs.setdefault(started.label, []).append({"round": number, **run})
    return runs


def time_once(variant, started, seconds, cpu):
    """One timed run: the load, the server's CPU time during it, and its memory after it."""
    if not started.alive():
        raise Failed("it has ended")
    url = started.url + variant.path
    load = variant.script, variant.arguments, variant.connections, seconds, cpu
    if not variant.writes:
        return measured(started, lambda: wrk.run(url, *load))
    with Writer(started) as writer:
        run = measured(started, lambda: wrk.run(url, *load))
    if writer.error:
        raise Failed(f"the votes beside it failed: {writer.error}")
    return {**run, "votes_per_second": writer.votes / max(writer.seconds, 1e-9)}


def measured(started, load):
    """The figures of one run of a load generator."""
    before = started.cpu_time()
    counted = load()
    run = figures.of_run(counted, started.cpu_time() - before, started.memory())
    if run["requests"] == 0:
        raise NothingAnswered("no request was answered")
    return run


class Writer:
    """Votes beside the reads, at a fixed rate, each on its own, from `with` to its end. Where an answer takes longer
    than the rate allows, the next vote follows at once."""

    def __init__(self, started):
        self._cast = started.open_caster()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer")
        self.votes, self.seconds, self.error = 0, 0.0, None

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _run(self):
        began = time.monotonic()
        try:
            while not self._stop.is_set():
                self._cast(next(_ADDRESSES))
                self.votes += 1
                ahead = began + self.votes / VOTES_PER_SECOND - time.monotonic()
                if ahead > 0:
                    self._stop.wait(ahead)
        except Exception as error:  # whatever ended it, the report says so
            self.error = repr(error)
        self.seconds = time.monotonic() - began


# Addresses that no other part of the run uses, so that every vote is a new one.
_ADDRESSES = (f"130.{nth >> 16 & 255}.{nth >> 8 & 255}.{nth & 255}" for nth in range(1 << 24))
