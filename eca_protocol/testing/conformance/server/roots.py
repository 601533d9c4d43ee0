"""Cases of the workspace: which folders are its roots, and what is told of those that are not."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from eca_protocol.testing.conformance.bench import Bench, Seat
from eca_protocol.testing.conformance.cases import Stuck, case
from eca_protocol.testing.conformance.server.asking import QUERY
from eca_protocol.testing.conformance.server.reading import in_time


def _folder(path: Path) -> Path:
    """A folder with a file in it that is called after it."""
    path.mkdir()
    (path / f"in-{path.name[-6:]}.txt").write_text("found\n")
    return path


async def _finds(seat: Seat, folder: str) -> bool:
    """Whether a query finds the file of that folder."""
    name = f"in-{folder[-6:]}"
    answer = await seat.ask(QUERY, {"query": name})
    result = answer.get("result")
    found = result.get("contexts") if isinstance(result, dict) else None
    return name in str(found)


@case("LIFE-10", "W-15a", "W-15c", seconds=30)
async def folders_are_roots(bench: Bench) -> None:
    """Folders named in several ways, each with a file that a query looks for."""
    async with bench.seat(hello=False) as seat:
        plain = _folder(seat.root / "plain")
        escaped = _folder(seat.root / "100% with blanks")
        local = _folder(seat.root / "local")
        other = _folder(seat.root / "other")
        folders = [
            {"name": "plain", "uri": plain.as_uri()},
            {"name": "escaped", "uri": escaped.as_uri()},
            {"name": "local", "uri": local.as_uri().replace("file://", "file://localhost", 1)},
        ]
        params = {
            **bench.initialize_params(seat.root),
            "workspaceFolders": folders,
            "rootUri": other.as_uri(),
            "rootPath": str(other),
        }
        await seat.ask("initialize", params, seconds=30)
        await seat.tell("initialized", {})
        for row, folder, words in (
            ("LIFE-10", plain, "a folder of `workspaceFolders`"),
            ("W-15a", escaped, "a folder whose URI has escapes"),
            ("W-15a", local, "a folder at localhost"),
        ):
            is_found = bench.check(
                row,
                await in_time(partial(_finds, seat, folder.name), bool),
                expected=f"a query finds what is in {words}",
                got=f"no file of {folder.name!r}",
            )
            if folder is plain and not is_found:
                raise Stuck("roots", "none")
        bench.check(
            "W-15c",
            not await _finds(seat, other.name),
            expected="`rootUri` and `rootPath` are not looked at",
            got="a query finds what is in that folder",
        )


def _shows(name: str, message: Mapping[str, Any]) -> bool:
    return message.get("method") == "$/showMessage" and name in str(message)


@case("GEN-1", "W-15b", "W-15d")
async def folders_that_cannot_be_used_are_named(bench: Bench) -> None:
    """A folder that there is not, and one of another scheme, beside a good one."""
    async with bench.seat(hello=False) as seat:
        folders: list[Any] = [
            {"name": "gone", "uri": (seat.root / "gone-folder").as_uri()},
            {"name": "far", "uri": "vscode-remote://machine/far-folder"},
            {"name": "good", "uri": seat.root.as_uri()},
        ]
        params = {**bench.initialize_params(seat.root), "workspaceFolders": folders}
        await seat.ask("initialize", params, seconds=30)
        await seat.tell("initialized", {})
        for name in ("gone-folder", "far-folder"):
            await seat.until(
                partial(_shows, name), shows="W-15b", expected=f"`$/showMessage` names {name}"
            )
        shown = [heard for heard in seat.heard if heard.method == "$/showMessage"]
    bench.saw("W-15b", "GEN-1")
    asked = [heard.message for heard in shown if "id" in heard.message]
    bench.check("W-15d", not asked, expected="a notification, which has no id", got=asked)
