"""The commands of `${cmd:...}` in the user's configuration, and their output.

A command has ten seconds; then its process group is killed. It ends when its shell ends: a daemon
that keeps the output open (a password manager's) is not waited for. Its output is a secret and
appears in no message. A successful output is used for five minutes, and after that until there is
a newer one. This module blocks: call it in a worker thread.
"""

from __future__ import annotations

import logging
import math
import os
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from eca_protocol import platforms
from eca_protocol.guard import GUARD
from eca_server.config.interpolation import UnresolvedReference
from eca_server.secret import Secret
from eca_server.system.child_process import find_shell, harden_environment

CACHE_SECONDS: Final = 300.0
"""The time before a command is run again."""
RETRY_SECONDS: Final = 30.0
"""The same after a quick failure of a command that never succeeded; prompts wait for it."""
_QUICK: Final = 2.0  # seconds
LARGEST: Final = 64 * 1024
"""Limit of an output, in bytes."""

NOT_RUN: Final = "expected the output of a command, which is not run yet"
"""Message of a reference to a command that was skipped; no error of the user's."""

_DRAIN: Final = 0.5  # seconds for the rest of an output that a daemon keeps open
_FORGET_SECONDS: Final = 86_400.0  # after which an output is no substitute for a newer one
_SHOWN: Final = 60  # characters of a command in a message

_log = logging.getLogger("eca_server.config")
_cache: dict[tuple[str, str, frozenset[tuple[str, str]]], tuple[float, str]] = {}


class CommandOutputs:
    """The outputs of the commands in one load of the configuration.

    Args:
        home: the directory in which they run.
        may_run: run them; else each is counted as skipped, and its reference stays unresolved.

    Attributes:
        secrets: every output.
        timeout: seconds after which a command is ended.
        has_skipped: whether a command was skipped because `may_run` is false.
        expires: the time, by `platforms.uptime`, from which the commands are due to run again.
    """

    def __init__(self, environ: Mapping[str, str], home: Path, *, may_run: bool) -> None:
        self._environ = environ
        self.timeout = 10.0
        self._home = home
        self._may_run = may_run
        self.secrets: list[Secret] = []
        self.has_skipped = False
        self.expires = math.inf

    def __call__(self, command: str) -> str:
        """Return the output of a command, without its last newline.

        Raises:
            UnresolvedReference: it failed, took too long or printed too much.
        """
        if not self._may_run:
            self.has_skipped = True
            raise UnresolvedReference(NOT_RUN)
        key = command, str(self._home), frozenset(self._environ.items())
        known = _cache.get(key)
        begun = platforms.uptime()
        due = begun if known is None else known[0] + CACHE_SECONDS
        if due <= begun:
            due = begun + CACHE_SECONDS
            try:
                known = _cache[key] = begun, self._run(command)
            except UnresolvedReference as error:
                if known is None and platforms.uptime() - begun < _QUICK:
                    due = begun + RETRY_SECONDS
                self.expires = min(self.expires, due)
                if known is None:
                    raise
                _log.warning("%s; its previous output stays in use", error)
            _drop_old()
        assert known is not None
        self.expires = min(self.expires, due)
        text = known[1]
        self.secrets += [Secret(line) for line in text.splitlines() if line.strip()]
        return text

    def _run(self, command: str) -> str:
        shown = command if len(command) <= _SHOWN else f"{command[:_SHOWN]}..."
        environment = harden_environment(self._environ)
        shell = find_shell(environment)
        try:
            with GUARD.starting():  # else it outlives a server that ends meanwhile
                child = subprocess.Popen(
                    [shell, "-c", command],
                    cwd=self._home,
                    env=GUARD.mark_environment(environment),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    **platforms.START_OF_A_GROUP,
                )
                GUARD.add(child.pid)
        except (OSError, ValueError) as error:
            raise UnresolvedReference(f"could not run `{shown}`: {error}") from None
        group = platforms.ProcessGroup(child.pid)
        output = bytearray()
        reader = threading.Thread(target=_read, args=(child, output), daemon=True)
        is_late = False
        try:
            reader.start()
            child.wait(self.timeout)
            reader.join(_DRAIN)
        except subprocess.TimeoutExpired:
            is_late = True
        finally:
            GUARD.remove(child.pid)
        _kill(child, group)
        reader.join(_DRAIN)
        data = bytes(output)
        if len(data) > LARGEST:
            raise UnresolvedReference(f"`{shown}` printed more than {LARGEST:,} bytes")
        if is_late:
            raise UnresolvedReference(
                f"`{shown}` took longer than {self.timeout:g} s and was ended"
            )
        if child.returncode != 0:
            raise UnresolvedReference(f"`{shown}` failed with exit code {child.returncode}")
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise UnresolvedReference(f"expected text of `{shown}`, got other bytes") from None
        return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def _read(child: subprocess.Popen[bytes], into: bytearray) -> None:
    assert child.stdout is not None
    with suppress(OSError), child.stdout as output:
        while len(into) <= LARGEST and (piece := os.read(output.fileno(), LARGEST)):
            into += piece


def _kill(child: subprocess.Popen[bytes], group: platforms.ProcessGroup) -> None:
    group.signal(platforms.KILL)
    group.close()
    with suppress(subprocess.TimeoutExpired):
        child.wait(1)


def _drop_old() -> None:
    now = platforms.uptime()
    for key, (at, _) in list(_cache.items()):
        if now - at >= _FORGET_SECONDS:
            _cache.pop(key, None)
