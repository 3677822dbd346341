"""criterion's benchmarks of the bytes-to-bytes function beside httparse alone, on the same heads."""

import json

from lib import paths
from lib.process import build

HEADS = ("curl", "guzzle", "browser")
_COMMAND = ["cargo", "bench", "--locked", *paths.FEATURES, "--bench", "service"]
_ONLY = "^respond/(can_vote|httparse alone)/"


def build_only(log):
    """Builds the benchmarks, or raises Missing."""
    build([*_COMMAND, "--no-run"], log, cwd=paths.REPOSITORY)


def measure(quick, cpu, log):
    """{head: median response time / median httparse time}, measured now on that CPU; or raises Missing."""
    length = ["--warm-up-time", "0.5", "--measurement-time", "1"] if quick else []
    command = ["taskset", "-c", str(cpu), *_COMMAND, "--", _ONLY, "--noplot", *length]
    build(command, log, cwd=paths.REPOSITORY)
    return {head: _median(f"can_vote/{head}") / _median(f"httparse alone/{head}") for head in HEADS}


def _median(name):
    """Nanoseconds, as criterion left them."""
    estimates = paths.SERVICE_TARGET / "criterion" / "respond" / name / "new" / "estimates.json"
    return json.loads(estimates.read_text())["median"]["point_estimate"]
