"""The command lines: what was typed, checked."""

import argparse
import sys
from pathlib import Path

from lib.paths import BINARY, WORK

SCENARIOS = range(1, 8)


def parser(doc):
    """For a command that measures a binary which is there already."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--binary", type=Path, default=BINARY)
    return made


def parse_with_binary(made):
    options = made.parse_args()
    if not options.binary.exists():
        sys.exit(f"{options.binary} is not there: build it, as --help says, or name another with --binary")
    options.binary = options.binary.resolve()
    return options


def parse(arguments, names):
    """The options; `names` are the competitors that exist."""
    parser = argparse.ArgumentParser(
        prog="loadtest/run",
        description="Times vote-status beside the plainest epoll loop and its peers. See loadtest/README.md.",
    )
    add, numbers = parser.add_argument, [*map(str, SCENARIOS)]
    add("--quick", action="store_true", help="everything once, within 10 minutes, builds included")
    add("--peers", type=_list_of(names), metavar="A,B", help="only these: " + ", ".join(names))
    add("--scenarios", type=_list_of(numbers), metavar="1,2", default=numbers, help="only these of 1 to 7")
    add("--seconds", type=_whole(1, 600), help="length of one timed run (default 10; quick 1)")
    add("--pairs", type=_whole(1, 100), default=5, help="alternating rounds (default %(default)s)")
    held = "live cooldowns in scenarios 4 and 7 (default %(default)s)"
    add("--cooldowns", type=_whole(10_000, 10_000_000), default=10_000_000, help=held)
    idle = "idle connections in scenario 7 (default %(default)s)"
    add("--connections", type=_whole(10, 100_000), default=10_000, help=idle)
    add("--binary", type=Path, help="measure this vote-status instead of building one")
    add("--output", type=Path, default=WORK / "report", help="folder for the report (default loadtest/work/report)")
    options = parser.parse_args(arguments)
    options.seconds = options.seconds or (1 if options.quick else 10)
    options.scenarios = [*map(int, options.scenarios)]
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
