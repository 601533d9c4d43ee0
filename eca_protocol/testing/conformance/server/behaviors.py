"""Cases of behaviours: prompts, selections and client options decide the behaviour of a turn.

A behaviour is recognized by the instructions and the tools of a request to the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.harness import ClientSession, Harness
from eca_protocol.testing.conformance.server.reading import offered_tools
from eca_protocol.testing.conformance.verdicts import NotApplicable, Unmet
from eca_protocol.testing.script import finish, reply, tool_call, wait

BEHAVIOR: Final = "chat/selectedBehaviorChanged"
AGENT: Final = "chat/selectedAgentChanged"


@attrs.frozen
class Choice:
    """Two behaviours of a server, and the edition's member for them in a prompt."""

    selected: str
    other: str
    member: str

    @property
    def method(self) -> str:
        """The notification by which the edition selects a behaviour."""
        return AGENT if self.member == "agent" else BEHAVIOR


def _choice(session: ClientSession) -> Choice:
    """Return the selected behaviour and another one."""
    config = session.config
    agents = session.edition is Revision.CURRENT
    selected = config.get("selectAgent" if agents else "selectBehavior")
    names = config.get("agents" if agents else "behaviors") or []
    others = [name for name in names if name != selected]
    if selected is None or not others:
        raise NotApplicable("the server has no two behaviours")
    other = "plan" if "plan" in others else others[0]
    return Choice(selected, other, "agent" if agents else "behavior")


async def _parts_for_prompt(session: ClientSession, **params: Any) -> str:
    """Return the instructions and tools of a request, for a prompt with these params."""
    chat = await session.take_turn("Hi.", reply("Hello."), **params)
    return _governed_parts(chat.model.first.body)


def _governed_parts(body: Mapping[str, Any]) -> str:
    """Return the parts of a request that the behaviour decides, without numbers (times)."""
    instructions = [
        message.get("content")
        for message in body.get("messages", [])
        if message.get("role") in ("system", "developer")
    ]
    return re.sub(
        r"\d+", "", json.dumps([instructions, body.get("system"), sorted(offered_tools(body))])
    )


def _describe_governing(ok: bool) -> str:
    return "the expected behaviour" if ok else "another behaviour"


@case("W-28a", "W-28c", fresh=True)
async def prompt_and_selection_decide(session: ClientSession) -> None:
    """Prompt with either behaviour and with none, before and after a selection."""
    choice = _choice(session)
    plain = await _parts_for_prompt(session)
    named = [
        await _parts_for_prompt(session, **{choice.member: name})
        for name in (choice.selected, choice.other)
    ]
    await session.notify(choice.method, {choice.member: choice.other})
    later = await _parts_for_prompt(session)
    if len({plain, later, *named}) == 1:
        raise Unmet("different instructions or tools for different behaviours", "equal ones")
    again = await _parts_for_prompt(session, **{choice.member: choice.selected})
    for ok, words in (
        (named[0] == plain != named[1], "the prompt's behaviour overrides the selected one"),
        (later == named[1], "a selection applies to later prompts"),
        (again == named[0], "the prompt's behaviour overrides a later selection"),
    ):
        session.check("W-28a", ok, words, _describe_governing(ok))
    await _names_mean_the_same(session, choice)


async def _names_mean_the_same(session: ClientSession, choice: Choice) -> None:
    """Use `behavior` and `agent`, in prompts and selections."""
    mine, theirs = choice.selected, choice.other
    in_prompts = [
        await _parts_for_prompt(session, **params)
        for params in ({"behavior": mine}, {"agent": mine}, {"behavior": theirs, "agent": mine})
    ]
    selected = []
    for method, params in ((BEHAVIOR, {"behavior": mine}), (AGENT, {"agent": mine})):
        await session.notify(choice.method, {choice.member: theirs})
        await session.notify(method, params)
        selected.append(await _parts_for_prompt(session))
    for got, words in (
        (in_prompts[:2], "`agent` and `behavior` of a prompt mean the same"),
        (in_prompts[1:], "`agent` of a prompt overrides `behavior`"),
        (selected, f"{AGENT} and {BEHAVIOR} mean the same"),
    ):
        ok = len(set(got)) == 1
        session.check("W-28c", ok, words, _describe_governing(ok))


@case("W-28d", since=Revision.CURRENT, fresh=True)
async def built_in_agents_have_their_names(session: ClientSession) -> None:
    """Expect `code` and `plan`; prompt with the aliases `agent` and `build`."""
    names = session.config.get("agents") or []
    session.check(
        "W-28d", {"code", "plan"} <= set(names), "the agents code and plan in the list", names
    )
    parts = [await _parts_for_prompt(session, agent="code")]
    await session.notify(AGENT, {"agent": "plan"})  # an unknown name would mean this one
    parts += [await _parts_for_prompt(session, agent=name) for name in ("agent", "build")]
    ok = len(set(parts)) == 1
    session.check(
        "W-28d", ok, "the agents `agent` and `build` mean `code`", _describe_governing(ok)
    )


@case("W-28b", fresh=True)
async def a_selection_touches_no_running_turn(session: ClientSession) -> None:
    """Select another behaviour during a turn of two requests."""
    choice = _choice(session)
    call = tool_call("no_such_tool", "{}")
    chat = session.chat(reply("Hel", wait("chosen"), call, finish("tool_calls")), reply("lo"))
    await chat.prompt("Hi.")
    await chat.content("text", text="Hel", expected="the first text of the model")
    before = len(session.messages)
    await session.notify(choice.method, {choice.member: choice.other})
    await session.settle()
    chat.model.open("chosen")
    await chat.finished()
    sent_back = [
        received.params
        for received in session.messages[before:]
        if received.method == "config/updated" and "select" in str(received.params)
    ]
    expected = "no select* in a `config/updated` after the client's selection"
    session.check("W-28b", not sent_back, expected, sent_back)
    parts = [_governed_parts(request.body) for request in chat.model.requests]
    expected = "both requests of the turn with the same behaviour"
    got = f"{len(parts)} requests to the model, {len(set(parts))} behaviours"
    session.check("W-28b", len(parts) == 2 and parts[0] == parts[1], expected, got)


@case("LIFE-8")
async def options_name_the_first_behaviour(harness: Harness) -> None:
    """Send `initialize` with a behaviour other than the default."""
    async with harness.session() as session:
        choice = _choice(session)
    options = {("chatAgent" if choice.member == "agent" else "chatBehavior"): choice.other}
    async with harness.session(
        fresh=True, initialize={"initializationOptions": options}
    ) as session:
        got = _choice(session).selected
    harness.check("LIFE-8", got == choice.other, f"{choice.other!r} as the selected behaviour", got)
