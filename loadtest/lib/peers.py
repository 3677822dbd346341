"""The competitors, vote-status among them: how each is built and started."""

import functools
import os
import re
import shutil
from pathlib import Path

from lib import paths, process, redis
from lib.competitor import Competitor, Running
from lib.control import Control
from lib.process import Missing, build
from lib.service import Service


class VoteStatus(Competitor):
    name = title = "vote-status"
    stateful = durable = True
    engine = None
    # A binary from the command line, which is used as it is.
    binary = None

    def build(self, log):
        if not self.binary:
            build(["cargo", "build", "--release", "--locked", *paths.FEATURES], log, cwd=paths.REPOSITORY)
            VoteStatus.binary = paths.BINARY
        if not self.binary.exists():
            raise Missing(f"there is no {self.binary}")

    def start(self, label, setup, cpu):
        more = ["--workers", "1"] + (["--engine", self.engine] if self.engine else [])
        service = Service(self.binary, label, more, cpu, in_memory=not setup.durable)
        control = service.control
        running = Running(service.port, [service.process])
        running.open_control = lambda: Control(service.control_port, service.key)
        running.open_caster = lambda: functools.partial(running.open_control().vote, 28)
        control.put_server(28)
        control.vote(28, "203.0.113.9")
        running.memory_before = running.memory()
        if setup.cooldowns:
            control.load(setup.cooldowns)
        running.memory_loaded = running.memory()
        return running


class SecondEngine(VoteStatus):
    name = engine = "may_minihttp"
    title = "may_minihttp"

    def build(self, log):
        super().build(log)
        if not re.search("possible values:.*may_minihttp", process.output([self.binary, "serve", "--help"]).stdout):
            raise Missing("this vote-status was built without the second engine")


class Limit(Competitor):
    name = "limit"
    title = "epoll loop"

    def build(self, log):
        _require(shutil.which("cc"), "no C compiler (Debian: gcc)")
        source, self.binary = paths.PEERS / "limit" / "limit.c", paths.WORK / "limit"
        build(["cc", "-O2", "-Wall", "-Wextra", "-o", self.binary, source], log)

    def start(self, label, setup, cpu):
        return _listening(label, cpu, lambda port: [self.binary, port])


class Nginx(Competitor):
    name = "nginx"
    title = "nginx"

    def build(self, log):
        _require(_nginx_program(), "nginx is not installed (Debian: nginx)")

    def start(self, label, setup, cpu):
        return _nginx("nginx/static.conf", label, cpu)


class Php(Competitor):
    """PHP behind nginx, with its state in a Redis of its own: the CPU time and memory of all three count."""

    name = "php-fpm"
    title = "PHP + Redis"
    stateful = durable = slow = True

    def build(self, log):
        _require(shutil.which("redis-server"), "redis-server is not installed (Debian: redis-server)")
        _require(_nginx_program(), "nginx is not installed (Debian: nginx)")
        _require(_fpm_program(), "PHP-FPM is not installed (Debian: php-fpm)")
        has_client = "redis" in process.output([_fpm_program(), "-m"]).stdout.split()
        _require(has_client, "PHP has no Redis extension (Debian: php-redis)")

    def start(self, label, setup, cpu):
        settings = {"save": "", **({"appendonly": "yes", "appendfsync": "always"} if setup.durable else {})}
        store = redis.Server(f"{label}-redis", settings, cpu)
        redis.fill_for_peer(store.port, setup.cooldowns)
        folder = paths.fresh(f"{label}-fpm")
        user = "user = root\ngroup = root" if _is_root() else ""
        config = _filled("php/fpm.conf", folder, USER=user)
        command, log = [_fpm_program(), "-F", "-y", config, *(["-R"] if _is_root() else [])], folder / "fpm.log"
        workers = process.spawn(command, cpu, log)
        process.wait_until(workers, (folder / "php.sock").exists, log)
        running = _nginx("nginx/php.conf", label, cpu, REDIS=store.port, FPM=folder, PHP=paths.PEERS / "php")
        running.open_caster = lambda: redis.caster(store.port)
        running.processes[:0] = [store.process, workers]
        return running


def all_competitors():
    """In the order in which they are timed."""
    return [Limit(), VoteStatus(), Nginx(), SecondEngine(), Php()]


def _require(found, otherwise):
    if not found:
        raise Missing(otherwise)


def _listening(label, cpu, command):
    """Starts `command(port)` in a folder of its own, and waits until the port takes connections."""
    port, log = process.free_port(), paths.fresh(label) / "stderr.log"
    started = process.spawn(command(port), cpu, log)
    process.wait_for_port(started, port, log)
    return Running(port, [started])


def _nginx(location, label, cpu, **words):
    """nginx with one location of loadtest/peers/nginx."""

    def command(port):
        folder = paths.RUN / label
        file = _filled(
            "nginx/http.conf",
            folder,
            PORT=port,
            LOCATION=_filled(location, folder, **words),
            USER="user root;" if _is_root() else "",
        )
        return [_nginx_program(), "-p", folder, "-e", folder / "stderr.log", "-c", file]

    return _listening(label, cpu, command)


def _filled(name, folder, **words):
    """Fills the words between @ signs in and writes the configuration beside the process's other files."""
    template = paths.PEERS / name
    text = template.read_text()
    for word, value in {"WORK": folder, **words}.items():
        text = text.replace(f"@{word}@", str(value))
    config = folder / template.name
    config.write_text(text)
    return config


def _nginx_program():
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def _fpm_program():
    """Debian's php-fpm carries its version in its name."""
    return max(Path("/usr/sbin").glob("php-fpm*"), default=None)


def _is_root():
    return os.geteuid() == 0
