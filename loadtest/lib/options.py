"""The command line, read and checked."""

import argparse
from pathlib import Path

from lib.paths import WORK
from lib.plan import SCENARIOS


def parse(arguments, names):
    """The options; `names` are the competitors that exist."""
    parser = argparse.ArgumentParser(
        prog="loadtest/run",
        description="Measures vote-status, alone and beside its peers. See loadtest/README.md.",
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="everything in short: a look, not a measurement")
    add("--scenarios", type=_list_of(SCENARIOS), metavar="A,B", default=SCENARIOS, help="only these: " + ", ".join(SCENARIOS))
    add("--peers", type=_list_of(names), metavar="A,B", help="only these: " + ", ".join(names))
    add("--seconds", type=_whole(1, 600), help="length of one timed run at most (default 10; quick 1)")
    add("--pairs", type=_whole(1, 100), help="alternating rounds (default 5; quick 2)")
    held = "live cooldowns where there are many (default 10 million; quick 1 million)"
    add("--cooldowns", type=_whole(10_000, 10_000_000), help=held)
    idle = "idle connections (default %(default)s)"
    add("--connections", type=_whole(10, 100_000), default=10_000, help=idle)
    add("--binary", type=Path, help="measure this vote-status instead of building one")
    add("--baseline", type=Path, help="an earlier vote-status: for upgrade, and starts are timed beside it")
    add("--output", type=Path, default=WORK / "report", help="folder for the report (default loadtest/work/report)")
    options = parser.parse_args(arguments)
    options.seconds = options.seconds or (1 if options.quick else 10)
    options.pairs = options.pairs or (2 if options.quick else 5)
    options.cooldowns = options.cooldowns or (1_000_000 if options.quick else 10_000_000)
    return options


def _list_of(known):
    def parse_list(text):
        words = [word.strip() for word in text.split(",") if word.strip()]
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(known)}")
        return words

    return parse_list


def _whole(least, most):
    def parse_whole(text):
        number = int(text)
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{number} is not within {least} and {most}")
        return number

    return parse_whole
