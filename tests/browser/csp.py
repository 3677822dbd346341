#!/usr/bin/env python3
"""Writes the Content-Security-Policy of each page; with --check, only tells whether they are current.

Owns what a page may do: run its one script and use its one style, both named by their hash, and
connect to its own service. Also holds the pages to having no outside asset.
"""

import base64
import hashlib
import pathlib
import re
import sys

PAGES = pathlib.Path(__file__).resolve().parents[2] / "src" / "pages"
NAMES = ("public", "control")


def source(page, tag):
    """The hash of the one element of this kind, as the browser computes it."""
    contents = re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", page, re.DOTALL)
    if len(contents) != 1:
        raise SystemExit(f"a page has one <{tag}>, not {len(contents)}")
    digest = hashlib.sha256(contents[0].encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def policy(page):
    """The value of the header as it is sent: without a line end, so that it can be embedded as it is."""
    rules = (
        "default-src 'none'",
        f"script-src {source(page, 'script')}",
        f"style-src {source(page, 'style')}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return "; ".join(rules)


def check_page(name, page):
    """What the policy cannot say."""
    # The style's and the script's own addresses are none: only attributes and url() load anything.
    loads = re.findall(r"(?:\bsrc=|\burl\(|@import|<link[^>]+href=\"(?!data:))[^>]*", page)
    handlers = re.findall(r"<[^>]+\s(?:on[a-z]+|style)=", page)
    if loads or handlers:
        raise SystemExit(f"{name}.html loads or runs something of its own accord: {loads + handlers}")


def main():
    stale = []
    for name in NAMES:
        page = (PAGES / f"{name}.html").read_text("utf-8")
        check_page(name, page)
        file = PAGES / f"{name}.csp"
        wanted = policy(page)
        if sys.argv[1:] != ["--check"]:
            file.write_text(wanted, "utf-8")
        elif not file.exists() or file.read_text("utf-8") != wanted:
            stale.append(file.name)
    if stale:
        raise SystemExit(f"{', '.join(stale)}: not current, run tests/browser/csp.py")


main()
