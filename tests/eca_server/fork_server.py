"""Real processes of `eca-server`, forked from one in which its modules are already imported.

Importing them is most of a start, so a test of what a command does later starts it from here. It
has its own pipes, environment, directory and arguments, and exits as an interpreter exits. A test
of the start itself runs the command. What starts a command by itself, such as an example of a
document, is given `command()`: `tests/eca_server/forked.py` has the process forked, passes its
standard streams and signals on, and exits with its code.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
ECA = (sys.executable, "-P", "-m", "eca_server")
MODULE = "--module"
ADDRESS = "ECA_TESTS_ADDRESS"
READY = b"ready"
PACKAGES = (
    "eca_protocol.codec",
    "eca_protocol.messages",
    "eca_server.agent",
    "eca_server.cli",
    "eca_server.client",
    "eca_server.config",
    "eca_server.connection",
    "eca_server.ecp",
    "eca_server.models",
    "eca_server.system",
    "eca_server.workspace",
)
LIBRARIES = (
    "anyio._backends._trio",
    "encodings.idna",
    "eca_protocol.http",
    "h11",
    "httpx",
    "regex",
    "sqlite3",
    "yaml",
)


def can_fork(command: Sequence[str], env: Mapping[str, str]) -> bool:
    """Return whether a command is ours, in an interpreter like that of all others."""
    odd = [name for name in env if name.startswith(("PYTHON", "LD_PRELOAD"))]
    return tuple(command[: len(ECA)]) == ECA and odd == ["PYTHONPATH"]


def run(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: str = "",
    timeout: float = 30,
) -> subprocess.CompletedProcess[str]:
    """Run one of our commands to its end, as `subprocess.run` does."""
    assert can_fork(command, env)
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        process = ForkedProcess(
            command, cwd=cwd, env=env, stdout=stdout.fileno(), stderr=stderr.fileno()
        )
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(stdin.encode())
        process.stdin.close()
        code = process.wait(timeout)
        texts = []
        for file in (stdout, stderr):
            file.seek(0)
            texts.append(file.read())
        return subprocess.CompletedProcess(command, code, *texts)


def command(program: str | None = None) -> tuple[str, ...]:
    """Return the words that start a forked `eca-server`, or this module, without its arguments."""
    if sys.platform != "linux":
        return ECA if program is None else (sys.executable, "-m", program)
    forked = str(REPOSITORY / "tests/eca_server/forked.py")
    module = () if program is None else (MODULE, program)
    return sys.executable, "-I", "-S", forked, _address(), *module


def write_programs(folder: Path) -> None:
    """Make the folder with `eca-server` and `ecp` for a shell; their processes are forked."""
    folder.mkdir()
    words = shlex.join(command())
    for name, start in {"eca-server": words, "ecp": f"{words} ecp"}.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {start} "$@"\n')
        (folder / name).chmod(0o755)


class ForkedProcess:
    """One process, with the members of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int | None = None,
        stdout: int,
        stderr: int,
    ) -> None:
        theirs, ours = os.pipe()
        if stdin is not None:
            os.dup2(stdin, theirs, inheritable=False)
        self._status, status = os.pipe()
        order = json.dumps({"arguments": command[len(ECA) :], "cwd": str(cwd), "env": dict(env)})
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as starter:
            starter.connect(f"\0{_address()}")
            socket.send_fds(starter, [order.encode()], [theirs, stdout, stderr, status])
            self.pid = int(starter.recv(32))
        os.close(theirs)
        os.close(status)
        self.stdin = open(ours, "wb", buffering=0)  # noqa: SIM115, PTH123 - closed by its user
        if stdin is not None:
            self.stdin.close()
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a forked process", timeout or 0)
            self.returncode = int(os.read(self._status, 32))
            os.close(self._status)
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def _address() -> str:
    """Return the address of the process that forks; it answers when its imports are done."""
    if ADDRESS not in os.environ:
        start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as starter:
        starter.connect(f"\0{os.environ[ADDRESS]}")
        starter.send(READY)
        starter.recv(32)  # its imports are no part of any test's time
    return os.environ[ADDRESS]


def start() -> None:
    """Start the process that forks for this process and its children; it ends with this one."""
    os.environ[ADDRESS] = address = f"eca-tests-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0{address}")
        listener.listen()
        process = subprocess.Popen(
            (sys.executable, "-P", __file__, str(listener.fileno())),
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            stdout=subprocess.DEVNULL,
            env={"PATH": os.defpath, "PYTHONPATH": str(REPOSITORY), "LANG": "C.UTF-8"},
        )
    atexit.register(process.communicate)


def _import_all() -> None:
    for name in LIBRARIES:
        importlib.import_module(name)
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def _make_hooks() -> None:
    """Make the functions that read and write messages, each of which is made at its first use."""
    from eca_protocol.codec.converter import converter  # noqa: PLC0415 - in the started process
    from eca_protocol.methods import ECA  # noqa: PLC0415
    from eca_protocol.revisions import Revision  # noqa: PLC0415

    for revision in Revision:
        hooks = converter(revision)
        for hint in {each for method in ECA for each in (method.params, method.result) if each}:
            hooks.get_structure_hook(hint)
            hooks.get_unstructure_hook(hint)


def _become_server(order: Mapping[str, Any], fds: Sequence[int]) -> None:
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
    os.closerange(3, 2**20)
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    sys.argv = [str(REPOSITORY / "eca_server/__main__.py"), *order["arguments"]]


def _exit(end: SystemExit) -> None:
    """Exit as an interpreter does, but free no objects: each page of them would be copied first."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        raise end from None
    os._exit(end.code if isinstance(end.code, int) else 0)


def _fork_servers(listener: socket.socket) -> bool:
    """Fork a server for each order until stdin ends; return whether this is one."""
    running: dict[int, tuple[int, int]] = {}
    while True:
        readable, _, _ = select.select([0, listener, *running], [], [])
        for pidfd in {*readable} & {*running}:
            pid, status = running.pop(pidfd)
            os.close(pidfd)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with contextlib.suppress(BrokenPipeError):
                os.write(status, str(code).encode())
            os.close(status)
        if 0 in readable:
            return False
        if listener not in readable:
            continue
        connection, _ = listener.accept()
        data, fds, _, _ = socket.recv_fds(connection, 2**20, 4)
        if data and data != READY:
            pid = os.fork()
            if not pid:
                _become_server(json.loads(data), fds[:3])
                return True
            for fd in fds[:3]:
                os.close(fd)
            running[os.pidfd_open(pid)] = (pid, fds[3])
            data = str(pid).encode()
        with contextlib.suppress(BrokenPipeError):  # the sender was killed
            connection.send(data)
        connection.close()


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    _import_all()
    _make_hooks()
    from eca_server.__main__ import main

    gc.freeze()
    listening = socket.socket(fileno=int(sys.argv[1]))
    if _fork_servers(listening):
        listening.detach()  # it is closed in a server
        try:
            if sys.argv[1:2] == [MODULE]:
                del sys.argv[:2]
                runpy.run_module(sys.argv[0], run_name="__main__")
            else:
                main()
        except SystemExit as end:
            _exit(end)
