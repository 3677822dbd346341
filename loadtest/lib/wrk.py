"""wrk with the scripts of loadtest/wrk, one thread."""

import json
import os
import shutil

from lib import paths, process


def version():
    """wrk's version, or None where it is not installed (Debian: wrk)."""
    if not shutil.which("wrk"):
        return None
    said = process.output(["wrk", "--version"])
    return " ".join((said.stdout + said.stderr).split("\n")[0].split()[:2])


def run(url, script, arguments, connections, seconds, cpu):
    """Runs wrk once; returns what the script printed (see loadtest/wrk/report.lua)."""
    command = ["taskset", "-c", cpu, "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s"]
    command += ["-s", paths.LOADTEST / "wrk" / script, url, *(["--", *arguments] if arguments else [])]
    done = process.output(command, timeout=seconds + 60, env={**os.environ, "LC_ALL": "C"})
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line.removeprefix("RESULT "))
    raise process.Failed(f"wrk {script} gave no result: {(done.stdout + done.stderr).strip()[-200:]}")


def rate(port, path, script, seconds, *arguments):
    """64 connections on whatever CPU is free: requests a second, and the p99 in µs. An error fails."""
    said = run(f"http://127.0.0.1:{port}{path}", script, arguments, 64, seconds, process.EVERY_CPU)
    if sum(said["errors"].values()):
        raise process.Failed(f"{script}: {said['errors']}")
    return said["requests"] / said["duration_us"] * 1e6, said["latency_us"]["p99"]
