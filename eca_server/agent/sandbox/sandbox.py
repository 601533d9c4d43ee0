"""The sandbox of a workspace: prepared before a command, cleaned up after it.

Rule: guarded paths that a command creates are renamed before the end of the command is reported. If
no sandbox can be created, the caller asks the user or refuses the command.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs
import trio

from eca_protocol.errors import ECAError
from eca_server.agent.sandbox import active, bubblewrap, seatbelt
from eca_server.agent.sandbox.credentials import (
    DROPPED_VARIABLES,
    credential_paths,
    listening_sockets,
)
from eca_server.agent.sandbox.detect import Capability, capability
from eca_server.agent.sandbox.guards import RESERVED_NAMES
from eca_server.agent.sandbox.plan import SYSTEM, Plan, make_plan, writable_roots
from eca_server.agent.sandbox.survey import (
    MAX_ENTRIES_AFTER,
    Survey,
    TooLarge,
    existing,
    survey,
)
from eca_server.config.directories import home_directory
from eca_server.config.tool_settings import SandboxSettings
from eca_server.printable import enumeration
from eca_server.workspace.opening import open_directory

_SOCKETS = Path("/proc/net/unix")
_SUFFIX = ".withheld"
_MAX_SHOWN = 5


@attrs.frozen(kw_only=True)
class Sandbox:
    """The sandbox for the commands of a workspace.

    Attributes:
        settings: the user's settings, which are not `off`.
        roots: the real paths of the open folders.
        configuration: returns the real paths of the user's configuration.
        detect: returns the abilities of this machine.
    """

    settings: SandboxSettings
    roots: tuple[Path, ...]
    environ: Mapping[str, str] = attrs.field(repr=False)
    credential_files: tuple[str, ...] = ()
    configuration: Callable[[], Collection[Path]] = tuple
    detect: Callable[[], Capability] = capability

    async def why_not(self) -> str:
        """Return the reason why a command cannot run in the sandbox; empty: it can."""
        return await trio.to_thread.run_sync(self._why_not)

    def _why_not(self) -> str:
        detected = self.detect()
        if detected.kind is None:
            return detected.why_not
        try:
            self._surveys()
        except TooLarge as error:
            return str(error)
        return ""

    async def enter(self, directory: Path) -> SandboxedCommand:
        """Prepare the sandbox for one command; the caller calls `leave` after the command's end.

        Raises:
            TooLarge: the workspace is too large to find every guarded path.
        """
        return await trio.to_thread.run_sync(self._enter, directory)

    def _enter(self, directory: Path) -> SandboxedCommand:
        detected = self.detect()
        surveys = self._surveys()
        writable = [*map(Path, self.settings.writable)]
        reserved: tuple[Path, ...] = ()
        token = object()
        if detected.kind == "bubblewrap":
            reserved = active.reserve(path for each in surveys for path in _missing(each))
        else:  # it has no private directory for temporary files
            writable += [Path("/tmp"), Path(self.environ.get("TMPDIR") or "/tmp")]  # noqa: S108
        try:
            plan = make_plan(
                surveys,
                hidden=existing(
                    (*credential_paths(self.environ, self.credential_files), *_sockets())
                ),
                visible=_directories(SYSTEM),
                writable=writable_roots(existing(writable), self._home),
                reserved=reserved,
                network=self.settings.network,
            )
            safe = active.register(token, plan)
            prefix = _prefix(detected, safe, Path(os.path.realpath(directory)))
        except BaseException:
            active.unregister(token)
            active.release(reserved)
            raise
        variables = {"ECA_SANDBOX": detected.kind or "", "GIT_OPTIONAL_LOCKS": "0"}
        if detected.kind == "bubblewrap":
            variables["TMPDIR"] = "/tmp"  # noqa: S108 (the command's own)
        return SandboxedCommand(
            prefix=prefix, variables=variables, surveys=surveys, reserved=reserved, token=token
        )

    @property
    def _home(self) -> Path:
        return Path(os.path.realpath(home_directory(self.environ)))

    def _surveys(self) -> tuple[Survey, ...]:
        own = self.configuration()
        return tuple(
            survey(root, configuration=own)
            for root in writable_roots(self.roots, self._home)
            if not any(root.is_relative_to(each) for each in own)
        )


@attrs.frozen(kw_only=True)
class SandboxedCommand:
    """One command in the sandbox.

    Attributes:
        prefix: the arguments in front of the command.
        surveys: the guarded paths before its start.
        token: identifies it among the running sandboxes.
    """

    prefix: tuple[str, ...]
    variables: Mapping[str, str]
    surveys: Sequence[Survey]
    reserved: tuple[Path, ...]
    token: object

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the command."""
        allowed = {key: text for key, text in environment.items() if key not in DROPPED_VARIABLES}
        return allowed | dict(self.variables)

    async def leave(self, *, sets_aside: bool = True) -> str:
        """Clean up after the end of the command; return a note for the model and the user, or "".

        Args:
            sets_aside: whether new guarded paths are renamed. Not after a job: in the hours it
                runs, the user may have created them.
        """
        notes: list[str] = []
        with trio.CancelScope(shield=True):
            notes.append(await trio.to_thread.run_sync(self._leave, sets_aside))
        return "".join(notes)

    def _leave(self, sets_aside: bool) -> str:
        active.unregister(self.token)
        active.release(self.reserved)
        try:
            created = [path for before in self.surveys for path in _created(before, self.reserved)]
        except TooLarge as error:
            return f"Guarded paths that the command may have created were not checked: {error}."
        if not created:
            return ""
        names = enumeration(list(map(str, created)), _MAX_SHOWN)
        if not sets_aside:
            return f"Guarded paths were created while the job ran: {names}. Review them before use."
        failed = [path for path in created if not _set_aside(path)]
        for before in self.surveys:
            _restore_links(before)
        note = (
            f"The command created guarded paths, which need the user's approval: {names}. Each was "
            f"renamed to `NAME{_SUFFIX}`."
        )
        return f"{note} Renaming failed for {', '.join(map(str, failed))}." if failed else note


def _directories(paths: Iterable[Path]) -> dict[Path, bool]:
    return {path: True for path in paths if path.is_dir() and not path.is_symlink()}


def _missing(each: Survey) -> Iterator[Path]:
    """Yield the paths to reserve in the top directory of a root: missing or already reserved."""
    for name in RESERVED_NAMES:
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


def _prefix(detected: Capability, plan: Plan, directory: Path) -> tuple[str, ...]:
    if detected.kind == "sandbox-exec":
        return seatbelt.arguments(detected.program, plan)
    return bubblewrap.arguments(
        detected.program, plan, directory, can_disable_userns=detected.can_disable_userns
    )


def _created(before: Survey, reserved: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the new guarded paths, except empty directories."""
    after = survey(before.root, before.skipped, max_entries=MAX_ENTRIES_AFTER)
    for path in after.guarded:
        if path not in before.guarded and path not in reserved and not _is_empty(path):
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
    """Rename an entry in its directory, and follow no link that was put there meanwhile."""
    try:
        with open_directory(path.parent) as directory:
            for number in range(1000):
                name = f"{path.name}{_SUFFIX}{f'-{number}' if number else ''}"
                if directory.fd is not None and not os.path.lexists(directory.path / name):
                    os.rename(path.name, name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
                    return True
    except (OSError, ECAError):  # it cannot be renamed, or a link was put in the way
        return False
    return False


def _restore_links(before: Survey) -> None:
    for path, target in before.links.items():
        with contextlib.suppress(OSError, ECAError), open_directory(path.parent) as directory:
            if directory.fd is not None:
                os.symlink(target, path.name, dir_fd=directory.fd)
