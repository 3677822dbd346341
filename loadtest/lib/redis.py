"""A Redis of a peer's own: started, filled, and spoken to in its protocol. No client library."""

import shutil
import socket
import time

from lib import paths, process
from lib.competitor import Missing
from lib.control import ADDRESSES, SERVERS

COOLDOWN_SECONDS = 90 * 60
COMMANDS_PER_WRITE = 10_000


def require():
    if not shutil.which("redis-server"):
        raise Missing("redis-server is not installed (Debian: redis-server)")


def start(label, setup, cpu):
    """A started redis-server with the cooldowns of the set-up: (process, port)."""
    folder = paths.fresh(f"{label}-redis")
    port, log = process.free_port(), folder / "redis.log"
    command = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
    command += ["--appendonly", "yes", "--appendfsync", "always"] if setup.durable else []
    started = process.spawn(command, cpu, log)
    process.wait_until(started, lambda: process.accepts(port), log)
    fill(port, setup.cooldowns)
    return started, port


class Connection:
    """One connection that sends commands and reads status replies."""

    def __init__(self, port):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._replies = self._socket.makefile("rb")

    def send(self, commands):
        """Sends them in one write and waits for as many replies of one line."""
        self._socket.sendall(b"".join(commands))
        for _ in commands:
            reply = self._replies.readline()
            if reply[:1] not in (b"+", b"$", b":"):
                raise process.Failed(f"redis said {reply[:100]!r}")

    def close(self):
        self._replies.close()
        self._socket.close()


def set_command(key, value, seconds=None):
    words = ["SET", key, value] + (["EX", str(seconds)] if seconds else [])
    return "".join([f"*{len(words)}\r\n"] + [f"${len(word)}\r\n{word}\r\n" for word in words]).encode()


def vote_command(server, ip):
    return set_command(f"cooldown:{server}:{ip}", str(int(time.time()) + COOLDOWN_SECONDS), COOLDOWN_SECONDS)


def fill(port, cooldowns):
    """The checked pair, the servers, and that many cooldowns spread over them."""
    connection = Connection(port)
    commands = [set_command("server:28", "1"), vote_command(28, "203.0.113.9")]
    commands += [set_command(f"server:{server}", "1") for server in SERVERS]
    connection.send(commands)
    each = cooldowns // len(SERVERS)
    for server in SERVERS if each else ():
        for at in range(0, each, COMMANDS_PER_WRITE):
            connection.send(
                [vote_command(server, ip) for ip in ADDRESSES[at : min(at + COMMANDS_PER_WRITE, each)]]
            )
    connection.close()
