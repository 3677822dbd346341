"""criterion's benchmarks of the bytes-to-bytes function beside httparse alone, on the same heads."""

import json

from lib import paths
from lib.peers import run

HEADS = ("curl", "guzzle", "browser")
_COMMAND = ["cargo", "bench", "--locked", "--bench", "service"]
_ONLY = "^respond/(can_vote|httparse alone)/"


def build(log):
    """Builds the benchmarks, or raises Missing."""
    run([*_COMMAND, "--no-run"], log, cwd=paths.REPOSITORY)


def measure(quick, cpu, log):
    """{head: median response time / median httparse time}, measured now on that CPU; or raises Missing."""
    length = ["--warm-up-time", "0.5", "--measurement-time", "1"] if quick else []
    command = ["taskset", "-c", str(cpu), *_COMMAND, "--", _ONLY, "--noplot", *length]
    run(command, log, cwd=paths.REPOSITORY)
    return {
        head: _median(f"respond/can_vote/{head}") / _median(f"respond/httparse alone/{head}") for head in HEADS
    }


def _median(name):
    """Nanoseconds, as criterion left them."""
    estimates = paths.SERVICE_TARGET / "criterion" / name / "new" / "estimates.json"
    return json.loads(estimates.read_text())["median"]["point_estimate"]
