"""Builds what a run needs: oha, the benchmarks, and each competitor's own part. Knows no figure."""

import os
from concurrent.futures import ThreadPoolExecutor

from lib import bench, oha, paths
from lib.process import Missing, build

# oha is only the load generator: a quick build of it is good enough. Its TLS is never used, and the system's library
# builds fastest.
_OHA_PROFILE = {
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "1",
}


def everything(competitors, options, progress):
    """Builds all; returns ([competitor that can take part, …], {name: why another cannot})."""
    paths.WORK.mkdir(parents=True, exist_ok=True)
    missing = {}

    def attempt(name, build_it):
        log = paths.WORK / f"build-{name}.log"
        log.unlink(missing_ok=True)
        try:
            build_it(log)
        except Missing as reason:
            missing[name] = str(reason)

    # oha takes the longest, and a good part of that on one CPU: the rest is built beside it.
    with ThreadPoolExecutor(max_workers=1) as beside:
        if "latency" in options.scenarios:
            beside.submit(attempt, "oha", _oha)
        for competitor in competitors:
            progress.say(f"building {competitor.name}")
            attempt(competitor.name, competitor.build)
        if bench_wanted(options):
            progress.say("building the benchmarks")
            attempt("criterion", bench.build_only)
        progress.say("building oha")
    return [each for each in competitors if each.name not in missing], missing


def bench_wanted(options):
    """The benchmarks stand beside keep-alive; they are of the tree, not of a binary from elsewhere."""
    return "keep-alive" in options.scenarios and not options.binary


def _oha(log):
    if oha.PROGRAM.exists():
        return
    environment = {**os.environ, **_OHA_PROFILE, "CARGO_TARGET_DIR": str(paths.TOOLS / "target")}
    command = ["cargo", "install", "oha", "--version", oha.VERSION, "--locked", "--root", paths.TOOLS]
    build([*command, "--no-default-features", "--features", "native-tls"], log, env=environment)
