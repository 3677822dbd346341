"""Scenario 5: latency at a fixed rate, half of what oha gets out of vote-status at the most.

A competitor that this rate would push too far is asked for half of its own maximum instead, and the report
says so.
"""

from lib import figures, oha
from lib.competitor import PATH
from lib.process import Failed

CALIBRATION_SECONDS = 1
# The common rate is for those whose own maximum is at least this share of vote-status's.
SHARE_MIN = 0.75


def measure(fleet, options, reference, cpu, progress):
    """{label: [figures, …]}, each with the rate that was asked for; `reference` sets the common one."""
    most = {}
    for started in fleet.running:
        progress.step(f"scenario 5 · maximum · {started.label}")
        try:
            most[started.label] = oha.maximum(started.url + PATH, CALIBRATION_SECONDS, cpu)
        except Failed as error:
            fleet.failed.append((started.label, str(error)))
    base = most.get(reference) or max(most.values(), default=0)
    runs = {}
    for number in range(options.pairs):
        order = fleet.running if number % 2 == 0 else fleet.running[::-1]
        for started in order:
            if started.label not in most or (options.quick and number > 0 and started.label in fleet.slow):
                continue
            own = most[started.label]
            rate = int((base if own >= base * SHARE_MIN else own) / 2)
            progress.step(f"scenario 5 · {rate:,} a second · {started.label} · round {number + 1}")
            try:
                run = _once(started, rate, options.seconds, cpu)
            except Failed as error:
                fleet.failed.append((started.label, str(error)))
                continue
            runs.setdefault(started.label, []).append({"round": number, "rate": rate, **run})
    return runs


def _once(started, rate, seconds, cpu):
    before = started.cpu_time()
    counted = oha.fixed_rate(started.url + PATH, rate, seconds, cpu)
    run = figures.of_run(counted, started.cpu_time() - before, started.memory())
    run["rate_met"] = run["requests_per_second"] >= rate * oha.RATE_MET
    return run
