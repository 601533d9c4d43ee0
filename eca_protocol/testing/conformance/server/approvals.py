"""Cases of the user's word and the configuration's on tool calls: approved, rejected, denied."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench, Seat
from eca_protocol.testing.conformance.cases import NotApplicable, Stuck, case
from eca_protocol.testing.conformance.chat_seat import ChatSeat
from eca_protocol.testing.conformance.model import bare_name
from eca_protocol.testing.conformance.server.reading import (
    calls,
    contents,
    ends,
    id_of,
    kinds,
    next_end,
    next_run,
    offered,
    params_of,
    shown,
    told_of_calls,
)
from eca_protocol.testing.conformance.server.tools import SHELL, WRITE, listed_tools
from eca_protocol.testing.script import finish, reply, tool_call, wait

DENIED: Final = {
    "move_file": "move_file",
    "grep": "eca__grep",
    "directory_tree": "eca_directory_tree",
}
CONFIG: Final = {
    "chat": {"title": False},
    "toolCall": {"approval": {"deny": {spelled: {} for spelled in DENIED.values()}}},
}


def behavior(bench: Bench) -> str:
    """What the member of a prompt is called that says how it is to be answered."""
    return "agent" if bench.edition >= Revision.CURRENT else "behavior"


@case("TOOL-4", "TOOL-14", "ARROW:chat-tool-call-11", needs="native-tools")
async def an_approved_command_runs(bench: Bench) -> None:
    """The model wants a command; the user looks at it for a while and says yes."""
    async with bench.seat() as seat:
        seat.tool(SHELL)
        made = seat.workspace / "approved"
        chat = seat.chat(calls((SHELL, {"command": f"echo made it; touch {made}"})), reply("x"))
        await chat.prompt("Make it.")
        run = await next_run(chat)
        await seat.settle()
        ran = made.exists() or bool(chat.of("toolCallRunning"))
        bench.check(
            "TOOL-4",
            run.get("manualApproval") is not ran,
            expected="manualApproval true if it waits, false if it runs",
            got=f"{run.get('manualApproval')!r}, and it {'ran' if ran else 'waits'}",
        )
        if ran:
            raise Stuck("a command that waits for the user", "one that ran at once")
        await chat.approve(id_of(run))
        called = await next_end(chat, shows="TOOL-14")
        await chat.finished()
        bench.check(
            "TOOL-14",
            made.exists() and len(chat.model.requests) == 2,
            expected="the command's effect, and the next request",
            got=called,
        )
        if len(chat.model.requests) < 2:
            raise Stuck("the next request")
        results = told_of_calls(chat.model.requests[1].body)
        bench.check(
            "ARROW:chat-tool-call-11",
            any("made it" in each for each in results),
            expected="the result in the next request",
            got=results,
        )


@case("TOOL-18", "TOOL-8", "TOOL-9", "W-30f", "W-31b", "W-31c", "W-32b", needs="native-tools")
async def a_rejected_command_does_not_run(bench: Bench) -> None:
    """The model wants a command and the user says no; in CURRENT the user goes on."""
    async with bench.seat() as seat:
        seat.tool(SHELL)
        made = seat.workspace / "rejected"
        chat = seat.chat(calls((SHELL, {"command": f"touch {made}"})), reply("A pity."))
        await chat.prompt("Make it.")
        run = await shown(chat, "toolCallRun")
        if run.get("manualApproval") is not True:
            raise Stuck("a command that waits for the user", run)
        await chat.reject(id_of(run))
        await next_end(chat, shows="W-30f")
        await chat.finished()
        ran = made.exists() or bool(chat.of("toolCallRunning"))
        bench.check("TOOL-18", not ran, expected="a command that does not run", got=kinds(chat))
        reasons = [each.get("reason") for each in chat.of("toolCallRejected")]
        bench.check(
            "W-30f",
            ran or (bool(reasons) and "user-config" not in reasons),
            expected="a rejection by the user's choice",
            got=contents(chat),
        )
        bench.saw("TOOL-8", "TOOL-9", "W-32b")
        requests = len(chat.model.requests)
        if bench.edition is not Revision.CURRENT:
            expected = "the model is asked again"
            bench.check("W-31b", requests == 2, expected=expected, got=f"{requests} requests")
            return
        expected = "no request after the rejection"
        bench.check("W-31c", requests == 1, expected=expected, got=f"{requests} requests")
        await chat.prompt("Do something else.")
        await chat.finished(2)
        results = [told_of_calls(request.body) for request in chat.model.requests[1:2]]
        is_told = any(result.strip() for each in results for result in each)
        bench.check("W-31c", is_told, expected="the rejected call's result", got=results)


@case("TOOL-15", since=Revision.R2025_10, needs="native-tools")
async def an_approval_is_saved_for_the_session(bench: Bench) -> None:
    """The same command twice; the first time the user says yes for the session."""
    async with bench.seat(fresh=True) as seat:
        seat.tool(SHELL)
        command = calls((SHELL, {"command": "true"}))
        chat = seat.chat(command, command, reply("x"))
        await chat.prompt("Twice.")
        run = await next_run(chat)
        await chat.approve(id_of(run), save="session")
        again = await next_run(chat, 2)
        bench.check(
            "TOOL-15",
            again.get("manualApproval") is False,
            expected="no question the second time",
            got=again,
        )


@case("W-44d", "W-44e", since=Revision.CURRENT, needs="native-tools")
async def a_command_says_what_an_approval_would_remember(bench: Bench) -> None:
    """A pipeline of two harmless programs that waits, and a command that hides another one."""
    async with bench.seat(fresh=True) as seat:
        seat.tool(SHELL)
        plain, hiding = "ls | head -1", "sh -c 'echo $(date)'"
        chat = seat.chat(*(calls((SHELL, {"command": each})) for each in (plain, hiding)))
        await chat.prompt("List the files.")
        run = await next_run(chat)
        summaries = [each.get("summary") for each in chat.of("toolCallPrepare")]
        has_all = all(isinstance(each, str) and each for each in summaries)
        bench.check("W-44d", has_all, expected="a summary in toolCallPrepare", got=summaries)
        named = [(each.get("command"), bool(each.get("approvalKey"))) for each in _parts(run)]
        expected = [("ls", True), ("head", True)]
        bench.check("W-44e", named == expected, expected="ls and head, each with a key", got=run)
        await chat.approve(id_of(run), save="session")
        run = await next_run(chat, 2)
        hidden = [each for each in _parts(run) if not each.get("approvalKey")]
        is_right = bool(hidden) and run.get("manualApproval") is True
        expected_text = "a question, and a part without a key"
        bench.check("W-44e", is_right, expected=expected_text, got=run)
        await chat.reject(id_of(run))
        await chat.finished()


def _parts(run: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the commands that a call's details name."""
    details = run.get("details")
    commands = details.get("commands") if isinstance(details, Mapping) else None
    found = commands if isinstance(commands, list) else []
    return [each for each in found if isinstance(each, Mapping)]


@case("W-34a", needs="native-tools")
async def a_decision_that_nobody_waits_for_is_forgotten(bench: Bench) -> None:
    """Decisions on calls that there are not, that are still being prepared, that were rejected."""
    async with bench.seat() as seat:
        seat.tool(SHELL)
        await _is_rejected_for_good(bench, seat)
        chat = seat.chat(
            reply(
                tool_call(SHELL, json.dumps({"command": "true"})), wait("end"), finish("tool_calls")
            ),
            reply("x"),
        )
        for method in ("chat/toolCallApprove", "chat/toolCallReject"):
            await seat.tell(method, {"chatId": chat.id, "toolCallId": "nobody's"})
        await chat.prompt("Run it.")
        prepared = await shown(chat, "toolCallPrepare")
        await chat.approve(id_of(prepared))
        await seat.settle()
        chat.model.open("end")
        run = await shown(chat, "toolCallRun")
        await seat.settle()
        ran = _ran(chat)
        bench.check("W-34a", not ran, expected="a call that waits all the same", got=ran)
        if not ran:
            await chat.approve(id_of(run))
            await chat.reject(id_of(run))
        await chat.finished()
        closed = [each["type"] for each in ends(chat)]
        if not ran:
            bench.check("W-34a", closed == ["toolCalled"], expected="a call that ran", got=closed)


async def _is_rejected_for_good(bench: Bench, seat: Seat) -> None:
    """A call that was rejected is approved, while its turn goes on.

    Raises:
        Stuck: none waits, or is rejected.
    """
    made = seat.workspace / "rejected-for-good"
    chat = seat.chat(calls((SHELL, {"command": f"touch {made}"})), reply(wait("end"), "x"))
    await chat.prompt("Make it.")
    run = await next_run(chat)
    if run.get("manualApproval") is not True:
        raise Stuck("a command that waits for the user", run)
    await chat.reject(id_of(run))
    await next_end(chat)
    await seat.settle()
    before, is_made = _ran(chat), made.exists()
    await chat.approve(id_of(run))
    await seat.settle()
    chat.model.open("end")
    await chat.finished()
    bench.check(
        "W-34a",
        _ran(chat) == before and made.exists() is is_made,
        expected="a call that stays rejected",
        got=kinds(chat),
    )


def _ran(chat: ChatSeat) -> list[str]:
    """What tells that calls of a chat run, or ran."""
    return [each for each in kinds(chat) if each in ("toolCallRunning", "toolCalled")]


@case("W-34b", needs="native-tools")
async def a_decision_in_the_same_instant_counts(bench: Bench) -> None:
    """Each of ten calls is approved the moment it is announced."""
    async with bench.seat() as seat:
        seat.tool(SHELL)
        command = calls((SHELL, {"command": "true"}))
        chat = seat.chat(*[command] * 10, reply("x"))
        await chat.prompt("Ten times.")
        for turn in range(1, 11):
            run = await next_run(chat, turn)
            await chat.approve(id_of(run))
            await next_end(chat, turn, shows="W-34b")
        bench.check("W-34b", True, expected="ten calls that run", got="them")
        await chat.finished()


async def is_asked(chat: ChatSeat) -> bool:
    """Whether the user is asked of the first call, once it is announced.

    Raises:
        Stuck: there is none.
    """
    await chat.content("toolCallRun")
    await chat.seat.settle()
    run = chat.of("toolCallRun")[0]
    return run.get("manualApproval") is True and not ends(chat)


@case("W-30d", "W-31a", needs=("native-tools", "config"))
async def what_configuration_denies_is_rejected(bench: Bench) -> None:
    """A call that the configuration denies, and one that changes a file while it is planned."""
    async with bench.seat(config=CONFIG) as seat:
        seat.tool(WRITE)
        path = seat.workspace / "planned.txt"
        made = {"path": str(path), "content": "x"}
        found, behaves, ended = {}, set(), []
        tries: tuple[tuple[str, tuple[str, Any], dict[str, Any]], ...] = (
            ("denied", ("move_file", {"source": str(path), "destination": f"{path}2"}), {}),
            ("planned", (WRITE, made), {behavior(bench): "plan"}),
        )
        for name, call, params in tries:
            chat = seat.chat(calls(call), reply("x"))
            await chat.prompt("Do it.", **params)
            if await is_asked(chat):
                await chat.stop()
            else:
                await chat.finished()
            found[name] = [each["type"] for each in ends(chat)]
            if found[name] == ["toolCallRejected"] and len(chat.model.requests) == 1:
                ended.append(name)
            behaves |= {frozenset(offered(request.body)) for request in chat.model.requests[:1]}
        if len(behaves) == 1 and not found["planned"]:
            del found["planned"]  # the prompt's behaviour does not govern its turn
        if not any(bare_name(name) == "move_file" for name in seat.native_tools):
            del found["denied"]
        bench.check(
            "W-30d",
            all(each == ["toolCallRejected"] for each in found.values()),
            expected="toolCallRejected, user-config, of each",
            got=found,
        )
        asked_again = "the model is asked again after each rejection"
        bench.check("W-31a", not ended, expected=asked_again, got=f"turns that ended: {ended}")


@case("W-33e", needs=("native-tools", "config"))
async def configuration_names_tools_in_any_spelling(bench: Bench) -> None:
    """Three tools that the configuration denies, each in another spelling of its name."""
    async with bench.seat(config=CONFIG) as seat:
        ran = []
        for tool in DENIED:
            seat.tool(tool)
            arguments = {"path": str(seat.workspace), "pattern": "x", "source": "a"}
            chat = seat.chat(calls((tool, arguments)), reply("x"))
            await chat.prompt("Do it.")
            if await is_asked(chat) or chat.of("toolCallRunning"):
                ran.append(f"{tool}, denied as {DENIED[tool]}")
                await chat.stop()
        bench.check("W-33e", not ran, expected="each is rejected", got=ran)


@case("W-33b")
async def the_list_is_sent_again_when_what_is_disabled_changes(bench: Bench) -> None:
    """The user selects to plan."""
    async with bench.seat(fresh=True) as seat:
        seat.tool(WRITE)
        told = [heard for heard in seat.heard if heard.method == "tool/serverUpdated"]
        before, name = await _offered_now(seat), behavior(bench)
        await seat.tell(f"chat/selected{name.capitalize()}Changed", {name: "plan"})
        if await _offered_now(seat) == before:
            raise NotApplicable("to plan disables none of its tools")
        await seat.until(
            lambda message: (
                message.get("method") == "tool/serverUpdated"
                and params_of(message).get("type") == "native"
            ),
            after=told[-1],
            shows="W-33b",
            expected="the native tools once more",
        )
        off = [name for name, tool in listed_tools(seat).items() if tool.get("disabled")]
        bench.check("W-33b", off, expected="tools that are disabled now", got=off)


async def _offered_now(seat: Seat) -> set[str]:
    """The tools that are offered to the model of a new chat."""
    chat = seat.chat(reply("Hi."))
    await chat.prompt("Hi.")
    await chat.finished()
    return set(offered(chat.model.first.body))
