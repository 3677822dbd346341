"""wrk: one thread on the load generator's CPU, the scripts of loadtest/wrk."""

import json
import os
import shutil
import subprocess

from lib import paths
from lib.process import Failed


def version():
    """wrk's version, or None where it is not installed (Debian: wrk)."""
    if not shutil.which("wrk"):
        return None
    said = subprocess.run(["wrk", "--version"], capture_output=True, text=True, check=False)
    return " ".join((said.stdout + said.stderr).split("\n")[0].split()[:2])


def run(url, script, arguments, connections, seconds, cpu):
    """Runs wrk once; returns what the script printed (see loadtest/wrk/report.lua)."""
    command = [
        "taskset",
        "-c",
        str(cpu),
        "wrk",
        "-t1",
        f"-c{connections}",
        f"-d{seconds}s",
        "--timeout",
        "10s",
    ]
    command += ["-s", str(paths.LOADTEST / "wrk" / script), url]
    command += ["--", *map(str, arguments)] if arguments else []
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds + 60,
        env={**os.environ, "LC_ALL": "C"},
    )
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line.removeprefix("RESULT "))
    raise Failed(f"wrk {script} gave no result: {(done.stdout + done.stderr).strip()[-200:]}")
