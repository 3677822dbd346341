"""The command line of `loadtest/run`: what was typed, checked."""

import argparse
from pathlib import Path

from lib.paths import WORK

SCENARIOS = range(1, 8)


def parse(arguments, names):
    """The options; `names` are the competitors that exist."""
    parser = argparse.ArgumentParser(
        prog="loadtest/run",
        description="Times vote-status beside the plainest epoll loop and its peers. See loadtest/README.md.",
    )
    parser.add_argument(
        "--quick", action="store_true", help="everything once, within 10 minutes, builds included"
    )
    parser.add_argument(
        "--peers", type=_list_of(names), metavar="A,B", help="only these: " + ", ".join(names)
    )
    parser.add_argument(
        "--scenarios", type=_list_of(list(map(str, SCENARIOS))), metavar="1,2", help="only these of 1 to 7"
    )
    parser.add_argument(
        "--seconds", type=_whole(1, 600), help="length of one timed run (default 10; quick 1)"
    )
    parser.add_argument("--pairs", type=_whole(1, 100), help="alternating rounds (default 5)")
    parser.add_argument(
        "--cooldowns",
        type=_whole(10_000, 10_000_000),
        default=10_000_000,
        help="live cooldowns in scenarios 4 and 7 (default 10000000)",
    )
    parser.add_argument(
        "--connections",
        type=_whole(10, 100_000),
        default=10_000,
        help="idle connections in scenario 7 (default 10000)",
    )
    parser.add_argument("--binary", type=Path, help="measure this vote-status instead of building one")
    parser.add_argument(
        "--output",
        type=Path,
        default=WORK / "report",
        help="folder for the report (default loadtest/work/report)",
    )
    options = parser.parse_args(arguments)
    options.seconds = options.seconds or (1 if options.quick else 10)
    options.pairs = options.pairs or 5
    options.scenarios = [int(number) for number in options.scenarios or map(str, SCENARIOS)]
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
