"""Symbols by the editor's language servers, and editors without the capability (W-42)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from eca_protocol.messages import WorkspaceFolder
from eca_protocol.server.roots import parse_roots, uri_of
from eca_server.agent.tools.navigation import EditorDefinition, EditorReferences, editor_navigates
from eca_server.agent.tools.tool import ToolError
from eca_server.workspace.boundary import Workspace
from tests.eca_server.agent.chat.current import CURRENT
from tests.eca_server.agent.chat.editor import Editor, editor


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    """Return a clock that jumps after a moment without events: files are read in a thread."""
    return trio.testing.MockClock(autojump_threshold=0.05)


TEXT = "import\fos\nπ𝔸 = tau; tau2 = tau\n\tprint( x )\natau tau"


@contextlib.asynccontextmanager
async def editor_and_tool(
    root: Path, tool: type[EditorDefinition | EditorReferences] = EditorDefinition, **options: Any
) -> AsyncIterator[tuple[Editor, EditorDefinition | EditorReferences]]:
    """Connect a current editor, and create the tool; `a.py` has the content `TEXT`."""
    (root / "a.py").write_text(TEXT)
    roots, _ = parse_roots([WorkspaceFolder(uri=uri_of(root))])
    async with editor(started=False) as ours:
        await ours.start(capabilities=CURRENT)
        session = ours.connection.session
        yield ours, tool(session=session, workspace=Workspace(roots), **options)


async def result(
    ours: Editor, tool: Any, reply: Mapping[str, Any], **arguments: Any
) -> tuple[str, Any]:
    """Return the tool's output for a reply of the editor, and the params of the request."""
    call = await tool.prepare({"path": "a.py", "line": 2, "symbol": "tau", **arguments})
    outputs: list[str] = []

    async def run() -> None:
        try:
            outputs.extend(part.text for part in (await call.run()).parts)
        except ToolError as fault:
            outputs.append(f"fault: {fault}")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        request = await ours.until(lambda each: each.get("method", "").startswith("editor/"))
        await ours.send({"jsonrpc": "2.0", "id": request["id"], **reply})
    [text] = outputs
    return text, request


def place(uri: str, line: int, character: int) -> dict[str, Any]:
    position = {"line": line, "character": character}
    return {"uri": uri, "range": {"start": position, "end": position}}


FOUND = {"result": {"status": "success", "locations": []}}


@pytest.mark.parametrize(
    ("arguments", "character"),
    [
        ({}, 7),
        ({"character": 7}, 7),
        ({"character": 9}, 19),
        ({"symbol": "tau2"}, 12),
        ({"symbol": "π𝔸"}, 1),
        ({"symbol": "ta"}, 7),
        ({"line": 3, "symbol": "( x )"}, 7),
        ({"line": 4}, 6),
    ],
)
async def test_a_place_is_a_line_and_utf_16_units_that_count_from_one(
    tmp_path, arguments, character
):
    async with editor_and_tool(tmp_path) as both:
        text, request = await result(*both, FOUND, **arguments)
    assert request["method"] == "editor/getDefinition"
    assert request["params"] == {
        "uri": uri_of(tmp_path / "a.py"),
        "position": {"line": arguments.get("line", 2), "character": character},
    }
    assert text == "No location found."


async def test_each_place_is_shown_with_what_is_there_in_the_workspace(tmp_path):
    outside = tmp_path / "out"
    outside.write_text("secret\n")
    (tmp_path / "in").mkdir()
    uri = uri_of(tmp_path / "in" / "a.py")
    places = [
        place(uri, 3, 2),
        place(uri, 99, 1),
        place(uri_of(outside), 1, 1),
        place("untitled:Untitled-1", 0, 0),
    ]
    async with editor_and_tool(tmp_path / "in", EditorReferences) as both:
        reply = {"result": {"status": "success", "locations": places}}
        text, request = await result(*both, reply, include_declaration=False)
    assert request["method"] == "editor/getReferences"
    assert request["params"]["includeDeclaration"] is False
    assert text.splitlines() == [
        f"{tmp_path}/in/a.py:3:2: print( x )",
        f"{tmp_path}/in/a.py:99:1",
        f"{outside}:1:1",
        "untitled:Untitled-1:0:0",
    ]


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ({"result": {"status": "no-server"}}, "no language server"),
        ({"result": {"status": "error", "message": "it broke"}}, "could not answer: it broke"),
        ({"result": {"status": "novel"}}, "gave no reason"),
        ({"result": None}, "result"),
        ({"result": "Unknown method"}, "expected an object"),
        ({"error": {"code": -32601, "message": "no such method"}}, "no such method"),
    ],
)
async def test_an_answer_that_is_none_is_a_no(tmp_path, reply, why):
    async with editor_and_tool(tmp_path) as both:
        text, _ = await result(*both, reply)
    assert text.startswith(("fault: The editor could not", "fault: Could not ask the editor"))
    assert why in text


async def test_an_editor_whose_language_server_starts_is_asked_again_within_the_deadline(
    tmp_path, autojump_clock
):
    starting = {"jsonrpc": "2.0", "result": {"status": "starting"}}

    async with editor_and_tool(tmp_path, timeout=5) as (ours, tool):
        call = await tool.prepare({"path": "a.py", "line": 2, "symbol": "tau"})
        begun = trio.current_time()
        times: list[float] = []

        async def answer_that_it_starts() -> None:
            while True:
                request = await ours.until(lambda each: each.get("method", "").startswith("edit"))
                times.append(trio.current_time() - begun)
                await ours.send({"id": request["id"], **starting})

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer_that_it_starts)
            with pytest.raises(
                ToolError, match="could not answer: its language server is still start"
            ):
                await call.run()
            nursery.cancel_scope.cancel()
        assert trio.current_time() - begun <= 5
    assert len(times) == 5


async def test_an_editor_that_never_answers_is_not_waited_for(tmp_path, autojump_clock):
    async with editor_and_tool(tmp_path, timeout=30) as (_, tool):
        call = await tool.prepare({"path": "a.py", "line": 2, "symbol": "tau"})
        with pytest.raises(ToolError, match="timed out after 30 s"):
            await call.run()


async def test_a_name_that_is_missing_there_is_refused_with_the_line(tmp_path):
    where = {"path": "a.py", "line": 2, "symbol": "tau"}
    async with editor_and_tool(tmp_path) as (_, tool):
        assert (await tool.prepare(where)).paths == ("a.py",)
        for wrong, why in (
            ({"symbol": "os"}, "which is: π𝔸 = tau; tau2 = tau"),
            ({"symbol": ""}, "is not in line 2"),
            ({"line": 9}, "line: expected at most 4"),
            ({"character": 10**30}, "is not in line"),
            ({"path": "gone.py"}, "gone.py"),
        ):
            call = await tool.prepare(
                {**where, **wrong}
            )  # the file is read only when the call runs
            with pytest.raises(ToolError, match=why):
                await call.run()


async def test_only_an_editor_that_outputs_so_in_an_edition_that_has_it_is_asked():
    async with editor(started=False) as ours:
        await ours.start(capabilities={"codeAssistant": {"editor": {"references": True}}})
        session = ours.connection.session
        assert not editor_navigates(session, "definition")
        assert editor_navigates(session, "references")
    async with editor(started=False) as ours:
        forced = {"protocolRevision": "2025-10"}
        await ours.start(capabilities=CURRENT, initializationOptions=forced)
        assert not editor_navigates(ours.connection.session, "references")
        listed = [each["params"]["tools"] for each in ours.seen if "tools" in str(each)][-1]
        names = {tool["name"] for tool in listed}
        assert not names & {"eca_editor_references", "eca_ask_user"}
        assert "eca_editor_diagnostics" in names


async def test_a_folder_swapped_for_a_link_after_the_decision_is_not_asked_about(tmp_path):
    for name in ("src", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "b.py").write_text(TEXT)
    async with editor_and_tool(tmp_path) as (_, tool):
        call = await tool.prepare({"path": "src/b.py", "line": 2, "symbol": "tau"})
        (tmp_path / "src").rename(tmp_path / "away")
        (tmp_path / "src").symlink_to("outside")
        with trio.fail_after(5), pytest.raises(ToolError, match="changed after it was checked"):
            await call.run()
