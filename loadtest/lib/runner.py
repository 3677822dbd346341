"""Alternating rounds: each times every competitor once, there and back, so that drift hits all alike."""

from lib import figures, wrk
from lib.process import Failed
from lib.writer import Writer


class NothingAnswered(Failed):
    """The load ran, and not one answer came."""


def time_variant(variant, fleet, options, cpu, progress):
    """The runs of every competitor at one variant: {label: [figures, …]}; failures go to `fleet.failed`."""
    runs = {started.label: [] for started in fleet.running}
    for number in range(options.pairs):
        order = fleet.running if number % 2 == 0 else fleet.running[::-1]
        for started in order:
            if options.quick and number > 0 and started.label in fleet.slow:
                continue
            where = f"scenario {variant.scenario} · {variant.key} · {started.label}"
            progress.step(f"{where} · round {number + 1}/{options.pairs}")
            try:
                run = _time_or_again(variant, started, options.seconds, cpu)
            except (Failed, OSError) as error:
                fleet.failed.append((started.label, f"{variant.key}: {error}"))
                continue
            runs[started.label].append({"round": number, **run})
    return {label: found for label, found in runs.items() if found}


def _time_or_again(variant, started, seconds, cpu):
    """On a busy machine a short run can starve as a whole; that says nothing about the competitor."""
    try:
        return time_once(variant, started, seconds, cpu)
    except NothingAnswered:
        return time_once(variant, started, seconds, cpu)


def time_once(variant, started, seconds, cpu):
    """One timed run: the load, the server's CPU time during it, and its memory after it."""
    if not started.alive():
        raise Failed("it has ended")
    before = started.cpu_time()
    if variant.writes:
        with Writer(started.votes) as writer:
            counted = _load(variant, started, seconds, cpu)
    else:
        counted = _load(variant, started, seconds, cpu)
    run = figures.of_run(counted, started.cpu_time() - before, started.memory())
    if variant.writes:
        run["votes_per_second"] = writer.votes / max(writer.seconds, 1e-9)
        if writer.error:
            raise Failed(f"the votes beside it failed: {writer.error}")
    if run["requests"] == 0:
        raise NothingAnswered(f"no request was answered: {run['errors']}")
    return run


def _load(variant, started, seconds, cpu):
    url = started.url + variant.path
    return wrk.run(url, variant.script, variant.arguments, variant.connections, seconds, cpu)
