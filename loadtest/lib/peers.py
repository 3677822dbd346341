"""Everything that vote-status is compared with: how each is built and started."""

import os
import shutil
import subprocess
from pathlib import Path

from lib import paths, process, redis
from lib.competitor import Competitor, Missing, Running

NGINX_MODULES = Path("/usr/lib/nginx/modules")


class Limit(Competitor):
    name = "limit"
    title = "plain epoll loop (the limit)"

    def build(self, log):
        if not shutil.which("cc"):
            raise Missing("no C compiler (Debian: gcc)")
        source, self.binary = paths.PEERS / "limit" / "limit.c", paths.WORK / "limit"
        run(["cc", "-O2", "-Wall", "-Wextra", "-o", self.binary, source], log)

    def start(self, label, setup, cpu):
        port, log = process.free_port(), paths.fresh(label) / "stderr.log"
        return _listening(label, port, [process.spawn([self.binary, port], cpu, log)], log)


class RustPeer(Competitor):
    """A crate of loadtest/peers with the concurrent map in its own memory."""

    stateful = True

    def __init__(self, name, title):
        self.name, self.title = name, title
        self.binary = paths.PEER_TARGET / "release" / f"peer-{name}"

    def build(self, log):
        environment = {**os.environ, "CARGO_TARGET_DIR": str(paths.PEER_TARGET)}
        command = ["cargo", "build", "--release", "--locked", "-p", f"peer-{self.name}"]
        run(command, log, cwd=paths.PEERS, env=environment)

    def start(self, label, setup, cpu):
        port, log = process.free_port(), paths.fresh(label) / "stderr.log"
        started = process.spawn([self.binary, port, setup.cooldowns], cpu, log)
        return _listening(label, port, [started], log)


class Nginx(Competitor):
    name = "nginx"
    title = "nginx, static body"
    config = "nginx/static.conf"

    def build(self, log):
        _require_nginx()

    def start(self, label, setup, cpu):
        port, folder = process.free_port(), paths.fresh(label)
        return _listening(label, port, [self._nginx(folder, cpu, port)], folder / "error.log")

    def _nginx(self, folder, cpu, port, redis_port=0):
        config = _config(self.config, folder, port, redis_port, user="user root;" if _is_root() else "")
        log = folder / "error.log"
        return process.spawn([_nginx_program(), "-p", folder, "-e", log, "-c", config], cpu, log)


class NginxLua(Nginx):
    name = "nginx-lua"
    title = "nginx + Lua + Redis"
    config = "nginx/lua.conf"
    stateful = durable = slow = True

    def build(self, log):
        _require_nginx()
        redis.require()
        if not (NGINX_MODULES / "ngx_http_lua_module.so").exists():
            raise Missing("nginx has no Lua (Debian: libnginx-mod-http-lua)")
        if not Path("/usr/share/lua/5.1/nginx/redis.lua").exists():
            raise Missing("Lua has no Redis client for nginx (Debian: lua-nginx-redis)")

    def start(self, label, setup, cpu):
        store, redis_port = redis.start(label, setup, cpu)
        port, folder = process.free_port(), paths.fresh(label)
        started = [store, self._nginx(folder, cpu, port, redis_port)]
        return _listening(label, port, started, folder / "error.log", redis_port)


class Php(Nginx):
    name = "php-fpm"
    title = "nginx + PHP-FPM + Redis"
    config = "php/nginx.conf"
    stateful = durable = slow = True

    def build(self, log):
        _require_nginx()
        redis.require()
        if not _fpm_program():
            raise Missing("PHP-FPM is not installed (Debian: php-fpm)")
        modules = subprocess.run([_fpm_program(), "-m"], capture_output=True, text=True, check=False).stdout
        if "redis" not in modules.split():
            raise Missing("PHP has no Redis extension (Debian: php-redis)")

    def start(self, label, setup, cpu):
        store, redis_port = redis.start(label, setup, cpu)
        port, folder = process.free_port(), paths.fresh(label)
        user = "user = root\ngroup = root" if _is_root() else ""
        config = _config("php/fpm.conf", folder, port, redis_port, user)
        command = [_fpm_program(), "-F", "-y", config] + (["-R"] if _is_root() else [])
        workers = process.spawn(command, cpu, folder / "fpm.log")
        process.wait_until(workers, (folder / "php.sock").exists, folder / "fpm.log")
        started = [store, workers, self._nginx(folder, cpu, port, redis_port)]
        return _listening(label, port, started, folder / "error.log", redis_port)


class Node(Competitor):
    name = "node"
    title = "Node http + ioredis"
    stateful = durable = slow = True
    warm_up_seconds = 3

    def build(self, log):
        redis.require()
        for program, package in (("node", "nodejs"), ("npm", "npm")):
            if not shutil.which(program):
                raise Missing(f"{program} is not installed (Debian: {package})")
        run(["npm", "ci", "--no-audit", "--no-fund"], log, cwd=paths.PEERS / "node")

    def start(self, label, setup, cpu):
        store, redis_port = redis.start(label, setup, cpu)
        port, log = process.free_port(), paths.fresh(label) / "stderr.log"
        command = ["node", paths.PEERS / "node" / "server.js", port, redis_port]
        return _listening(label, port, [store, process.spawn(command, cpu, log)], log, redis_port)


def run(command, log, **more):
    """Runs a build command into the log, or raises Missing with its last lines."""
    with open(log, "ab") as output:
        done = subprocess.run(list(map(str, command)), stdout=output, stderr=output, check=False, **more)
    if done.returncode != 0:
        raise Missing(f"{' '.join(map(str, command[:3]))} failed: {process.tail(log)}")


def _listening(label, port, started, log, redis_port=None):
    votes = ("redis", redis_port) if redis_port else ()
    process.wait_until(started[-1], lambda: process.accepts(port), log)
    return Running(label, port, started, votes=votes)


def _config(name, folder, port, redis_port, user):
    """Fills a configuration in and writes it beside the process's other files."""
    template = paths.PEERS / name
    text = template.read_text()
    words = {
        "WORK": folder,
        "HERE": template.parent,
        "MODULES": NGINX_MODULES,
        "PORT": port,
        "REDIS": redis_port,
        "USER": user,
    }
    for word, value in words.items():
        text = text.replace(f"@{word}@", str(value))
    config = folder / template.name
    config.write_text(text)
    return config


def _require_nginx():
    if not _nginx_program():
        raise Missing("nginx is not installed (Debian: nginx)")


def _nginx_program():
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def _fpm_program():
    """Debian's php-fpm carries its version in its name."""
    found = sorted(Path("/usr/sbin").glob("php-fpm*"))
    return found[-1] if found else None


def _is_root():
    return os.geteuid() == 0
