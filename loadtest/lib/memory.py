"""Memory of idle connections, of live cooldowns, and after an hour's worth of churn."""

import resource
import socket
import time

from lib.competitor import PATH
from lib.control import SERVERS
from lib.process import Failed

# With as many live votes as the table holds, spread over the 90 minutes, this share of them comes and
# goes in an hour.
HOUR_SHARE = 60 / 90
# A quick run takes six minutes' worth.
QUICK_SHARE = 6 / 90
COOLDOWN_SECONDS = 90 * 60
CHURN_LIFE_SECONDS = 3
BATCH_LINES = 10_000
# Descriptors that this process needs beside the idle connections.
DESCRIPTORS_SPARE = 200
SETTLE_SECONDS = 10


def idle(started, connections):
    """Bytes per kept connection that has had one answer and is idle now."""
    wanted = min(connections, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - DESCRIPTORS_SPARE)
    request = f"GET {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    before = started.memory()
    sockets = []
    try:
        for _ in range(wanted):
            client = socket.create_connection(("127.0.0.1", started.port), timeout=10)
            sockets.append(client)
            client.sendall(request)
            if not client.recv(4096).startswith(b"HTTP/1.1 200"):
                raise Failed(f"connection {len(sockets)} was not answered")
        return {"connections": wanted, **_each(before, started.memory(), wanted)}
    except OSError as error:
        raise Failed(f"connection {len(sockets)}: {error}") from error
    finally:
        for client in sockets:
            client.close()


def cooldowns(started, count):
    """Bytes per live cooldown, from the memory before and after they were loaded."""
    return {"cooldowns": count, **_each(started.memory_before, started.memory_loaded, count)}


def _each(before, after, count):
    return {
        "rss_bytes_each": (after.rss - before.rss) / count,
        "pss_bytes_each": (after.pss - before.pss) / count,
        "rss_bytes": after.rss,
    }


def churn(started, count, share, progress):
    """Memory before and after votes, that share of the live ones, that came and expired on top of them."""
    votes = int(count * share) // BATCH_LINES * BATCH_LINES
    control, before = started.open_control(), started.memory()
    for done in range(0, votes, BATCH_LINES):
        voted_at = int(time.time()) - COOLDOWN_SECONDS + CHURN_LIFE_SECONDS
        control.text("POST", "/v1/votes/batch", _lines(done, voted_at), "application/x-ndjson")
        progress.say(f"memory · churn · {done:,} of {votes:,} votes")
    # The votes live for three seconds. Memory that the sweep has not given back by then stays in the figure.
    time.sleep(SETTLE_SECONDS)
    after = started.memory()
    return {"votes": votes, "share": share, "rss_bytes_before": before.rss, "rss_bytes_after": after.rss}


def _lines(done, voted_at):
    """One batch: addresses in 140.0.0.0/8 for one server, never twice in a run."""
    server = SERVERS[done // BATCH_LINES % len(SERVERS)]
    first, last = f'{{"server_id":{server},"ip":"140.', f'","voted_at":{voted_at}}}\n'
    numbers = range(done, done + BATCH_LINES)
    return "".join([f"{first}{each >> 16 & 255}.{each >> 8 & 255}.{each & 255}{last}" for each in numbers])
