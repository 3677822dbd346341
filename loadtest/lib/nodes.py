"""A cluster for a load test: Redis servers with the settings of docs/CLUSTER.md, and nodes on them."""

import os
import secrets
import socket
import subprocess
import time

from lib import paths, process
from lib.control import Control
from lib.service import ports as ports_of

SETTINGS = {
    "appendonly": "yes",
    "appendfsync": "always",
    "save": "",
    "maxmemory-policy": "noeviction",
    "zset-max-listpack-entries": "512",
    "repl-backlog-size": "64mb",
    "tcp-keepalive": "30",
    "repl-diskless-sync-delay": "0",
}
COOLDOWN_SECONDS = 90 * 60
EVERY_CPU = ",".join(map(str, sorted(os.sched_getaffinity(0))))
# A port below those that the kernel gives to connections: a Redis that was killed gets its own again.
_next_port = 12_000 + os.getpid() % 1_000 * 20


def free_port():
    global _next_port
    while True:
        _next_port += 1
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", _next_port))
                return _next_port
            except OSError:
                continue


class Redis:
    """A redis-server of this run's own."""

    def __init__(self, name, settings=None, cpus=EVERY_CPU):
        self.folder, self.port, self.cpus = paths.fresh(name), free_port(), cpus
        self.settings = {**SETTINGS, **(settings or {})}
        self.log = self.folder / "redis.log"
        self.start()

    def start(self):
        command = ["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--dir", self.folder]
        for name, value in self.settings.items():
            command += [f"--{name}", *(value if isinstance(value, list) else [value])]
        self.process = process.spawn(command, self.cpus, self.log)
        process.wait_until(self.process, self._answers, self.log)

    def _answers(self):
        try:
            return self.ask("PING") == "PONG"
        except (OSError, process.Failed):
            return False

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def connect(self):
        return Connection(self.port)

    def ask(self, *words):
        """One question on a connection of its own."""
        connection = self.connect()
        try:
            return connection.ask(*words)
        finally:
            connection.close()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def memory(self):
        return int(self.ask("INFO", "memory").split("used_memory:")[1].split()[0])


class Sentinel:
    """A Sentinel that watches one primary under the name `votes`; two of three have to agree."""

    def __init__(self, name, primary):
        folder, self.port = paths.fresh(name), free_port()
        file = folder / "sentinel.conf"
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"sentinel monitor votes 127.0.0.1 {primary.port} 2",
            "sentinel down-after-milliseconds votes 1000",
            "sentinel failover-timeout votes 5000",
        ]
        file.write_text("\n".join(lines) + "\n")
        log = folder / "sentinel.log"
        self.process = process.spawn(["redis-server", file, "--sentinel"], EVERY_CPU, log)
        process.wait_until(self.process, lambda: process.accepts(self.port), log)

    @staticmethod
    def wait_for_each_other(sentinels, replicas):
        for each in sentinels:
            connection = Connection(each.port)
            deadline = time.monotonic() + 30
            while (
                len(connection.ask("SENTINEL", "sentinels", "votes")) < len(sentinels) - 1
                or len(connection.ask("SENTINEL", "replicas", "votes")) < replicas
            ):
                if time.monotonic() > deadline:
                    raise process.Failed("the Sentinels do not find each other")
                time.sleep(0.1)
            connection.close()


class Connection:
    """A connection that asks; replies as Python values."""

    def __init__(self, port):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._replies = self._socket.makefile("rb")

    def ask(self, *words):
        self.send(command(words))
        return self.read()

    def send(self, sent):
        self._socket.sendall(sent)

    def read(self):
        line = self._replies.readline()
        kind, rest = line[:1], line[1:].strip()
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"$" and int(rest) >= 0:
            return self._replies.read(int(rest) + 2)[:-2].decode()
        if kind == b"*" and int(rest) >= 0:
            return [self.read() for _ in range(int(rest))]
        if kind in (b"$", b"*"):
            return None
        raise process.Failed(f"redis said {line[:100]!r}")

    def close(self):
        self._replies.close()
        self._socket.close()


def command(words):
    parts = [f"*{len(words)}\r\n".encode()]
    for word in words:
        word = str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Node:
    """One vote-status on a store that nodes share, over several starts."""

    def __init__(self, binary, store, name, more=(), cpus=EVERY_CPU, key=None):
        self.binary, self.store, self.more, self.cpus = binary, store, list(more), cpus
        self.folder, self.key = paths.fresh(name), key or secrets.token_hex(16)
        self.log = self.folder / "stderr.log"
        self.listen = self.listen_control = "127.0.0.1:0"
        self.ready_seconds = self.start()

    def start(self):
        """Seconds until it was ready. It keeps its ports over a restart."""
        command = [self.binary, "serve", "--workers", "1", "--listen", self.listen, "--control", self.listen_control]
        command += ["--data-dir", self.folder / "data", "--store", self.store, *self.more]
        environment = {**os.environ, "VOTE_STATUS_CONTROL_KEY": self.key}
        began = time.monotonic()
        self.process = process.spawn(
            command, self.cpus, self.log, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.port, self.control_port = ports_of(self.process, self.log)
        self.listen, self.listen_control = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.control_port}"
        self.control = Control(self.control_port, self.key)
        return time.monotonic() - began

    def kill(self):
        self.process.kill()
        self.process.wait()


def init(binary, store):
    """Makes an empty Redis a store."""
    done = subprocess.run(
        [binary, "cluster", "init", "--store", store], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise process.Failed(f"cluster init: {done.stderr}")


def fill(redis, votes, servers):
    """That many votes, spread evenly over servers and over the last hour, as nodes would have left them."""
    connection, now = redis.connect(), int(redis.ask("TIME")[0])
    each = votes // servers
    body = b"".join(
        b"$10\r\n%d\r\n$10\r\n%d\r\n" % (now - nth * 7919 % 3600, 0xCB000000 + nth) for nth in range(each)
    )
    for server in range(1000, 1000 + servers):
        key = b"vs:{0}:s:%d" % server
        expire = command(["PEXPIRE", key.decode(), (COOLDOWN_SECONDS + 60) * 1000])
        token = f"load-{server}"
        listed = command(["HSET", "vs:{0}:dir", server, f"v1;{token}"])
        named = command(["HSET", "vs:{0}:tok", token, server])
        head = b"*%d\r\n$4\r\nZADD\r\n$%d\r\n%s\r\n" % (2 + 2 * each, len(key), key)
        connection.send(head + body + expire + listed + named)
        try:
            for _ in range(4):
                connection.read()
        except (OSError, process.Failed) as error:
            said = process.tail(redis.log)
            raise process.Failed(f"{error}; the process: {redis.process.poll()}; {said}") from error
    connection.close()
