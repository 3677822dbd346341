"""Tells schemathesis how lines of JSON are sent: as the text that they are."""

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(_context, value):
    """The bytes of a body."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
