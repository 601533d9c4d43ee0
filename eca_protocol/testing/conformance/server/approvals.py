"""Cases of approvals: decisions of the user and of the configuration on tool calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.chat_session import ChatSession
from eca_protocol.testing.conformance.harness import ClientSession
from eca_protocol.testing.conformance.model import bare_name
from eca_protocol.testing.conformance.server.reading import (
    call_results,
    calls,
    id_of,
    offered_tools,
)
from eca_protocol.testing.conformance.server.tools import EDIT, SHELL, WRITE
from eca_protocol.testing.conformance.verdicts import NotApplicable, Unmet
from eca_protocol.testing.members import list_at
from eca_protocol.testing.script import finish, reply, tool_call, wait

DENIED: Final = {
    "move_file": "move_file",
    "grep": "eca__grep",
    "directory_tree": "eca_directory_tree",
}
FORBIDDEN: Final = "forbidden"
RULES: Final[dict[str, object]] = {
    "chat": {"title": False},
    "toolCall": {
        "approval": {
            "byDefault": "allow",
            "allow": {"move_file": {}},
            "deny": {
                "move_file": {},
                SHELL: {"argsMatchers": {"command": [f".*{FORBIDDEN}.*"]}},
            },
        }
    },
}
"""Rules that deny what others allow, in upstream's form."""
CONFIG: Final[dict[str, object]] = {
    "chat": {"title": False},
    "toolCall": {"approval": {"deny": {spelled: {} for spelled in DENIED.values()}}},
}


def behavior(session: ClientSession) -> str:
    """Return the member of a prompt that names its behaviour."""
    return "agent" if session.edition >= Revision.CURRENT else "behavior"


@case("TOOL-4", "TOOL-14", "ARROW:chat-tool-call-11", tools=[SHELL])
async def an_approved_command_runs(session: ClientSession) -> None:
    """Approve a command that waits for a while."""
    file = session.workspace / "approved"
    chat = session.chat(calls((SHELL, {"command": f"echo made it; touch {file}"})), reply("x"))
    await chat.prompt("Make it.")
    run = await chat.next_run()
    await session.settle()
    ran = file.exists() or bool(chat.of("toolCallRunning"))
    expected = "manualApproval true for a call that waits, false for one that runs"
    got = f"{run.get('manualApproval')!r} for a call that {'ran' if ran else 'waits'}"
    session.check("TOOL-4", run.get("manualApproval") is not ran, expected, got)
    if ran:
        raise Unmet("a command that waits for approval", "one that ran at once")
    await chat.approve(id_of(run))
    called = await chat.next_end(shows="TOOL-14")
    await chat.finished()
    expected = "the file that the command creates, and a second request to the model"
    session.check("TOOL-14", file.exists() and len(chat.model.requests) == 2, expected, called)
    if len(chat.model.requests) < 2:
        raise Unmet("the next request to the model")
    results = call_results(chat.model.requests[1].body)
    is_right = any("made it" in each for each in results)
    expected = "the tool result with the command's output in the next request"
    session.check("ARROW:chat-tool-call-11", is_right, expected, results)


@case("TOOL-18", "TOOL-8", "TOOL-9", "W-30f", "W-31b", "W-31c", "W-32b", tools=[SHELL])
async def a_rejected_command_does_not_run(session: ClientSession) -> None:
    """Reject a command; in CURRENT, prompt the chat again."""
    file = session.workspace / "rejected"
    chat = session.chat(calls((SHELL, {"command": f"touch {file}"})), reply("A pity."))
    await chat.prompt("Make it.")
    run = (await chat.content("toolCallRun")).content
    if run.get("manualApproval") is not True:
        raise Unmet("a command that waits for approval", run)
    await chat.reject(id_of(run))
    await chat.next_end(shows="W-30f")
    await chat.finished()
    ran = file.exists() or bool(chat.of("toolCallRunning"))
    session.check("TOOL-18", not ran, "a rejected command does not run", chat.kinds)
    _check_reasons(session, chat, ran=ran)
    requests = len(chat.model.requests)
    if session.edition is not Revision.CURRENT:
        expected = "a second request to the model"
        session.check("W-31b", requests == 2, expected, f"{requests} requests")
        return
    expected = "no request to the model after the rejection"
    session.check("W-31c", requests == 1, expected, f"{requests} requests")
    await chat.take_turn("Do something else.")
    results = [call_results(request.body) for request in chat.model.requests[1:2]]
    has_result = any(result.strip() for each in results for result in each)
    session.check(
        "W-31c", has_result, "the rejected call's tool result in the next request", results
    )


async def _waiting_call(chat: ChatSession, prompt: str, what: str = "a command") -> str:
    """Prompt a chat whose model calls a tool; return the id of the call, which has to wait."""
    await chat.prompt(prompt)
    run = await chat.next_run()
    if run.get("manualApproval") is not True:
        raise Unmet(f"{what} that waits for approval", run)
    return id_of(run)


def _check_reasons(session: ClientSession, chat: ChatSession, *, ran: bool) -> None:
    """Check the reasons of a call that the user rejected; an unknown reason breaks W-32b alone."""
    reasons = [each.get("reason") for each in chat.of("toolCallRejected")]
    session.record_pass("TOOL-8", "W-32b")
    unknown = [each for each in reasons if each not in ("user-choice", "user-config")]
    if unknown and not ran:
        for id_ in ("W-30f", "TOOL-9"):
            session.untestable(id_, f"the unknown reason {unknown[0]!r} breaks W-32b")
        return
    is_right = ran or (bool(reasons) and "user-config" not in reasons)
    session.check("W-30f", is_right, "toolCallRejected with the reason user-choice", chat.of())
    session.record_pass("TOOL-9")


@case("TOOL-15", since=Revision.R2025_10, tools=[SHELL], fresh=True)
async def an_approval_is_saved_for_the_session(session: ClientSession) -> None:
    """Run a command twice; approve the first call for the session."""
    command = calls((SHELL, {"command": "true"}))
    chat = session.chat(command, command, reply("x"))
    await chat.prompt("Twice.")
    run = await chat.next_run()
    await chat.approve(id_of(run), save="session")
    again = await chat.next_run(2)
    expected = "toolCallRun with manualApproval false for the second call"
    session.check("TOOL-15", again.get("manualApproval") is False, expected, again)


@case("W-44d", "W-44e", since=Revision.CURRENT, tools=[SHELL], fresh=True)
async def a_command_says_what_an_approval_would_remember(session: ClientSession) -> None:
    """Approve a harmless pipeline, then a command that hides another one."""
    plain, hiding = "ls | head -1", "sh -c 'echo $(date)'"
    chat = session.chat(*(calls((SHELL, {"command": each})) for each in (plain, hiding)))
    await chat.prompt("List the files.")
    run = await chat.next_run()
    summaries = [each.get("summary") for each in chat.of("toolCallPrepare")]
    has_all = all(isinstance(each, str) and each for each in summaries)
    session.check("W-44d", has_all, "a summary in each toolCallPrepare", summaries)
    named = [(each.get("command"), bool(each.get("approvalKey"))) for each in _parts(run)]
    are_named = named == [("ls", True), ("head", True)]
    expected = "the commands ls and head in `details`, each with an approvalKey"
    session.check("W-44e", are_named, expected, run)
    await chat.approve(id_of(run), save="session")
    run = await chat.next_run(2)
    hidden = [each for each in _parts(run) if not each.get("approvalKey")]
    is_right = bool(hidden) and run.get("manualApproval") is True
    expected = "manualApproval true, and a command without an approvalKey"
    session.check("W-44e", is_right, expected, run)
    await chat.reject(id_of(run))
    await chat.finished()


def _parts(run: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [each for each in list_at(run, "details", "commands") if isinstance(each, Mapping)]


@case("W-34a", tools=[SHELL])
async def a_decision_without_a_waiting_call_is_ignored(session: ClientSession) -> None:
    """Decide on calls that are unknown, still being prepared, or already rejected."""
    await _check_late_approval(session)
    chat = session.chat(
        reply(tool_call(SHELL, json.dumps({"command": "true"})), wait("end"), finish("tool_calls")),
        reply("x"),
    )
    for method in ("chat/toolCallApprove", "chat/toolCallReject"):
        await session.notify(method, {"chatId": chat.id, "toolCallId": "nobody's"})
    await chat.prompt("Run it.")
    prepared = (await chat.content("toolCallPrepare")).content
    await chat.approve(id_of(prepared))
    await session.settle()
    chat.model.open("end")
    run = (await chat.content("toolCallRun")).content
    await session.settle()
    ran = _execution_contents(chat)
    session.check(
        "W-34a", not ran, "the call still waits after a decision during its preparation", ran
    )
    if not ran:
        await chat.approve(id_of(run))
        await chat.reject(id_of(run))
    await chat.finished()
    closed = [each["type"] for each in chat.call_ends]
    if not ran:
        expected = "toolCalled only: the later rejection is ignored"
        session.check("W-34a", closed == ["toolCalled"], expected, closed)


async def _check_late_approval(session: ClientSession) -> None:
    file = session.workspace / "rejected-for-good"
    chat = session.chat(calls((SHELL, {"command": f"touch {file}"})), reply(wait("end"), "x"))
    call = await _waiting_call(chat, "Make it.")
    await chat.reject(call)
    await chat.next_end()
    await session.settle()
    before, is_made = _execution_contents(chat), file.exists()
    await chat.approve(call)
    await session.settle()
    chat.model.open("end")
    await chat.finished()
    is_right = _execution_contents(chat) == before and file.exists() is is_made
    session.check("W-34a", is_right, "the call stays rejected after a later approval", chat.kinds)


def _execution_contents(chat: ChatSession) -> list[str]:
    return [each for each in chat.kinds if each in ("toolCallRunning", "toolCalled")]


@case("W-34b", tools=[SHELL])
async def a_decision_in_the_same_instant_counts(session: ClientSession) -> None:
    """Approve each of ten calls as soon as it is announced."""
    command = calls((SHELL, {"command": "true"}))
    chat = session.chat(*[command] * 10, reply("x"))
    await chat.prompt("Ten times.")
    for turn in range(1, 11):
        run = await chat.next_run(turn)
        await chat.approve(id_of(run))
        await chat.next_end(turn, shows="W-34b")
    session.check("W-34b", True, "the end of each of ten calls", "the end of each of ten calls")
    await chat.finished()


async def is_approval_needed(chat: ChatSession) -> bool:
    """Wait for the first call; return whether it waits for the user."""
    await chat.content("toolCallRun")
    await chat.session.settle()
    run = chat.of("toolCallRun")[0]
    return run.get("manualApproval") is True and not chat.call_ends


@case("W-30d", "W-31a", needs="config", tools=[WRITE], config=CONFIG)
async def what_configuration_denies_is_rejected(session: ClientSession) -> None:
    """Call a tool that the configuration denies, and a writing tool in plan mode."""
    path = session.workspace / "planned.txt"
    file = {"path": str(path), "content": "x"}
    ends_by_call: dict[str, list[Any]] = {}
    tool_sets, ended_turns = set(), []
    tries: tuple[tuple[str, tuple[str, Any], dict[str, Any]], ...] = (
        ("denied", ("move_file", {"source": str(path), "destination": f"{path}2"}), {}),
        ("planned", (WRITE, file), {behavior(session): "plan"}),
    )
    for name, call, params in tries:
        chat = session.chat(calls(call), reply("x"))
        await chat.prompt("Do it.", **params)
        if await is_approval_needed(chat):
            ends_by_call[name] = []  # the stop ends it
            await chat.stop()
        await chat.finished()
        ends_by_call.setdefault(name, [each["type"] for each in chat.call_ends])
        if ends_by_call[name] == ["toolCallRejected"] and len(chat.model.requests) == 1:
            ended_turns.append(name)
        tool_sets |= {frozenset(offered_tools(request.body)) for request in chat.model.requests[:1]}
    if len(tool_sets) == 1 and not ends_by_call["planned"]:
        del ends_by_call["planned"]  # the prompt's behaviour does not govern its turn
    if not any(bare_name(name) == "move_file" for name in session.native_tools):
        del ends_by_call["denied"]
    is_right = all(each == ["toolCallRejected"] for each in ends_by_call.values())
    session.check("W-30d", is_right, "exactly one toolCallRejected for each call", ends_by_call)
    asked_again = "a further request to the model after each rejection"
    session.check("W-31a", not ended_turns, asked_again, f"no further request for: {ended_turns}")


@case("W-30d", needs=("native-tools", "config"), config=RULES)
async def a_denial_counts_although_more_is_allowed(session: ClientSession) -> None:
    """Call a tool that is allowed and denied, and a command that a rule for its text denies."""
    file, source = session.workspace / FORBIDDEN, session.workspace / "to-move"
    source.touch()
    tries = {
        "move_file": {"source": str(source), "destination": f"{file}"},
        SHELL: {"command": f"touch {file}"},
    }
    known = set(map(bare_name, session.native_tools))
    ends_by_tool: dict[str, list[Any]] = {}
    for tool, arguments in tries.items():
        if tool in known:
            chat = session.chat(calls((tool, arguments)), reply("x"))
            await chat.prompt("Do it.")
            if await is_approval_needed(chat):
                ends_by_tool[tool] = ["a question to the user"]
                await chat.stop()
            await chat.finished()
            ends_by_tool.setdefault(tool, [each["type"] for each in chat.call_ends])
    if not ends_by_tool:
        raise NotApplicable("it has none of the tools that are denied")
    are_rejected = all(each == ["toolCallRejected"] for each in ends_by_tool.values())
    expected = "exactly one toolCallRejected for each call"
    session.check("W-30d", are_rejected and not file.exists(), expected, ends_by_tool)


@case("TOOL-13", tools=[EDIT])
async def an_edit_keeps_what_changed_since_its_announcement(session: ClientSession) -> None:
    """Add a line to a file while an edit of the file waits, then approve the edit."""
    path = session.file("changed-meanwhile.txt", "one\ntwo\nthree\n")
    edit = {"path": str(path), "original_content": "two", "new_content": "zwei"}
    chat = session.chat(calls((EDIT, edit)), reply("x"))
    call = await _waiting_call(chat, "Edit it.", "an edit")
    changed = "one\ntwo\nthree\nfour, by the user\n"
    path.write_text(changed)
    await chat.approve(call)
    end = await chat.next_end()
    await chat.finished()
    text, is_error = path.read_text(), end.get("error") is True
    is_right = text == (changed if is_error else changed.replace("two", "zwei"))
    expected = "the announced change of the file as it is now, or an error and no change"
    got = f"{'an error' if is_error else 'no error'}, and the text {text!r}"
    session.check("TOOL-13", is_right, expected, got)


@case("W-33e", needs=("native-tools", "config"), config=CONFIG)
async def configuration_names_tools_in_any_spelling(session: ClientSession) -> None:
    """Call three tools that are denied in different spellings of their names."""
    ran = []
    for tool in DENIED:
        session.tool(tool)
        arguments = {"path": str(session.workspace), "pattern": "x", "source": "a"}
        chat = session.chat(calls((tool, arguments)), reply("x"))
        await chat.prompt("Do it.")
        if await is_approval_needed(chat) or chat.of("toolCallRunning"):
            ran.append(f"{tool}, denied as {DENIED[tool]}")
            await chat.stop()
    session.check(
        "W-33e", not ran, "each tool is rejected, whatever its spelling in the configuration", ran
    )


@case("W-33b", fresh=True)
async def the_list_is_sent_again_when_what_is_disabled_changes(session: ClientSession) -> None:
    """Select the plan agent, which disables tools."""
    session.tool(WRITE)
    tool_lists = [each for each in session.messages if each.method == "tool/serverUpdated"]
    before, name = await _offered_now(session), behavior(session)
    await session.notify(f"chat/selected{name.capitalize()}Changed", {name: "plan"})
    if await _offered_now(session) == before:
        raise NotApplicable("to plan disables none of its tools")
    await session.wait_for(
        "tool/serverUpdated",
        {"type": "native"},
        after=tool_lists[-1],
        shows="W-33b",
        expected="a `tool/serverUpdated` of the native tools after the selection",
    )
    off = [name for name, tool in session.native_tools.items() if tool.get("disabled")]
    session.check("W-33b", off, "at least one native tool with disabled true", off)


async def _offered_now(session: ClientSession) -> set[str]:
    chat = await session.take_turn("Hi.", reply("Hi."))
    return set(offered_tools(chat.model.first.body))
