"""Starts the service for a test and stops it again, asks it, and stands in for something else.

Owns the process and where it listens; knows nothing of what is asked of it. Shared by the checks in
tests/samples, tests/openapi, tests/php and tests/browser.
"""

import argparse
import contextlib
import http.server
import json
import os
import pathlib
import socket
import struct
import subprocess
import threading
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEY = "a-key-for-tests"
# Where the demonstration's one vote stands.
DEMO_COOLING = "198.51.100.9"
START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 20
ANSWER_SECONDS_MAX = 20


class Service:
    """A running demonstration: server 28, token demo, one address in cooldown."""

    def __init__(self, public, control):
        self.public = public
        self.control = control
        self.key = KEY

    def vote(self, *ips):
        """Records a vote for server 28 by a voter with these addresses; when they may vote again."""
        _, body = ask("POST", f"{self.control}/v1/votes", json.dumps({"server_id": 28, "ips": ips}), KEY)
        return json.loads(body)["next_vote_at"]


def ask(method, url, body=None, key=None):
    """Status and body of an answer, whatever the status."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = urllib.request.Request(url, body and body.encode(), headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS_MAX) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as fault:
        return fault.code, fault.read()


@contextlib.contextmanager
def answering(answer):
    """A server of which `answer` says the status and the body: a proxy's page, another service, a broken one.

    A status of 0 resets the connection.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = answer(self.path)
            if status == 0:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def arguments(description):
    """The command line that all checks share."""
    parser = argparse.ArgumentParser(description=description)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    default = target / "debug" / "vote-status"
    parser.add_argument("--binary", type=pathlib.Path, default=default, help="the service's program (%(default)s)")
    return parser


@contextlib.contextmanager
def running(binary):
    """The demonstration, on ports of the system's choice."""
    command = [binary, "serve", "--demo", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]
    environment = {**os.environ, "VOTE_STATUS_CONTROL_KEY": KEY}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True)
    # A service that never says where it listens is killed, which ends the reading below.
    deadline = threading.Timer(START_SECONDS_MAX, process.kill)
    deadline.start()
    try:
        addresses = _addresses(process.stdout)
        deadline.cancel()
        yield Service("http://" + addresses["public"], "http://" + addresses["control"])
        if process.poll() is not None:
            raise SystemExit(f"the service ended during the check, status {process.returncode}")
    finally:
        deadline.cancel()
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _addresses(lines):
    addresses = {}
    for line in lines:
        _, _, address, role = line.split()
        addresses[role.strip("()")] = address
        if len(addresses) == 2:
            return addresses
    raise SystemExit("the service ended before it listened")
