"""Latency at a fixed rate, half of what oha gets out of vote-status at the most.

A competitor that this rate would push too far is asked for half of its own maximum instead, and the report
says so.
"""

from lib import oha, runner
from lib.competitor import PATH

CALIBRATION_SECONDS = 1
# The common rate is for competitors whose own maximum is at least this share of vote-status's.
SHARE_MIN = 0.75


def measure(fleet, options, reference, cpu, progress):
    """{label: [figures, …]}, each with the rate that was asked for; `reference` sets the common one."""
    most = {}
    for started in fleet.running:
        progress.say(f"latency · maximum · {started.label}")
        with fleet.noting(started.label):
            most[started.label] = oha.maximum(started.url + PATH, CALIBRATION_SECONDS, cpu)
    base = most.get(reference) or max(most.values(), default=0)
    runs = {}
    for number, started in runner.rounds(fleet, options):
        if (own := most.get(started.label)) is None:
            continue
        rate = int((base if own >= base * SHARE_MIN else own) / 2)
        progress.say(f"latency · {rate:,} a second · {started.label} · round {number + 1}")
        with fleet.noting(started.label):
            run = runner.measured(started, lambda: oha.fixed_rate(started.url + PATH, rate, options.seconds, cpu))
            rate_met = run["requests_per_second"] >= rate * oha.RATE_MET
            runs.setdefault(started.label, []).append({"round": number, "rate": rate, "rate_met": rate_met, **run})
    return runs
