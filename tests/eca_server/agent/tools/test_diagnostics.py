"""The editor's diagnostics as sent to the model, and editors without them (W-42)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_protocol.messages import WorkspaceFolder
from eca_protocol.server.roots import parse_roots, uri_of
from eca_server.agent.tools.diagnostics import EditorDiagnostics, editor_has_diagnostics
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.tool import ToolError
from eca_server.workspace.boundary import Workspace
from tests.eca_server.agent.chat.current import CURRENT
from tests.eca_server.agent.chat.editor import Editor, editor

CAN = {"codeAssistant": {"chat": True, "editor": {"diagnostics": True}}}


def finding(**members: Any) -> dict[str, Any]:
    position = {"line": 3, "character": 7}
    return {
        "uri": "file:///project/src/a%20b.py",
        "severity": "error",
        "source": "linter",
        "range": {"start": position, "end": position},
        "code": "E1",
        "message": "It is wrong.",
        **members,
    }


@contextlib.asynccontextmanager
async def editor_and_tool(
    root: Path, *, client: str = "somebody", capabilities: Mapping[str, Any] = CAN, **options: Any
) -> AsyncIterator[tuple[Editor, EditorDiagnostics]]:
    """Connect an editor of that name, and create the tool."""
    roots, _ = parse_roots([WorkspaceFolder(uri=uri_of(root))])
    async with editor(started=False) as ours:
        await ours.start(clientInfo={"name": client}, capabilities=capabilities)
        session = ours.connection.session
        yield ours, EditorDiagnostics(session=session, workspace=Workspace(roots), **options)


async def result(
    ours: Editor, tool: EditorDiagnostics, reply: Mapping[str, Any], **arguments: Any
) -> tuple[str, Any]:
    """Return the tool's output for a reply of the editor, and the params of the request."""
    call = await tool.prepare(arguments)
    outputs: list[str] = []

    async def run() -> None:
        try:
            outputs.extend(part.text for part in (await call.run()).parts)
        except ToolError as fault:
            outputs.append(f"fault: {fault}")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        request = await ours.until(lambda each: each.get("method") == "editor/getDiagnostics")
        await ours.send({"jsonrpc": "2.0", "id": request["id"], **reply})
    [text] = outputs
    return text, request.get("params")


async def shown(tool_and: tuple[Editor, EditorDiagnostics], *findings: Any) -> str:
    text, _ = await result(*tool_and, {"result": {"diagnostics": list(findings)}})
    return text


@pytest.mark.requirement("EDIT-2")
async def test_a_finding_is_a_line(tmp_path):
    async with editor_and_tool(tmp_path) as both:
        text, params = await result(
            *both,
            {"result": {"diagnostics": [finding(), finding(message="two\n  lines", code="")]}},
        )
    assert text == (
        "/project/src/a b.py:3:7: error: [E1] It is wrong.\n"
        "/project/src/a b.py:3:7: error: two lines"
    )
    assert not params


@pytest.mark.requirement("EDIT-1")
@pytest.mark.parametrize("path", ["src/a b.py", "./src/../src/a b.py"])
async def test_one_file_is_asked_for_by_its_uri(tmp_path, path):
    async with editor_and_tool(tmp_path) as (ours, tool):
        assert (await tool.prepare({"path": path})).paths == (path,)
        text, params = await result(ours, tool, {"result": {"diagnostics": []}}, path=path)
    assert params == {"uri": f"{uri_of(tmp_path)}/src/a%20b.py"}
    assert text == "No diagnostics."


async def test_a_file_swapped_for_a_link_after_the_decision_is_not_asked_about(tmp_path):
    (tmp_path / "a.py").write_text("")
    async with editor_and_tool(tmp_path) as (_, tool):
        call = await tool.prepare({"path": "a.py"})
        (tmp_path / "a.py").unlink()
        (tmp_path / "a.py").symlink_to("/etc/passwd")
        with trio.fail_after(5), pytest.raises(ToolError, match="changed after it was checked"):
            await call.run()


@pytest.mark.requirement("W-42a", "W-42c", "EDIT-5")
@pytest.mark.parametrize(
    ("client", "source", "place"),
    [
        ("emacs", "python-flake8", "4:8"),
        ("emacs", "Pyright", "4:8"),
        ("emacs", None, "4:8"),
        ("emacs", "eglot-flymake-backend", "3:8"),
        ("VsCode", "linter", "4:8"),
        ("IntelliJ", "linter", "4:8"),
        ("Neovim", "linter", "4:8"),
        ("somebody", "python-flymake", "3:7"),
    ],
)
@pytest.mark.parametrize("capabilities", [CAN, CURRENT])
async def test_positions_count_from_one_whatever_the_editor_counts_from(
    tmp_path, client, source, place, capabilities
):
    async with editor_and_tool(tmp_path, client=client, capabilities=capabilities) as both:
        assert f".py:{place}: error" in await shown(both, finding(source=source))


@pytest.mark.requirement("W-42b")
@pytest.mark.parametrize(
    ("members", "line"),
    [
        ({"severity": "information"}, "information: [E1] It is wrong."),
        ({"severity": "unknown"}, "unknown: [E1] It is wrong."),
        ({"severity": "hint", "source": None}, "hint: [E1] It is wrong."),
        ({"code": None}, "error: It is wrong."),
        ({"code": 0}, "error: [0] It is wrong."),
        ({"uri": "untitled:Untitled-1"}, "untitled:Untitled-1:3:7: error: [E1] It is wrong."),
    ],
)
async def test_what_editors_really_send_is_read(tmp_path, members, line):
    async with editor_and_tool(tmp_path) as both:
        assert (await shown(both, finding(**members))).endswith(line)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ({"result": None}, "result.diagnostics"),
        ({"result": "Unknown method editor/getDiagnostics"}, "expected an object"),
        ({"result": {"diagnostics": [finding(), 7]}}, "diagnostics[1]"),
        ({"result": {"diagnostics": [finding(range=None)]}}, "diagnostics[0].range"),
        ({"error": {"code": -32601, "message": "no such method"}}, "no such method"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_a_no(tmp_path, reply, why):
    async with editor_and_tool(tmp_path) as (ours, tool):
        text, _ = await result(ours, tool, reply)
        assert text.startswith("fault: Could not get the diagnostics from the editor: ")
        assert why in text
        assert (await ours.turn("still there?"))[-1]["state"] == "finished"


async def test_an_editor_that_never_answers_is_not_waited_for(tmp_path, autojump_clock):
    async with editor_and_tool(tmp_path, timeout=30) as (_, tool):
        call = await tool.prepare({})
        begun = trio.current_time()
        with pytest.raises(ToolError, match="timed out after 30 s"):
            await call.run()
        assert trio.current_time() - begun == pytest.approx(30)


async def test_an_editor_that_goes_away_ends_the_wait(tmp_path):
    async with editor_and_tool(tmp_path) as (ours, tool):
        call = await tool.prepare({})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_expect_fault, call.run)
            await ours.until(lambda each: each.get("method") == "editor/getDiagnostics")
            await ours.tell("exit")


async def _expect_fault(run: Callable[[], Awaitable[object]]) -> None:
    with pytest.raises(ToolError, match="Could not get the diagnostics from the editor"):
        await run()


@pytest.mark.requirement("W-42d", "LIFE-9")
@pytest.mark.parametrize(
    "capabilities",
    [
        {},
        {"codeAssistant": {"chat": True}},
        {"codeAssistant": {"editor": {}}},
        {"codeAssistant": {"editor": {"diagnostics": False}}},
    ],
)
async def test_an_editor_that_did_not_say_it_can_is_not_asked(tmp_path, capabilities):
    async with editor_and_tool(tmp_path, capabilities=capabilities) as (ours, tool):
        assert not editor_has_diagnostics(tool.session)
        with pytest.raises(ToolError, match="does not support diagnostics"):
            await tool.prepare({})
        assert not any(each.get("method") == "editor/getDiagnostics" for each in ours.seen)
    async with editor_and_tool(tmp_path) as (_, tool):
        assert editor_has_diagnostics(tool.session)


async def test_a_path_that_is_none_is_refused(tmp_path):
    async with editor_and_tool(tmp_path) as (_, tool):
        with pytest.raises(ToolError, match="NUL"):
            await tool.prepare({"path": "a\0b"})


async def test_thousands_of_findings_are_cut(tmp_path):
    async with editor_and_tool(tmp_path, cap=Cap(lines=2)) as both:
        lines = (await shown(both, *[finding()] * 5)).splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("... cut, ")


async def test_a_summary_says_what_is_asked_about(tmp_path):
    async with editor_and_tool(tmp_path) as (_, tool):
        assert tool.summary({}) == "Checking diagnostics"
        assert tool.summary({"path": "a.py"}) == "Checking diagnostics of a.py"
