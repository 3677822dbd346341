"""Where things are. Knows no process and no figure."""

import os
import shutil
from pathlib import Path

LOADTEST = Path(__file__).resolve().parent.parent
REPOSITORY = LOADTEST.parent
PEERS = LOADTEST / "peers"
WORK = LOADTEST / "work"
TOOLS = WORK / "tools"
SERVICE_TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
BINARY = SERVICE_TARGET / "release" / "vote-status"
# Those of a release. Every build of the run has them: cargo builds BINARY for the benchmarks too.
FEATURES = ["--features", "redis,tls"]
# The files of this run's processes, so that two runs at a time do not disturb each other.
RUN = WORK / "run" / str(os.getpid())


def fresh(name):
    """An empty folder of that name for one process's files."""
    folder = RUN / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def sweep():
    """Takes the files of this run away."""
    shutil.rmtree(RUN, ignore_errors=True)
