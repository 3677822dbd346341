"""oha: latency at a fixed rate, corrected for coordinated omission. The scripts are in loadtest/oha."""

import json
import os

from lib import paths, process

VERSION = "1.16.0"
PROGRAM = paths.TOOLS / "bin" / "oha"
# A rate is met when at least this share of it was sent.
RATE_MET = 0.97


def maximum(url, seconds, cpu):
    """Requests a second that one oha on one CPU gets out of the server."""
    return _run(["maximum", url, seconds], seconds, cpu)["requests_per_second"]


def fixed_rate(url, rate, seconds, cpu):
    """The figures of one run at that rate."""
    return _run(["fixed_rate", url, rate, seconds], seconds, cpu)


def _run(words, seconds, cpu):
    command = ["taskset", "-c", cpu, paths.LOADTEST / "oha" / words[0], *words[1:]]
    done = process.output(command, timeout=seconds + 60, env={**os.environ, "OHA": str(PROGRAM)})
    if done.returncode != 0:
        raise process.Failed(f"oha: {done.stderr.strip()[-200:]}")
    return _figures(json.loads(done.stdout))


def _figures(said):
    percentiles = said["latencyPercentiles"]
    return {
        "requests": sum(said["statusCodeDistribution"].values()),
        "duration_us": said["summary"]["total"] * 1e6,
        "requests_per_second": said["summary"]["requestsPerSec"],
        "latency_us": {name: seconds * 1e6 for name, seconds in percentiles.items() if seconds is not None},
        # Requests that were under way when the time was up are not errors.
        "errors": {name: count for name, count in said["errorDistribution"].items() if "deadline" not in name},
    }
