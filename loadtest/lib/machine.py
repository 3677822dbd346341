"""The machine of a run: enough to read its figures, nothing that names a person or a host."""

import datetime
import os
import platform
import shutil
from pathlib import Path

from lib import oha, paths, process, wrk


def describe():
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "cpu": _field("/proc/cpuinfo", "model name", ":"),
        "cpus": os.cpu_count(),
        "memory_mib": int(_field("/proc/meminfo", "MemTotal", ":").split()[0]) // 1024,
        "virtual": "hypervisor" in _field("/proc/cpuinfo", "flags", ":").split(),
        "kernel": platform.release(),
        "system": _field("/etc/os-release", "PRETTY_NAME", "=").strip('"'),
        "load_average": os.getloadavg()[0],
        "versions": versions(),
    }


def commit():
    """The short commit, with a plus sign where the tree differs from it."""
    head = _output("git", "-C", paths.REPOSITORY, "rev-parse", "--short", "HEAD")
    changed = _output("git", "-C", paths.REPOSITORY, "status", "--porcelain")
    return (head + ("+" if changed else "")) if head else "none"


def versions():
    """The tools and peers that come from the system, as they name themselves."""
    php = sorted(Path("/usr/sbin").glob("php-fpm*"))
    return {
        "wrk": wrk.version(),
        "oha": f"oha {oha.VERSION}" if oha.PROGRAM.exists() else None,
        "rustc": _output("rustc", "--version"),
        "nginx": _output("nginx", "-v"),
        "redis": _output("redis-server", "--version").split(" sha=")[0],
        "php": _output(php[-1], "-v").split("\n")[0] if php else None,
    }


def _output(*command):
    """What a program prints, or an empty string where there is no such program."""
    if not shutil.which(command[0]):
        return ""
    done = process.output(command)
    return (done.stdout + done.stderr).strip() if done.returncode == 0 else ""


def _field(file, name, separator):
    for line in Path(file).read_text().splitlines():
        key, _, value = line.partition(separator)
        if key.strip() == name:
            return value.strip()
    return ""
