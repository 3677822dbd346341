"""What a page may do, as the service sends it: run its one script and use its one style, both named by their hash.

The hashes are computed here a second time, from the page that is served. A page loads nothing from elsewhere.
"""

import base64
import hashlib
import re
import urllib.request


def source(page, tag):
    """The hash of the one element of this kind, as the browser computes it."""
    contents = re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", page, re.DOTALL)
    if len(contents) != 1:
        raise SystemExit(f"a page has one <{tag}>, not {len(contents)}")
    digest = hashlib.sha256(contents[0].encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def check(url):
    """The page of a listener, and its header."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        page, sent = answer.read().decode("utf-8"), answer.headers["Content-Security-Policy"]
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
    if sent != "; ".join(rules):
        raise SystemExit(f"{url}: the policy is\n  {sent}\nand should be\n  {'; '.join(rules)}")
    # The style's and the script's own addresses are none: only attributes and url() load anything.
    loads = re.findall(r"(?:\bsrc=|\burl\(|@import|<link[^>]+href=\"(?!data:))[^>]*", page)
    handlers = re.findall(r"<[^>]+\s(?:on[a-z]+|style)=", page)
    if loads or handlers:
        raise SystemExit(f"{url} loads or runs something of its own accord: {loads + handlers}")
