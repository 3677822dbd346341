"""Builds what a run needs: oha, and each competitor's own part. Knows no figure."""

import os
from concurrent.futures import ThreadPoolExecutor

from lib import bench, oha, paths
from lib.competitor import Missing
from lib.peers import run

# oha is only the load generator: a quick build of it is good enough. Its TLS is never used; the system's
# library builds much faster than the bundled one where its headers are there.
_OHA_PROFILE = {
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "1",
}


def everything(competitors, options, progress):
    """Builds all; returns ([competitor that can take part, …], {name: why another cannot})."""
    paths.WORK.mkdir(parents=True, exist_ok=True)
    missing = {}
    ready = []
    # oha takes the longest, and a good part of that on one CPU: the rest is built beside it.
    with ThreadPoolExecutor(max_workers=1) as beside:
        if 5 in options.scenarios:
            beside.submit(_attempt, "oha", _oha, missing)
        for competitor in competitors:
            progress.say(f"building {competitor.name}")
            if _attempt(competitor.name, competitor.build, missing):
                ready.append(competitor)
        if bench_wanted(options):
            progress.say("building the benchmarks")
            _attempt("criterion", bench.build, missing)
        progress.say("building oha")
    return ready, missing


def bench_wanted(options):
    """The benchmarks stand beside scenario 1; they are of the tree, not of a binary from elsewhere."""
    return 1 in options.scenarios and not options.binary


def _attempt(name, build, missing):
    log = paths.WORK / f"build-{name}.log"
    log.unlink(missing_ok=True)
    try:
        build(log)
        return True
    except Missing as reason:
        missing[name] = str(reason)
        return False


def _oha(log):
    if oha.PROGRAM.exists():
        return
    environment = {**os.environ, **_OHA_PROFILE, "CARGO_TARGET_DIR": str(paths.TOOLS / "target")}
    command = ["cargo", "install", "oha", "--version", oha.VERSION, "--locked", "--root", paths.TOOLS]
    try:
        run([*command, "--no-default-features", "--features", "native-tls"], log, env=environment)
    except Missing:
        run(command, log, env=environment)
