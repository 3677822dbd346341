#!/usr/bin/env python3
"""Puts the samples' text into the documentation page; with --check, only tells whether it is there.

Owns that the page shows the files of this folder as they stand. What they print is for run to check.
"""

import html
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "src" / "pages" / "public.html"
# The page has a bound on its bytes: wait.js is here alone.
SAMPLES = ("status.sh", "status.php", "status.js", "status.py", "wait.sh", "wait.php", "wait.py")
PLACE = re.compile(r'(<pre [^>]*data-sample="([^"]+)">)(.*?)(</pre>)', re.DOTALL)


def filled(page):
    """The page with every sample in its place."""

    def fill(match):
        text = (HERE / match[2]).read_text("utf-8").rstrip("\n")
        return match[1] + html.escape(text, quote=False) + match[4]

    named = tuple(match[2] for match in PLACE.finditer(page))
    if named != SAMPLES:
        raise SystemExit(f"{PAGE.name} has places for {named}, not for {SAMPLES}")
    return PLACE.sub(fill, page)


def main():
    page = PAGE.read_text("utf-8")
    wanted = filled(page)
    if sys.argv[1:] != ["--check"]:
        PAGE.write_text(wanted, "utf-8")
    elif page != wanted:
        raise SystemExit(f"{PAGE.name} does not show the samples as they are: run tests/samples/embed.py")
    print(f"{PAGE.name} shows {', '.join(SAMPLES)}")


main()
