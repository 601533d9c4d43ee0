"""Cases of tool calls: how they are told, what they change, what is cut of them, their names."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench
from eca_protocol.testing.conformance.cases import Stuck, case
from eca_protocol.testing.conformance.chat_seat import ChatSeat
from eca_protocol.testing.conformance.model import bare_name
from eca_protocol.testing.conformance.seat import Seat
from eca_protocol.testing.conformance.server.reading import (
    at_gate,
    calls,
    contents,
    ends,
    next_end,
    offered,
    runs,
    shown,
    words,
)
from eca_protocol.testing.provider import ReceivedRequest
from eca_protocol.testing.script import Reply, Step, chunk, finish, reply, tool_call, wait

READ, WRITE, EDIT, SHELL = "read_file", "write_file", "edit_file", "shell_command"
WATCHED: Final = ("W-30a", "W-32a", "TOOL-3", "TOOL-5", "TOOL-6", "TOOL-11")
"""What is watched in every call: where calls happened and nothing was seen, all is well."""

NEEDED: Final[Mapping[str, frozenset[str]]] = {
    "read_file": frozenset({"path"}),
    "write_file": frozenset({"path", "content"}),
    "edit_file": frozenset({"path", "original_content", "new_content"}),
    "shell_command": frozenset({"command"}),
    "directory_tree": frozenset({"path"}),
    "grep": frozenset({"path", "pattern"}),
    "move_file": frozenset({"source", "destination"}),
}
"""The native tools that servers share, and the names of the parameters that they need."""

OPTIONAL: Final[Mapping[str, frozenset[str]]] = {
    "read_file": frozenset({"line_offset", "limit"}),
    "edit_file": frozenset({"all_occurrences"}),
    "shell_command": frozenset({"working_directory", "timeout"}),
    "directory_tree": frozenset({"max_depth"}),
    "grep": frozenset({"include", "max_results"}),
}
"""The names of the parameters that they may have beside those."""


@case(
    "TOOL-1", "W-30b", "ARROW:chat-tool-call-2", "ARROW:chat-tool-call-4", needs="native-tools"
)  # fmt: skip
async def a_call_is_told_while_the_model_still_speaks(bench: Bench) -> None:
    """The model says a word, then calls a tool, and does not end its answer yet."""
    async with bench.seat() as seat:
        seat.tool(READ)
        path = seat.workspace / "told.txt"
        path.write_text("to be read\n")
        arguments = json.dumps({"path": str(path)})
        chat = seat.chat(
            reply("I look.", tool_call(READ, arguments), wait("end"), finish("tool_calls")),
            reply("Seen."),
        )
        await chat.prompt("Look at the file.")
        await at_gate(chat, "end")
        names = offered(chat.model.first.body)
        bench.check(
            "ARROW:chat-tool-call-2", bool(names), expected="tools in the request", got=names
        )
        with contextlib.suppress(Stuck):
            await seat.until(
                lambda _: any(each.get("argumentsText") for each in chat.of("toolCallPrepare")),
                expected="pieces of the arguments before the answer ends",
            )
        early = len(chat.of("toolCallPrepare"))
        chat.model.open("end")
        run = await shown(chat, "toolCallRun")
        pieces = [str(each.get("argumentsText", "")) for each in chat.of("toolCallPrepare")]
        if not pieces:
            raise Stuck("a call that is prepared")
        bench.check("TOOL-1", early, expected="pieces before the answer ends", got=early)
        bench.check(
            "W-30b",
            _is_json("".join(pieces), run.get("arguments")),
            expected=f"pieces that join to {arguments}",
            got=pieces,
        )
        await chat.finished()
        bench.check(
            "ARROW:chat-tool-call-4",
            chat.said.startswith("I look."),
            expected="the text before the call",
            got=chat.said,
        )


def _is_json(text: str, value: Any) -> bool:
    try:
        return bool(json.loads(text) == value)
    except ValueError:
        return False


@case("TOOL-7", "TOOL-12", "W-33a", *WATCHED, needs="native-tools")
async def files_are_read(bench: Bench) -> None:
    """The model reads a file that there is, and one that there is not."""
    async with bench.seat() as seat:
        seat.tool(READ)
        path = seat.workspace / "read.txt"
        path.write_text("what stands in the file\n")
        chat = seat.chat(
            calls((READ, {"path": str(path)})),
            calls((READ, {"path": str(path.with_name("no-such-file"))})),
            reply("Read."),
        )
        await chat.prompt("Read.")
        await approving(chat)
        called = ends(chat)
        texts = [words(each.get("outputs")) for each in called]
        good = (
            [each.get("error") for each in called] == [False, True]
            and all("totalTimeMs" in each for each in called)
            and "what stands in the file" in texts[0]
            and bool(texts[1].strip())
        )
        bench.check(
            "TOOL-7",
            good,
            expected="the file's text without an error; then an error that says why",
            got=called,
        )
        summary = [each.get("summary") for each in chat.of("toolCallRun")]
        bench.check("TOOL-12", all(summary), expected="a summary of each call", got=summary)
        bench.saw("W-33a", *WATCHED)


async def approving(chat: ChatSeat, *, seconds: float = 10) -> None:
    """Say yes to each call, asked or not, until the turn has finished.

    Raises:
        Stuck: it does not.
    """
    ended, approved = chat.ends, set[str]()

    def unapproved() -> list[str]:
        told = [str(run.get("id")) for run in runs(chat)]
        return [call for call in told if call not in approved]

    while chat.ends == ended:
        await chat.seat.until(
            lambda _: unapproved() or chat.ends > ended,
            seconds=seconds,
            expected="the end of the turn, or a call",
        )
        for call in unapproved():
            approved.add(call)
            await chat.approve(call)


@case("W-30h", needs="native-tools")
async def two_calls_of_one_answer_are_told_one_after_the_other(bench: Bench) -> None:
    """The model reads two files at once, and writes both calls in turn, piece by piece."""
    async with bench.seat() as seat:
        seat.tool(READ)
        files = [seat.workspace / f"{name}.txt" for name in ("one", "two")]
        for path in files:
            path.write_text(f"text of {path.name}\n")
        arguments = [json.dumps({"path": str(path)}) for path in files]
        both = calls(*[(READ, {"path": str(path)}) for path in files])
        is_plain = bench.target.api == "openai-chat"
        chat = seat.chat(partial(_mixed, arguments) if is_plain else both, reply("Read."))
        await chat.prompt("Read both.")
        await approving(chat)
        if len(runs(chat)) != len(files):
            raise Stuck("two calls", len(runs(chat)))
        bench.saw("W-30h")


def _mixed(arguments: Sequence[str], request: ReceivedRequest) -> Reply:
    """An answer with a call for each of these arguments, all of them written at once."""
    name = next((each for each in offered(request.body) if bare_name(each) == READ), READ)
    steps = [_delta(index, id=f"call_{index}", name=name) for index in range(len(arguments))]
    for start in range(0, max(map(len, arguments)), _PIECE):
        for index, text in enumerate(arguments):
            steps.append(_delta(index, arguments=text[start : start + _PIECE]))
    return reply(*steps, finish("tool_calls"))


def _delta(index: int, *, id: str | None = None, **function: str) -> Step:  # noqa: A002
    call: dict[str, Any] = {"index": index, "function": function}
    if id is not None:
        call |= {"id": id, "type": "function"}
        function["arguments"] = ""
    choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}
    return chunk({"object": "chat.completion.chunk", "choices": [choice]})


_PIECE: Final = 40  # characters


@case("W-30e", "W-30c", needs="native-tools")
async def what_cannot_be_called_is_called_with_an_error(bench: Bench) -> None:
    """A tool that there is not, and arguments that are no JSON or no object."""
    async with bench.seat() as seat:
        seat.tool(READ)
        for tool, arguments in (
            ("no_such_tool", "{}"), (READ, '{"path": '), (READ, "[1]"),
        ):  # fmt: skip
            chat = seat.chat(calls((tool, arguments)), reply("I see."))
            await chat.prompt("Do it.")
            await approving(chat)
            closed = ends(chat)
            bench.check(
                "W-30e",
                [(each["type"], each.get("error")) for each in closed] == [("toolCalled", True)],
                expected=f"toolCalled with an error for {tool} {arguments}",
                got=closed,
            )
            given = [each.get("arguments") for each in runs(chat)]
            bench.check("W-30c", given == [{}], expected="empty arguments on run", got=given)


@case("TOOL-13", "W-35a", needs="native-tools")
async def a_file_change_is_shown(bench: Bench) -> None:
    """A file is written, and a line of another edited, with the user's consent."""
    async with bench.seat() as seat:
        seat.tool(WRITE)
        seat.tool(EDIT)
        made, path = seat.workspace / "made.txt", seat.workspace / "changed.txt"
        path.write_text("one\ntwo\nthree\n")
        edit = {"path": str(path), "original_content": "two", "new_content": "zwei"}
        chat = seat.chat(
            calls((WRITE, {"path": str(made), "content": "one\ntwo\nthree\n"})),
            calls((EDIT, edit)),
            reply("Changed."),
        )
        await chat.prompt("Change it.")
        await approving(chat)
        details = [each.get("details", {}) for each in runs(chat)]
        if len(details) != 2:
            raise Stuck("two calls", len(details))
        counts = [(each.get("linesAdded"), each.get("linesRemoved")) for each in details]
        bench.check(
            "TOOL-13",
            [each.get("type") for each in details] == ["fileChange"] * 2
            and [each.get("path") for each in details] == [str(made), str(path)]
            and "+zwei" in str(details[1].get("diff"))
            and counts == [(3, 0), (1, 1)],
            expected=f"{made} and {path}, a diff, the counts (3, 0) and (1, 1)",
            got=details,
        )
        bench.saw("W-35a")


@case("W-38b", needs="native-tools")
async def an_edit_that_cannot_be_done_says_why(bench: Bench) -> None:
    """A text that the file does not have, and one that it has seventeen times."""
    async with bench.seat() as seat:
        seat.tool(EDIT)
        path = seat.workspace / "edited.txt"
        path.write_text("other\n" * 20 + "same\n" * 17)
        for original, why in (("not in there", r"\w"), ("same", r"\b17\b")):
            edit = {"path": str(path), "original_content": original, "new_content": "x"}
            chat = seat.chat(calls((EDIT, edit)), reply("I see."))
            await chat.prompt("Edit it.")
            await approving(chat)
            called = await next_end(chat)
            if original == "same" and called.get("error") is False:
                continue
            reason = _PATH.sub("", words(called.get("outputs")))
            bench.check(
                "W-38b",
                called.get("error") is True and re.search(why, reason),
                expected=f"an error that says why{', and how often' if original == 'same' else ''}",
                got=called,
            )


_PATH = re.compile(r"\S*edited\.txt")
"""How a reason may name the file: numbers in its folders' names count nothing."""

LONG = 300_000
_CUT = re.compile(r"\d+ bytes left out")


@case("W-6b", "W-38a", needs="native-tools")
async def a_long_output_is_cut_and_says_so(bench: Bench) -> None:
    """A command that writes two megabytes."""
    async with bench.seat() as seat:
        seat.tool(SHELL)
        chat = seat.chat(calls((SHELL, {"command": f"seq 1 {LONG}"})), reply("Long."))
        await chat.prompt("Count.")
        await approving(chat)
        output = words((await next_end(chat)).get("outputs"))
        if "1\n2\n3\n" not in output:
            raise Stuck("an output with the first numbers", output[:200])
        whole = str(LONG) in output and str(LONG // 2) in output
        bench.check("W-6b", not whole, expected="an output that was cut", got="all of it")
        if whole:
            bench.saw("W-38a")  # nothing was cut, so nothing had to be said
            return
        mark = _CUT.search(output)
        bench.check("W-38a", mark is not None, expected="... cut, N bytes left out ...", got=output)


@case("W-33c", "W-33f", "W-35b")
async def native_tools_have_the_names_that_people_configure(bench: Bench) -> None:
    """One prompt; the tools as they are listed, and as they are offered to the model."""
    async with bench.seat() as seat:
        listed = listed_tools(seat)
        reserved = set() if bench.edition is Revision.CURRENT else {"task"}  # its calls are watched
        taken = reserved & set(map(bare_name, listed))
        bench.check("W-35b", not taken, expected="no tool called task", got=taken or "none")
        may_be_brief = bench.target.personality.loses_large_frames
        wrong = {
            name: given
            for name, tool in listed.items()
            if (given := _properties(tool)) is not None
            and (given or not may_be_brief)
            and _are_named_otherwise(bare_name(name), given)
        }
        bench.check("W-33f", not wrong, expected="the parameters upstream has", got=wrong)
        chat = seat.chat(reply("Hi."))
        await chat.prompt("Hi.")
        await chat.finished()
        bare = [each for each in offered(chat.model.first.body) if each in NEEDED]
        if bench.edition <= Revision.R2025_10:
            bare += [name for name in listed if name in NEEDED]
        bench.check("W-33c", not bare, expected="names that begin with eca_", got=bare)


def _properties(tool: Mapping[str, Any]) -> set[str] | None:
    """The names of a tool's parameters; None if its schema does not say them."""
    schema = tool.get("parameters", {})
    properties = schema.get("properties", {}) if isinstance(schema, Mapping) else None
    return set(properties) if isinstance(properties, Mapping) else None


def _are_named_otherwise(tool: str, given: set[str]) -> bool:
    """Whether a needed parameter is missing, or an optional one is while there are strange ones."""
    if tool not in NEEDED:
        return False
    needed, optional = NEEDED[tool], OPTIONAL.get(tool, frozenset())
    return not needed <= given or bool(optional - given and given - needed - optional)


def listed_tools(seat: Seat) -> Mapping[str, Mapping[str, Any]]:
    """The native tools by their names, as the server told of them last."""
    told = [
        heard.params.get("tools")
        for heard in seat.wire.heard
        if heard.method == "tool/serverUpdated" and heard.params.get("type") == "native"
    ]
    tools = told[-1] if told and isinstance(told[-1], list) else ()
    return {
        str(tool["name"]): tool for tool in tools if isinstance(tool, Mapping) and "name" in tool
    }


@case("W-33d", since=Revision.CURRENT, needs="native-tools")
async def contents_have_the_names_without_a_prefix_in_current(bench: Bench) -> None:
    """The model reads a file."""
    async with bench.seat() as seat:
        seat.tool(READ)
        chat = seat.chat(calls((READ, {"path": str(seat.workspace / "none")})), reply("Hi."))
        await chat.prompt("Read.")
        await approving(chat)
        names = {str(each.get("name")) for each in contents(chat) if "server" in each}
        has_prefix = [name for name in (*listed_tools(seat), *names) if name.startswith("eca_")]
        bench.check("W-33d", not has_prefix, expected="names without a prefix", got=has_prefix)
