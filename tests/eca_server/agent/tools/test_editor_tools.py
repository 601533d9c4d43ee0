"""Diagnostics and symbols from the editor, and editors without the capability (W-42)."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from eca_protocol.server.roots import uri_of
from eca_server.agent.tools.editor_tools import (
    EditorDefinition,
    EditorDiagnostics,
    EditorReferences,
    editor_answers,
)
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.tool import PreparedCall, Tool, ToolError
from tests.eca_server.agent.chat.current import CURRENT, current
from tests.eca_server.agent.chat.editor import Editor, editor
from tests.eca_server.agent.tools.file_tools import text_of, workspace_of
from tests.eca_server.agent.virtual_clock import autojump_clock as autojump_clock  # noqa: PLC0414

CAN = {"codeAssistant": {"chat": True, "editor": {"diagnostics": True}}}
TEXT = "import\fos\nπ𝔸 = tau; tau2 = tau\n\tprint( x )\natau tau"
TAU = {"path": "a.py", "line": 2, "symbol": "tau"}


class Asking:
    """A tool that asks an editor, and the editor."""

    def __init__(self, editor: Editor, tool: Tool) -> None:
        self.editor = editor
        self.tool = tool
        self.request: dict[str, Any] = {}

    async def answered(self, reply: Mapping[str, Any], **arguments: Any) -> str:
        """Return the tool's output or error for a reply of the editor."""
        call = await self.tool.prepare(arguments)
        outputs: list[str] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.run, call, outputs)
            await self.reply(reply)
        (text,) = outputs
        return text

    async def reply(self, reply: Mapping[str, Any]) -> None:
        """Wait for a request of the server, and answer it."""
        self.request = await self.editor.until(lambda each: "editor/" in each.get("method", ""))
        await self.editor.send({"jsonrpc": "2.0", "id": self.request["id"], **reply})

    async def findings(self, *findings: Any) -> str:
        return await self.answered({"result": {"diagnostics": list(findings)}})

    async def run(self, call: PreparedCall, outputs: list[str]) -> None:
        try:
            outputs.append(text_of(await call.run()))
        except ToolError as error:
            outputs.append(f"error: {error}")


@contextlib.asynccontextmanager
async def asking(
    root: Path,
    kind: Any = EditorDiagnostics,
    *,
    client: str = "somebody",
    capabilities: Mapping[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[Asking]:
    """Connect an editor of that name, and create the tool; `a.py` has the content `TEXT`."""
    (root / "a.py").write_text(TEXT)
    if capabilities is None:
        capabilities = CAN if kind is EditorDiagnostics else CURRENT
    async with editor(about={"clientInfo": {"name": client}, "capabilities": capabilities}) as ours:
        session = ours.connection.session
        yield Asking(ours, kind(session=session, workspace=workspace_of(root), **options))


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


@pytest.mark.requirement("EDIT-2")
async def test_a_finding_is_a_line(tmp_path):
    async with asking(tmp_path) as asks:
        text = await asks.findings(finding(), finding(message="two\n  lines", code=""))
    assert text == (
        "/project/src/a b.py:3:7: error: [E1] It is wrong.\n"
        "/project/src/a b.py:3:7: error: two lines"
    )
    assert not asks.request.get("params")
    async with asking(tmp_path, cap=Cap(lines=2)) as asks:
        *lines, last = (await asks.findings(*[finding()] * 5)).splitlines()
    assert len(lines) == 2
    assert last.startswith("... cut, ")


@pytest.mark.requirement("EDIT-1")
@pytest.mark.parametrize("path", ["src/a b.py", "./src/../src/a b.py"])
async def test_one_file_is_asked_for_by_its_uri(tmp_path, path):
    async with asking(tmp_path) as asks:
        assert (await asks.tool.prepare({"path": path})).paths == (path,)
        text = await asks.answered({"result": {"diagnostics": []}}, path=path)
        with pytest.raises(ToolError, match="NUL"):
            await asks.tool.prepare({"path": "a\0b"})
    assert asks.request["params"] == {"uri": f"{uri_of(tmp_path)}/src/a%20b.py"}
    assert text == "No diagnostics."
    assert asks.tool.summary({}) == "Checking diagnostics"
    assert asks.tool.summary({"path": "a.py"}) == "Checking diagnostics of a.py"


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
async def test_positions_count_from_one(tmp_path, client, source, place, capabilities):
    async with asking(tmp_path, client=client, capabilities=capabilities) as asks:
        assert f".py:{place}: error" in await asks.findings(finding(source=source))


@pytest.mark.requirement("W-42b")
async def test_what_editors_really_send_is_read(tmp_path):
    async with asking(tmp_path) as asks:
        for members, line in [
            ({"severity": "information"}, "information: [E1] It is wrong."),
            ({"severity": "unknown"}, "unknown: [E1] It is wrong."),
            ({"severity": "hint", "source": None}, "hint: [E1] It is wrong."),
            ({"code": None}, "error: It is wrong."),
            ({"code": 0}, "error: [0] It is wrong."),
            ({"uri": "untitled:Untitled-1"}, "untitled:Untitled-1:3:7: error: [E1] It is wrong."),
        ]:
            assert (await asks.findings(finding(**members))).endswith(line)


NO_METHOD = {"error": {"code": -32601, "message": "no such method"}}


@pytest.mark.parametrize(
    ("kind", "reply", "why"),
    [
        (EditorDiagnostics, {"result": None}, "result.diagnostics"),
        (EditorDiagnostics, {"result": "Unknown method"}, "expected an object"),
        (EditorDiagnostics, {"result": {"diagnostics": [finding(), 7]}}, "diagnostics[1]"),
        (EditorDiagnostics, {"result": {"diagnostics": [finding(range=None)]}}, "[0].range"),
        (EditorDiagnostics, NO_METHOD, "no such method"),
        (EditorDefinition, {"result": {"status": "no-server"}}, "no language server"),
        (EditorDefinition, {"result": {"status": "error", "message": "oh"}}, "not answer: oh"),
        (EditorDefinition, {"result": {"status": "novel"}}, "gave no reason"),
        (EditorDefinition, {"result": None}, "result"),
        (EditorDefinition, {"result": "Unknown method"}, "expected an object"),
        (EditorDefinition, NO_METHOD, "no such method"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_a_no(tmp_path, kind, reply, why):
    is_definition = kind is EditorDefinition
    async with asking(tmp_path, kind) as asks:
        text = await asks.answered(reply, **(TAU if is_definition else {}))
        assert (await asks.editor.turn("still there?"))[-1]["state"] == "finished"
    words = ("The editor could not", "Could not ask the editor", "Could not get the diagnostics")
    assert text.removeprefix("error: ").startswith(words)
    assert why in text


@pytest.mark.parametrize("kind", [EditorDiagnostics, EditorDefinition])
async def test_an_editor_that_never_answers_is_not_waited_for(tmp_path, autojump_clock, kind):
    async with asking(tmp_path, kind, timeout=30) as asks:
        call = await asks.tool.prepare(TAU if kind is EditorDefinition else {})
        begun = trio.current_time()
        with pytest.raises(ToolError, match="timed out after 30 s"):
            await call.run()
        assert trio.current_time() - begun == pytest.approx(30, abs=0.1)


async def test_an_editor_that_goes_away_ends_the_wait(tmp_path):
    outputs: list[str] = []
    async with asking(tmp_path) as asks:
        call = await asks.tool.prepare({})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(asks.run, call, outputs)
            await asks.editor.until(lambda each: each.get("method") == "editor/getDiagnostics")
            await asks.editor.tell("exit")
    assert "Could not get the diagnostics from the editor" in outputs[0]


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
    async with asking(tmp_path, capabilities=capabilities) as asks:
        assert not editor_answers(asks.editor.connection.session, "diagnostics")
        with pytest.raises(ToolError, match="does not support diagnostics"):
            await asks.tool.prepare({})
        assert asks.editor.notified("editor/getDiagnostics") == []
    async with asking(tmp_path) as asks:
        assert editor_answers(asks.editor.connection.session, "diagnostics")


async def test_only_an_editor_that_navigates_in_an_edition_that_has_it_is_asked():
    capabilities = {"codeAssistant": {"editor": {"references": True}}}
    async with editor(about={"capabilities": capabilities}) as ours:
        session = ours.connection.session
        assert not editor_answers(session, "definition")
        assert editor_answers(session, "references")
    async with current(initializationOptions={"protocolRevision": "2025-10"}) as ours:
        assert not editor_answers(ours.connection.session, "references")
        listed = [each["params"]["tools"] for each in ours.received if "tools" in str(each)][-1]
        names = {tool["name"] for tool in listed}
        assert not names & {"eca_editor_references", "eca_ask_user"}
        assert "eca_editor_diagnostics" in names


@pytest.mark.parametrize("kind", [EditorDiagnostics, EditorDefinition])
@pytest.mark.parametrize("swapped", ["src/b.py", "src"])
async def test_what_is_swapped_for_a_link_is_not_asked_about(tmp_path, kind, swapped):
    for name in ("src", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "b.py").write_text(TEXT)
    path = tmp_path / swapped
    async with asking(tmp_path, kind) as asks:
        position = {} if kind is EditorDiagnostics else TAU
        call = await asks.tool.prepare({**position, "path": "src/b.py"})
        path.rename(tmp_path / "away")
        path.symlink_to(tmp_path / "outside" / path.relative_to(tmp_path / "src"))
        with trio.fail_after(5), pytest.raises(ToolError, match="changed after it was checked"):
            await call.run()


async def test_a_place_is_a_line_and_utf_16_units_that_count_from_one(tmp_path):
    reply = {"result": {"status": "success", "locations": []}}
    async with asking(tmp_path, EditorDefinition) as asks:
        for arguments, character in [
            ({}, 7),
            ({"character": 7}, 7),
            ({"character": 9}, 19),
            ({"symbol": "tau2"}, 12),
            ({"symbol": "π𝔸"}, 1),
            ({"symbol": "ta"}, 7),
            ({"line": 3, "symbol": "( x )"}, 7),
            ({"line": 4}, 6),
        ]:
            place = {**TAU, **arguments}
            assert await asks.answered(reply, **place) == "No location found."
            assert asks.request["method"] == "editor/getDefinition"
            assert asks.request["params"] == {
                "uri": uri_of(tmp_path / "a.py"),
                "position": {"line": place["line"], "character": character},
            }


def place(uri: str, line: int, character: int) -> dict[str, Any]:
    position = {"line": line, "character": character}
    return {"uri": uri, "range": {"start": position, "end": position}}


async def test_each_place_is_shown_with_what_is_there_in_the_workspace(tmp_path):
    root, outside = tmp_path / "in", tmp_path / "out"
    outside.write_text("secret\n")
    root.mkdir()
    places = [
        place(uri_of(root / "a.py"), 3, 2),
        place(uri_of(root / "a.py"), 99, 1),
        place(uri_of(outside), 1, 1),
        place("untitled:Untitled-1", 0, 0),
    ]
    async with asking(root, EditorReferences) as asks:
        reply = {"result": {"status": "success", "locations": places}}
        text = await asks.answered(reply, **TAU, include_declaration=False)
    assert asks.request["method"] == "editor/getReferences"
    assert asks.request["params"]["includeDeclaration"] is False
    assert text.splitlines() == [
        f"{root}/a.py:3:2: print( x )",
        f"{root}/a.py:99:1",
        f"{outside}:1:1",
        "untitled:Untitled-1:0:0",
    ]


async def test_an_editor_whose_language_server_starts_is_asked_again(tmp_path, autojump_clock):
    async with asking(tmp_path, EditorDefinition, timeout=5) as asks:
        call = await asks.tool.prepare(TAU)
        begun = trio.current_time()
        replies = 0

        async def answer_that_it_starts() -> None:
            nonlocal replies
            while True:
                await asks.reply({"result": {"status": "starting"}})
                replies += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer_that_it_starts)
            why = "could not answer: its language server is still start"
            with pytest.raises(ToolError, match=why):
                await call.run()
            nursery.cancel_scope.cancel()
        assert trio.current_time() - begun <= 5
    assert replies == 5


async def test_a_name_that_is_missing_there_is_refused_with_the_line(tmp_path):
    async with asking(tmp_path, EditorDefinition) as asks:
        assert (await asks.tool.prepare(TAU)).paths == ("a.py",)
        for wrong, why in (
            ({"symbol": "os"}, "which is: π𝔸 = tau; tau2 = tau"),
            ({"symbol": ""}, "is not in line 2"),
            ({"line": 9}, "line: expected at most 4"),
            ({"character": 10**30}, "is not in line"),
            ({"path": "gone.py"}, "gone.py"),
        ):
            call = await asks.tool.prepare({**TAU, **wrong})  # the file is read by the run
            with pytest.raises(ToolError, match=why):
                await call.run()
