"""Cases of the workspace: its roots, and messages about folders that cannot be used."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.harness import ClientSession
from eca_protocol.testing.conformance.server.asking import QUERY
from eca_protocol.testing.conformance.server.reading import poll
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.members import at


def _create_directory(path: Path) -> Path:
    path.mkdir()
    (path / f"in-{path.name[-6:]}.txt").write_text("found\n")
    return path


async def _is_found(session: ClientSession, folder: str) -> bool:
    name = f"in-{folder[-6:]}"
    answer = await session.ask(QUERY, {"query": name})
    return name in str(at(answer, "result", "contexts"))


@case("LIFE-10", "W-15a", "W-15c", needs="contexts", seconds=30, handshake=False)
async def folders_are_roots(session: ClientSession) -> None:
    """Name folders in several ways; query for a file in each."""
    plain = _create_directory(session.root / "plain")
    escaped = _create_directory(session.root / "100% with blanks")
    local = _create_directory(session.root / "local")
    other = _create_directory(session.root / "other")
    folders = [
        {"name": "plain", "uri": plain.as_uri()},
        {"name": "escaped", "uri": escaped.as_uri()},
        {"name": "local", "uri": local.as_uri().replace("file://", "file://localhost", 1)},
    ]
    ignored = {"rootUri": other.as_uri(), "rootPath": str(other)}
    await session.initialize(workspaceFolders=folders, **ignored)
    await session.notify("initialized", {})
    for row, folder, words in (
        ("LIFE-10", plain, "a folder of `workspaceFolders`"),
        ("W-15a", escaped, "a folder whose URI has escapes"),
        ("W-15a", local, "a folder at localhost"),
    ):
        is_found = await poll(partial(_is_found, session, folder.name), bool)
        got = f"{'a' if is_found else 'no'} file of {folder.name!r}"
        session.check(row, is_found, f"the file of {words} among the contexts", got)
        if folder is plain and not is_found:
            raise Unmet("roots", "none")
    is_right = not await _is_found(session, other.name)
    got = "a result for a query about them"
    session.check("W-15c", is_right, "`rootUri` and `rootPath` are ignored", got)


@case("GEN-1", "W-15b", "W-15d", handshake=False)
async def folders_that_cannot_be_used_are_named(session: ClientSession) -> None:
    """Name a missing folder and one of a different scheme, with a valid one."""
    folders: list[Any] = [
        {"name": "gone", "uri": (session.root / "gone-folder").as_uri()},
        {"name": "far", "uri": "vscode-remote://machine/far-folder"},
        {"name": "good", "uri": session.root.as_uri()},
    ]
    await session.initialize(workspaceFolders=folders)
    await session.notify("initialized", {})
    for name in ("gone-folder", "far-folder"):
        expected = f"`$/showMessage` names {name}"
        await session.wait_for("$/showMessage", text=name, shows="W-15b", expected=expected)
    shown = [received for received in session.messages if received.method == "$/showMessage"]
    session.record_pass("W-15b", "GEN-1")
    with_id = [received.message for received in shown if "id" in received.message]
    session.check("W-15d", not with_id, "`$/showMessage` without an id", with_id)
