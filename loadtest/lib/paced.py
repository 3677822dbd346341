"""Votes at a steady rate, cast through a node by a process of its own until it is ended:

    python3 -m lib.paced CONTROL_PORT KEY VOTES_A_SECOND FIRST

One batch that never ends; it holds its rate in steps of 10 ms. Votes are for servers 28 to 77.
"""

import http.client
import os
import sys
import time

from lib import paths, process

STEP_SECONDS = 0.01
SERVERS = range(28, 78)


def start(node, rate, first, cpus):
    """Such a process, once its votes come in; to be stopped."""
    command = [sys.executable, "-B", "-m", "lib.paced", node.control_port, node.key, rate, first]
    log = paths.RUN / "paced.log"
    count = lambda: node.control.request("GET", "/v1/cluster")["n"]  # noqa: E731
    before = count()
    started = process.spawn(command, cpus, log, cwd=paths.LOADTEST, env=dict(os.environ))
    process.wait_until(started, lambda: count() > before + rate / 10, log)
    return started


def lines(rate, first):
    began, sent = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - began) * rate)
        votes = range(first + sent, first + due)
        if votes:
            yield "".join(map(_line, votes)).encode()
        sent = due
        time.sleep(STEP_SECONDS)


def _line(nth):
    ip = f"{11 + nth // 16777216 % 90}.{nth // 65536 % 256}.{nth // 256 % 256}.{nth % 256}"
    return f'{{"server_id":{SERVERS[nth % len(SERVERS)]},"ip":"{ip}"}}\n'


def main(port, key, rate, first):
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=600)
    headers = {"Authorization": f"Bearer {key}", "Transfer-Encoding": "chunked"}
    path = "/v1/votes/batch?mode=cast"
    connection.request("POST", path, lines(int(rate), int(first)), headers, encode_chunked=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
