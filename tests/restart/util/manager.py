#!/usr/bin/env python3
"""Opens two listening sockets, and runs a command on them as systemd does: LISTEN_FDS and its kin.

The sockets are of TCP, or files in FOLDER with `--unix FOLDER` before the command.

SIGHUP is `systemctl restart`: SIGTERM to the command, its end, the command anew. Connections wait
in the sockets meanwhile. SIGTERM is `systemctl stop`. A command that ends by itself ends this too.
"""
import ctypes
import fcntl
import os
import signal
import socket
import sys


def listen(path: str | None) -> int:
    if path is None:
        listening = socket.create_server(("127.0.0.1", 0), backlog=4096)
    else:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(path)
        listening.listen(4096)
    # Out of the way of the numbers that the command gets.
    return fcntl.fcntl(listening.detach(), fcntl.F_DUPFD_CLOEXEC, 10)


def start(sockets: list[int], command: list[str]) -> int:
    child = os.fork()
    if child == 0:
        # Whatever becomes of this process, the command does not outlive it.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for number, passed in enumerate(sockets, start=3):
            os.dup2(passed, number, inheritable=True)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        environment = {"LISTEN_FDS": str(len(sockets)), "LISTEN_PID": str(os.getpid()), "LISTEN_FDNAMES": "public:control"}
        os.execve(command[0], command, os.environ | environment)
    return child


PR_SET_PDEATHSIG = 1
SIGNALS = {signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD}


def main() -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    command = sys.argv[1:]
    paths = [None, None]
    if command[0] == "--unix":
        paths = [os.path.join(command[1], name) for name in ("public", "control")]
        command = command[2:]
    sockets = [listen(path) for path in paths]
    child = start(sockets, command)
    while True:
        received = signal.sigwait(SIGNALS)
        if received != signal.SIGCHLD:
            os.kill(child, signal.SIGTERM)
        _, status = os.waitpid(child, 0)
        if received != signal.SIGHUP or status != 0:
            return os.waitstatus_to_exitcode(status)
        # The old one's end has been heard of already.
        if signal.SIGCHLD in signal.sigpending():
            signal.sigwait({signal.SIGCHLD})
        child = start(sockets, command)


sys.exit(main())
