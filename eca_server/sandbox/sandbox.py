"""Commands in a sandbox: made ready before a command, cleared up after it.

The rule of this module: what a command leaves at a guarded path is set aside before anybody is told
that the command has ended. A command that cannot be held in a sandbox does not run in one: the
caller asks the user, or refuses.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import attrs
import trio

from eca_protocol.errors import ECAError
from eca_server.config.directories import home_directory
from eca_server.config.tool_settings import SandboxSettings
from eca_server.sandbox import bubblewrap, running, seatbelt
from eca_server.sandbox.detect import Capability, capability
from eca_server.sandbox.guards import HELD_NAMES
from eca_server.sandbox.held import hold, release
from eca_server.sandbox.hidden import DROPPED_VARIABLES, hidden_places, listening_sockets
from eca_server.sandbox.plan import SYSTEM, Plan, plan_of, writable_roots
from eca_server.sandbox.survey import AFTERWARDS, Survey, TooLarge, existing, survey
from eca_server.workspace.opening import open_directory

__all__ = ["Mode", "Sandbox", "Visit", "sandbox_for"]

Mode: TypeAlias = Literal["auto", "require"]

_SOCKETS = Path("/proc/net/unix")
_WITHHELD = ".withheld"
_MOST_SHOWN = 5


@attrs.frozen(kw_only=True)
class Sandbox:
    """Where the commands of a workspace run.

    Attributes:
        mode: `auto`: the user may let a command run outside; `require`: no command does.
        roots: the real paths of the open folders.
        environ: the environment of the server, which says where keys are.
        network: whether commands may use the network.
        writable: further directories that commands may change.
        keys: further files with keys.
        detect: returns what this machine can do.
    """

    mode: Mode
    roots: tuple[Path, ...]
    environ: Mapping[str, str] = attrs.field(repr=False)
    network: bool = False
    writable: tuple[Path, ...] = ()
    keys: tuple[str, ...] = ()
    detect: Callable[[], Capability] = capability

    async def why_not(self) -> str:
        """Return why a command cannot run in the sandbox now; empty: it can."""
        return await trio.to_thread.run_sync(self._why_not)

    def _why_not(self) -> str:
        found = self.detect()
        if found.kind is None:
            return found.why_not
        try:
            self._surveys()
        except TooLarge as fault:
            return str(fault)
        return ""

    async def enter(self, directory: Path) -> Visit:
        """Make the sandbox ready for one command; the caller leaves it after the command's end.

        Raises:
            TooLarge: the workspace is too large to find every guarded path.
        """
        return await trio.to_thread.run_sync(self._enter, directory)

    def _enter(self, directory: Path) -> Visit:
        found = self.detect()
        surveys = self._surveys()
        writable = list(self.writable)
        held: tuple[Path, ...] = ()
        token = object()
        if found.kind == "bubblewrap":
            held = hold(path for each in surveys for path in _missing(each))
        else:  # it cannot give a command a private directory for its temporary files
            writable += [Path("/tmp"), Path(self.environ.get("TMPDIR") or "/tmp")]  # noqa: S108
        try:
            plan = plan_of(
                surveys,
                hidden=existing((*hidden_places(self.environ, self.keys), *_sockets())),
                visible=_directories(SYSTEM),
                writable=writable_roots(existing(writable), self._home),
                held=held,
                network=self.network,
            )
            safe = running.start(token, plan)
            prefix = _prefix(found, safe, Path(os.path.realpath(directory)))
        except BaseException:
            running.stop(token)
            release(held)
            raise
        variables = {"ECA_SANDBOX": found.kind or "", "GIT_OPTIONAL_LOCKS": "0"}
        if found.kind == "bubblewrap":
            variables["TMPDIR"] = "/tmp"  # noqa: S108 (the command's own)
        return Visit(prefix=prefix, variables=variables, surveys=surveys, held=held, token=token)

    @property
    def _home(self) -> Path:
        return Path(os.path.realpath(home_directory(self.environ)))

    def _surveys(self) -> tuple[Survey, ...]:
        return tuple(survey(root) for root in writable_roots(self.roots, self._home))


def sandbox_for(
    settings: SandboxSettings,
    roots: Iterable[Path],
    environ: Mapping[str, str],
    keys: Iterable[str] = (),
) -> Sandbox | None:
    """Return the sandbox of the commands in a workspace, or None if they run as they are.

    Args:
        settings: `toolCall.sandbox`.
        roots: the real paths of the open folders.
        environ: the environment of the server.
        keys: files with keys which the configuration names.
    """
    if settings.mode == "off":
        return None
    return Sandbox(
        mode=settings.mode,
        roots=tuple(roots),
        environ=environ,
        network=settings.network,
        writable=tuple(map(Path, settings.writable)),
        keys=tuple(keys),
    )


@attrs.frozen(kw_only=True)
class Visit:
    """One command in the sandbox.

    Attributes:
        prefix: what to put in front of the command.
        variables: what its environment has to say.
        surveys: the guarded paths before it.
        held: names that are held for it.
        token: by which it is known among those that run.
    """

    prefix: tuple[str, ...]
    variables: Mapping[str, str]
    surveys: Sequence[Survey]
    held: tuple[Path, ...]
    token: object

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the command."""
        kept = {key: text for key, text in environment.items() if key not in DROPPED_VARIABLES}
        return kept | dict(self.variables)

    async def leave(self, *, sets_aside: bool = True) -> str:
        """Clear up after the end of the command; return what to say of it, or nothing.

        Args:
            sets_aside: whether guarded paths that have appeared are renamed. Not after a job: in
                the hours it runs, they may be the user's own.
        """
        notes: list[str] = []
        with trio.CancelScope(shield=True):
            notes.append(await trio.to_thread.run_sync(self._leave, sets_aside))
        return "".join(notes)

    def _leave(self, sets_aside: bool) -> str:
        running.stop(self.token)
        release(self.held)
        try:
            created = [path for before in self.surveys for path in _created(before, self.held)]
        except TooLarge as fault:
            return f"Guarded paths that it may have created were not looked for: {fault}."
        if not created:
            return ""
        told = ", ".join(str(path) for path in created[:_MOST_SHOWN])
        if len(created) > _MOST_SHOWN:
            told += f" and {len(created) - _MOST_SHOWN} more"
        if not sets_aside:
            return f"Guarded paths have appeared while it ran: {told}. Look at them before use."
        failed = [path for path in created if not _set_aside(path)]
        for before in self.surveys:
            _restore_links(before)
        said = (
            f"The command created guarded paths, which need the user's approval: {told}. Each was "
            f"renamed to `NAME{_WITHHELD}`."
        )
        return f"{said} This failed for {', '.join(map(str, failed))}." if failed else said


def _directories(paths: Iterable[Path]) -> dict[Path, bool]:
    return {path: True for path in paths if path.is_dir() and not path.is_symlink()}


def _missing(each: Survey) -> Iterator[Path]:
    """Yield the names to hold in the top directory of a root, taken by other commands or free."""
    for name in HELD_NAMES:
        path = each.root / name
        identity = each.guarded.get(path)
        if path not in each.links and (identity is None or stat.S_ISDIR(identity[2])):
            yield path


def _sockets() -> Iterator[Path]:
    try:
        table = _SOCKETS.read_text(errors="surrogateescape")
    except OSError:
        return
    yield from listening_sockets(table)


def _prefix(found: Capability, plan: Plan, directory: Path) -> tuple[str, ...]:
    if found.kind == "sandbox-exec":
        return seatbelt.arguments(found.program, plan)
    return bubblewrap.arguments(found.program, plan, directory, can_close=found.can_close)


def _created(before: Survey, held: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the guarded paths that are new; a directory with nothing in it is none."""
    after = survey(before.root, before.skipped, most=AFTERWARDS)
    for path in after.guarded:
        if path not in before.guarded and path not in held and not _is_empty(path):
            yield path
    for path, target in after.links.items():
        if before.links.get(path) != target and path not in before.guarded:
            yield path


def _is_empty(path: Path) -> bool:
    try:
        return next(path.iterdir(), None) is None
    except OSError:
        return False


def _set_aside(path: Path) -> bool:
    """Rename what is at a path in its directory, wherever the path leads meanwhile."""
    try:
        with open_directory(path.parent) as directory:
            for number in range(1000):
                name = f"{path.name}{_WITHHELD}{f'-{number}' if number else ''}"
                if directory.fd is not None and not os.path.lexists(directory.path / name):
                    os.rename(path.name, name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
                    return True
    except (OSError, ECAError):  # it cannot be renamed, or a link was put in the way
        return False
    return False


def _restore_links(before: Survey) -> None:
    """Make the guarded links again that are gone, in their directories, wherever paths lead."""
    for path, target in before.links.items():
        with contextlib.suppress(OSError, ECAError), open_directory(path.parent) as directory:
            if directory.fd is not None:
                os.symlink(target, path.name, dir_fd=directory.fd)
