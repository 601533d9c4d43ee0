"""A watcher process that ends our child processes if this process is killed.

SIGKILL leaves a process no time to end its children. Therefore a small shell reads from a pipe of
ours while there is a child to guard, and knows the children's process groups. The pipe closes when
this process dies. The shell then sends TERM to each group, and KILL a second later to the rest. It
has a session of its own and none of our descriptors, and ends with the last guarded child.

On Linux the shell also reaches the rest of a child's session (`timeout` makes its own group
there), the descendants that have left the session, and a child whose group was not reported before
our death: the shell finds it by a variable in its environment. The limits:

- a process that has left both the session and its parents (a daemon) survives; except on Linux,
  any process that has left the group survives;
- except on Linux, a child survives that was started a moment before our death.

Without a POSIX shell no process is guarded.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

__all__ = ["GUARD", "NAME", "Guard"]

NAME: Final = "eca-child-guard"
"""The watcher's name in a list of processes."""

_WATCHER_SCRIPT: Final = r"""
trap '' HUP INT QUIT TERM USR1
mark=$1 ticks=$2
groups=' '
while read -r sign group; do
  case $sign in
    +) groups="$groups$group " ;;
    -) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
  esac
done
if read -r up _ </proc/uptime; then
  sleep 0.1 || sleep 1
  for environ in $(grep -ls "$mark" /proc/[0-9]*/environ); do
    pid=${environ#/proc/} pid=${pid%/environ}
    read -r line <"/proc/$pid/stat" || continue
    set -- ${line##*")"}
    [ "$3" = "$pid" ] && [ $((${20} / ticks)) -ge $((${up%.*} - 3)) ] && groups="$groups$pid "
  done
fi
[ "$groups" = ' ' ] && exit
targets=
for group in $groups; do targets="$targets -$group"; done
found=$groups grown=yes
while [ "$grown" ]; do
  grown=
  for stat in /proc/[0-9]*/stat; do
    pid=${stat#/proc/} pid=${pid%/stat}
    case $found in *" $pid "*) continue ;; esac
    read -r line <"$stat" || continue
    set -- ${line##*")"}
    case $found in *" $2 "* | *" $4 "*) ;; *) continue ;; esac
    found="$found$pid " grown=yes
    case $groups in *" $3 "*) ;; *) targets="$targets $pid" ;; esac
  done
done
for number in TERM 0 0 0 0 0 0 0 0 0 0 KILL; do
  left=
  for target in $targets; do kill -$number $target && left="$left $target"; done
  targets=$left
  [ "$targets" ] || exit
  [ $number = KILL ] || sleep 0.1 || sleep 1
done
"""
# It sleeps before `grep`, since a child has no environment in /proc until its `exec` is complete.
# /proc/PID/stat behind the name: $1 state, $2 parent, $3 group, $4 session, ${20} start.

_VARIABLE: Final = "ECA_GUARD"


class Guard:
    """The guarded process groups and their watcher; safe for use by several threads."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._starting = 0  # children that are being started
        self._watcher: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._mark = f"{_VARIABLE}={secrets.token_hex(8)}"

    def mark_environment(self, environment: Mapping[str, str] | None) -> dict[str, str]:
        """Return the environment for a child to guard.

        Args:
            environment: the child's variables; None: those of this process.
        """
        name, _, value = self._mark.partition("=")
        return {**(os.environ if environment is None else environment), name: value}

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Keep the watcher running while the block starts a child and adds its group.

        The child is unguarded until its group is added: add it at once.
        """
        with self._lock:
            self._starting += 1
            if self._watcher is None:
                self._start()
        try:
            yield
        finally:
            with self._lock:
                self._starting -= 1
                self._stop_if_idle()

    def add(self, group: int) -> None:
        """Guard a process group, if a watcher can run; raises no exception."""
        with self._lock:
            self._groups.add(group)
            if not self._send(f"+ {group}\n"):
                self._start()

    def remove(self, group: int) -> None:
        """Stop guarding a group; call it before the system can reuse the group's number."""
        with self._lock:
            if group not in self._groups:
                return
            self._groups.remove(group)
            if not self._stop_if_idle() and not self._send(f"- {group}\n"):
                self._start()

    @contextmanager
    def guarding(self, group: int) -> Iterator[None]:
        """Guard a group while the block runs."""
        self.add(group)
        try:
            yield
        finally:
            self.remove(group)

    def _stop_if_idle(self) -> bool:
        if self._groups or self._starting:
            return False
        self._stop()
        return True

    def _start(self) -> None:
        """Start a watcher, in place of one that has ended or does not read."""
        self._stop()
        if sys.platform == "win32":  # there a group ends with us; see `platforms`
            return
        with suppress(OSError):
            self._watcher = subprocess.Popen(
                ["/bin/sh", "-c", _WATCHER_SCRIPT, NAME, self._mark, str(_ticks())],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.defpath},
                start_new_session=True,
            )
            assert self._watcher.stdin is not None
            os.set_blocking(self._watcher.stdin.fileno(), False)
            if not all(self._send(f"+ {each}\n") for each in self._groups):
                self._stop()

    def _send(self, line: str) -> bool:
        """Return True if the watcher gets the line; such a short line is written atomically."""
        if self._watcher is None or self._watcher.stdin is None:
            return False
        try:
            return self._watcher.stdin.write(line.encode()) is not None
        except OSError:
            return False

    def _stop(self) -> None:
        if self._watcher is not None:
            self._watcher.kill()
            if self._watcher.stdin is not None:
                self._watcher.stdin.close()
            self._watcher.wait()
            self._watcher = None


def _ticks() -> int:
    return os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


GUARD: Final = Guard()
"""The guard of this process."""
