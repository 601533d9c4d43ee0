"""Cases of tool calls: announcements, results, file changes, limits, and names."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.model import bare_name
from eca_protocol.testing.conformance.server.reading import (
    all_text,
    call_results,
    calls,
    offered_tools,
)
from eca_protocol.testing.conformance.session import ClientSession
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.provider import ReceivedRequest
from eca_protocol.testing.script import Reply, Step, chunk, finish, reply, tool_call, wait

READ, WRITE, EDIT, SHELL = "read_file", "write_file", "edit_file", "shell_command"
WATCHED: Final = ("W-30a", "W-32a", "TOOL-3", "TOOL-5", "TOOL-6", "TOOL-11")
"""Requirements that the watcher checks in every call."""

NEEDED: Final[Mapping[str, frozenset[str]]] = {
    "read_file": frozenset({"path"}),
    "write_file": frozenset({"path", "content"}),
    "edit_file": frozenset({"path", "original_content", "new_content"}),
    "shell_command": frozenset({"command"}),
    "directory_tree": frozenset({"path"}),
    "grep": frozenset({"path", "pattern"}),
    "move_file": frozenset({"source", "destination"}),
}
"""The common native tools, and their required parameters."""

OPTIONAL: Final[Mapping[str, frozenset[str]]] = {
    "read_file": frozenset({"line_offset", "limit"}),
    "edit_file": frozenset({"all_occurrences"}),
    "shell_command": frozenset({"working_directory", "timeout"}),
    "directory_tree": frozenset({"max_depth"}),
    "grep": frozenset({"include", "max_results"}),
}
"""Their optional parameters."""


@case("TOOL-1", "W-30b", "ARROW:chat-tool-call-2", "ARROW:chat-tool-call-4", tools=[READ])
async def a_call_is_announced_while_the_model_still_writes(session: ClientSession) -> None:
    """Hold the model's answer back after a text and a tool call."""
    path = session.file("told.txt", "to be read\n")
    arguments = json.dumps({"path": str(path)})
    chat = session.chat(
        reply("I look.", tool_call(READ, arguments), wait("end"), finish("tool_calls")),
        reply("Seen."),
    )
    await chat.prompt("Look at the file.")
    await chat.model.wait_for_gate("end")
    names = offered_tools(chat.model.first.body)
    session.check("ARROW:chat-tool-call-2", bool(names), "tools in the request to the model", names)
    with contextlib.suppress(Unmet):
        await session.until_holds(
            lambda: any(each.get("argumentsText") for each in chat.of("toolCallPrepare")),
            expected="toolCallPrepare before the model's answer ends",
        )
    early = len(chat.of("toolCallPrepare"))
    chat.model.open("end")
    run = (await chat.content("toolCallRun")).content
    pieces = [str(each.get("argumentsText", "")) for each in chat.of("toolCallPrepare")]
    if not pieces:
        raise Unmet("`toolCallPrepare` of the call")
    session.check(
        "TOOL-1", early, "toolCallPrepare before the model's answer ends", f"{early} of them"
    )
    expected = f"pieces of argumentsText that join to {arguments}"
    session.check("W-30b", _is_json("".join(pieces), run.get("arguments")), expected, pieces)
    await chat.finished()
    is_right = chat.assistant_text.startswith("I look.")
    expected = "the text that precedes the call"
    session.check("ARROW:chat-tool-call-4", is_right, expected, chat.assistant_text)


def _is_json(text: str, value: Any) -> bool:
    try:
        return bool(json.loads(text) == value)
    except ValueError:
        return False


@case("TOOL-7", "TOOL-12", "W-33a", *WATCHED, tools=[READ])
async def files_are_read(session: ClientSession) -> None:
    """Read an existing file, and a missing one."""
    path = session.file("read.txt", "the text of the file\n")
    chat = await session.take_approved_turn(
        "Read.",
        calls((READ, {"path": str(path)})),
        calls((READ, {"path": str(path.with_name("no-such-file"))})),
        reply("Read."),
    )
    ends_of_calls = chat.call_ends
    texts = [all_text(each.get("outputs")) for each in ends_of_calls]
    is_right = (
        [each.get("error") for each in ends_of_calls] == [False, True]
        and all("totalTimeMs" in each for each in ends_of_calls)
        and "the text of the file" in texts[0]
        and bool(texts[1].strip())
    )
    expected = "the file's text, then an error with a reason, both with totalTimeMs"
    session.check("TOOL-7", is_right, expected, ends_of_calls)
    summary = [each.get("summary") for each in chat.of("toolCallRun")]
    session.check("TOOL-12", all(summary), "a summary of each call", summary)
    session.record_pass("W-33a", *WATCHED)


@case("W-30h", tools=[READ])
async def two_calls_of_one_answer_are_announced_one_after_the_other(session: ClientSession) -> None:
    """Read two files in one answer, whose calls are interleaved."""
    files = [session.file(name, f"text of {name}\n") for name in ("one.txt", "two.txt")]
    arguments = [json.dumps({"path": str(path)}) for path in files]
    both = calls(*[(READ, {"path": str(path)}) for path in files])
    is_plain = session.target.api == "openai-chat"
    chat = await session.take_approved_turn(
        "Read both.",
        partial(_interleaved_calls, arguments) if is_plain else both,
        reply("Read."),
    )
    if len(chat.runs) != len(files):
        raise Unmet("two calls", len(chat.runs))
    session.record_pass("W-30h")


@case("ARROW:chat-tool-call-11", tools=[READ])
async def each_result_of_one_answer_reaches_the_model(session: ClientSession) -> None:
    """Read three files in one answer."""
    names = [f"{name}-of-three.txt" for name in ("one", "two", "three")]
    files = [session.file(name, f"text of {name}\n") for name in names]
    chat = await session.take_approved_turn(
        "Read them.",
        calls(*[(READ, {"path": str(path)}) for path in files]),
        reply("Read."),
    )
    if len(chat.model.requests) < 2:
        raise Unmet("the next request to the model")
    results = call_results(chat.model.requests[1].body)
    missing = [name for name in names if not any(f"text of {name}" in each for each in results)]
    expected = "the result of each of three calls in the next request"
    got = f"no result: {missing}; {results}"
    session.check("ARROW:chat-tool-call-11", not missing, expected, got)


def _interleaved_calls(arguments: Sequence[str], request: ReceivedRequest) -> Reply:
    """Build a reply with a call for each of these arguments, in interleaved pieces."""
    name = next((each for each in offered_tools(request.body) if bare_name(each) == READ), READ)
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


@case("W-30e", "W-30c", tools=[READ])
async def what_cannot_be_called_is_called_with_an_error(session: ClientSession) -> None:
    """Call an unknown tool, and one with malformed arguments."""
    for tool, arguments in (
        ("no_such_tool", "{}"), (READ, '{"path": '), (READ, "[1]"),
    ):  # fmt: skip
        chat = await session.take_approved_turn("Do it.", calls((tool, arguments)), reply("I see."))
        closed = chat.call_ends
        is_right = [(each["type"], each.get("error")) for each in closed] == [("toolCalled", True)]
        expected = f"exactly one toolCalled, with an error, for {tool} {arguments}"
        session.check("W-30e", is_right, expected, closed)
        run_arguments = [each.get("arguments") for each in chat.runs]
        session.check("W-30c", run_arguments == [{}], "arguments {} in toolCallRun", run_arguments)


@case("TOOL-13", "W-35a", tools=[WRITE, EDIT])
async def a_file_change_is_shown(session: ClientSession) -> None:
    """Write a file, and edit a line of another."""
    path, new_file = (
        session.file("changed.txt", "one\ntwo\nthree\n"),
        session.workspace / "made.txt",
    )
    edit = {"path": str(path), "original_content": "two", "new_content": "zwei"}
    chat = await session.take_approved_turn(
        "Change it.",
        calls((WRITE, {"path": str(new_file), "content": "one\ntwo\nthree\n"})),
        calls((EDIT, edit)),
        reply("Changed."),
    )
    details = [each.get("details", {}) for each in chat.runs]
    if len(details) != 2:
        raise Unmet("two calls", len(details))
    counts = [(each.get("linesAdded"), each.get("linesRemoved")) for each in details]
    session.check(
        "TOOL-13",
        [each.get("type") for each in details] == ["fileChange"] * 2
        and [each.get("path") for each in details] == [str(new_file), str(path)]
        and "+zwei" in str(details[1].get("diff"))
        and counts == [(3, 0), (1, 1)],
        f"fileChange of {new_file} and {path}, a diff, line counts (3, 0) and (1, 1)",
        details,
    )
    session.record_pass("W-35a")


@case("W-38b", tools=[EDIT])
async def an_edit_that_cannot_be_done_says_why(session: ClientSession) -> None:
    """Edit a text that is not in the file, and one that occurs seventeen times."""
    path = session.file("edited.txt", "other\n" * 20 + "same\n" * 17)
    for original, why in (("not in there", r"\w"), ("same", r"\b17\b")):
        edit = {"path": str(path), "original_content": original, "new_content": "x"}
        chat = await session.take_approved_turn("Edit it.", calls((EDIT, edit)), reply("I see."))
        end = await chat.next_end()
        if original == "same" and end.get("error") is False:
            continue
        reason = _PATH.sub("", all_text(end.get("outputs")))
        number = " and the number of matches" if original == "same" else ""
        is_right = end.get("error") is True and re.search(why, reason)
        session.check("W-38b", is_right, f"an error with a reason{number}", end)


_PATH = re.compile(r"\S*edited\.txt")  # the file's path in a reason, whose digits do not count
LONG = 300_000
_CUT = re.compile(r"\d+ bytes left out")


@case("W-6b", "W-38a", tools=[SHELL])
async def a_long_output_is_cut_and_says_so(session: ClientSession) -> None:
    """Run a command that writes two megabytes."""
    chat = await session.take_approved_turn(
        "Count.", calls((SHELL, {"command": f"seq 1 {LONG}"})), reply("Long.")
    )
    output = all_text((await chat.next_end()).get("outputs"))
    if "1\n2\n3\n" not in output:
        raise Unmet("an output with the first numbers", output[:200])
    whole = str(LONG) in output and str(LONG // 2) in output
    session.check(
        "W-6b", not whole, "an output that was cut", "the whole output" if whole else "a cut output"
    )
    if whole:
        session.record_pass("W-38a")  # nothing was cut, so nothing had to be said
        return
    mark = _CUT.search(output)
    session.check("W-38a", mark is not None, "... cut, N bytes left out ...", output)


@case("W-33c", "W-33f", "W-35b")
async def native_tools_have_the_names_that_people_configure(session: ClientSession) -> None:
    """Compare the announced tools with those offered to the model."""
    listed = session.native_tools
    reserved = (
        set() if session.edition is Revision.CURRENT else {"task"}
    )  # the watcher reserves this name
    names_taken = reserved & set(map(bare_name, listed))
    session.check("W-35b", not names_taken, "no tool named task", names_taken or "none")
    may_be_brief = session.target.personality.loses_large_frames
    deviating = {
        name: arguments
        for name, tool in listed.items()
        if (arguments := _properties(tool)) is not None
        and (arguments or not may_be_brief)
        and _deviates(bare_name(name), arguments)
    }
    session.check("W-33f", not deviating, "the parameter names of upstream's tools", deviating)
    chat = await session.take_turn("Hi.", reply("Hi."))
    without_prefix = [each for each in offered_tools(chat.model.first.body) if each in NEEDED]
    if session.edition <= Revision.R2025_10:
        without_prefix += [name for name in listed if name in NEEDED]
    session.check("W-33c", not without_prefix, "names with the prefix eca_", without_prefix)


def _properties(tool: Mapping[str, Any]) -> set[str] | None:
    schema = tool.get("parameters", {})
    properties = schema.get("properties", {}) if isinstance(schema, Mapping) else None
    return set(properties) if isinstance(properties, Mapping) else None


def _deviates(tool: str, arguments: set[str]) -> bool:
    """Return whether a required parameter is missing, or an optional one was renamed."""
    if tool not in NEEDED:
        return False
    needed, optional = NEEDED[tool], OPTIONAL.get(tool, frozenset())
    return not needed <= arguments or bool(optional - arguments and arguments - needed - optional)


@case("W-33d", since=Revision.CURRENT, tools=[READ])
async def contents_have_the_names_without_a_prefix_in_current(session: ClientSession) -> None:
    """Read a file, and compare the names in its contents."""
    chat = await session.take_approved_turn(
        "Read.", calls((READ, {"path": str(session.workspace / "none")})), reply("Hi.")
    )
    names = {str(each.get("name")) for each in chat.of() if "server" in each}
    has_prefix = [name for name in (*session.native_tools, *names) if name.startswith("eca_")]
    session.check("W-33d", not has_prefix, "names without the prefix eca_", has_prefix)
