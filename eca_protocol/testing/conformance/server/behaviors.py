"""Cases of the behaviour: what a prompt, a selection and the options of the client decide.

A behaviour is told by what the model is asked with: the instructions and the tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench, Seat
from eca_protocol.testing.conformance.cases import NotApplicable, Stuck, case
from eca_protocol.testing.conformance.server.reading import offered
from eca_protocol.testing.script import finish, reply, tool_call, wait

BEHAVIOR: Final = "chat/selectedBehaviorChanged"
AGENT: Final = "chat/selectedAgentChanged"


@attrs.frozen
class Choice:
    """Two behaviours of a server, and how its edition names one in a prompt."""

    selected: str
    other: str
    member: str

    @property
    def method(self) -> str:
        """By which the edition tells of a selection."""
        return AGENT if self.member == "agent" else BEHAVIOR


def _choice(seat: Seat) -> Choice:
    """What there is to choose from.

    Raises:
        NotApplicable: there are not two.
    """
    config = seat.config
    agents = seat.edition is Revision.CURRENT
    selected = config.get("selectAgent" if agents else "selectBehavior")
    names = config.get("agents" if agents else "behaviors") or []
    others = [name for name in names if name != selected]
    if selected is None or not others:
        raise NotApplicable("the server has no two behaviours")
    other = "plan" if "plan" in others else others[0]
    return Choice(selected, other, "agent" if agents else "behavior")


async def _asked(seat: Seat, **params: Any) -> str:
    """What the model is told to be, and is offered, for a prompt with these params."""
    chat = seat.chat(reply("Hello."))
    await chat.prompt("Hi.", **params)
    await chat.finished()
    return _governed(chat.model.first.body)


def _governed(body: Mapping[str, Any]) -> str:
    """What a behaviour decides in a request; numbers, which may be a time, are left out."""
    told = [
        message.get("content")
        for message in body.get("messages", [])
        if message.get("role") in ("system", "developer")
    ]
    return re.sub(r"\d+", "", json.dumps([told, body.get("system"), sorted(offered(body))]))


def _governs(ok: bool) -> str:
    return "it does" if ok else "another behaviour governs the turn"


@case("W-28a", "W-28c")
async def prompt_and_selection_decide(bench: Bench) -> None:
    """Prompts with one behaviour, with the other, and with none, before and after a selection."""
    async with bench.seat(fresh=True) as seat:
        choice = _choice(seat)
        plain = await _asked(seat)
        named = [
            await _asked(seat, **{choice.member: name}) for name in (choice.selected, choice.other)
        ]
        await seat.tell(choice.method, {choice.member: choice.other})
        later = await _asked(seat)
        if len({plain, later, *named}) == 1:
            raise Stuck("behaviours that differ in what the model is asked with", "equal ones")
        again = await _asked(seat, **{choice.member: choice.selected})
        for ok, words in (
            (named[0] == plain != named[1], "a prompt's behaviour wins over the selected one"),
            (later == named[1], "a selection holds for later prompts"),
            (again == named[0], "a prompt's behaviour wins over a later selection"),
        ):
            bench.check("W-28a", ok, expected=words, got=_governs(ok))
        await _names_mean_the_same(bench, seat, choice)


async def _names_mean_the_same(bench: Bench, seat: Seat, choice: Choice) -> None:
    """`behavior` and `agent`, in prompts and in selections; the other behaviour is selected."""
    mine, theirs = choice.selected, choice.other
    in_prompts = [
        await _asked(seat, **params)
        for params in ({"behavior": mine}, {"agent": mine}, {"behavior": theirs, "agent": mine})
    ]
    selected = []
    for method, params in ((BEHAVIOR, {"behavior": mine}), (AGENT, {"agent": mine})):
        await seat.tell(choice.method, {choice.member: theirs})
        await seat.tell(method, params)
        selected.append(await _asked(seat))
    for got, words in (
        (in_prompts[:2], "a prompt's `agent` is as its `behavior`"),
        (in_prompts[1:], "`agent` before `behavior`"),
        (selected, f"{AGENT} as {BEHAVIOR}"),
    ):
        ok = len(set(got)) == 1
        bench.check("W-28c", ok, expected=words, got=_governs(ok))


@case("W-28d", since=Revision.CURRENT)
async def built_in_agents_have_their_names(bench: Bench) -> None:
    """`code` and `plan` are listed; a prompt may call the one `agent` or `build`, too."""
    async with bench.seat(fresh=True) as seat:
        names = seat.config.get("agents") or []
        bench.check(
            "W-28d",
            {"code", "plan"} <= set(names),
            expected="code and plan among the agents",
            got=names,
        )
        asked = [await _asked(seat, agent="code")]
        await seat.tell(AGENT, {"agent": "plan"})  # an unknown name would mean this one
        asked += [await _asked(seat, agent=name) for name in ("agent", "build")]
        ok = len(set(asked)) == 1
        bench.check("W-28d", ok, expected="agent and build as code", got=_governs(ok))


@case("W-28b")
async def a_selection_touches_no_running_turn(bench: Bench) -> None:
    """The behaviour is changed in the middle of a turn, which asks the model once more."""
    async with bench.seat(fresh=True) as seat:
        choice = _choice(seat)
        call = tool_call("no_such_tool", "{}")
        chat = seat.chat(reply("Hel", wait("chosen"), call, finish("tool_calls")), reply("lo"))
        await chat.prompt("Hi.")
        await chat.content("text", text="Hel", expected="the first words of the model")
        before = len(seat.heard)
        await seat.tell(choice.method, {choice.member: choice.other})
        await seat.settle()
        chat.model.open("chosen")
        await chat.finished()
        sent_back = [
            heard.params
            for heard in seat.heard[before:]
            if heard.method == "config/updated" and "select" in str(heard.params)
        ]
    bench.check("W-28b", not sent_back, expected="no select* for a selection", got=sent_back)
    asked = [_governed(request.body) for request in chat.model.requests]
    bench.check(
        "W-28b",
        len(asked) == 2 and asked[0] == asked[1],
        expected="a turn that goes on as it began",
        got=f"{len(asked)} requests to the model, {len(set(asked))} behaviours",
    )


@case("LIFE-8")
async def options_name_the_first_behaviour(bench: Bench) -> None:
    """`initialize` with a behaviour that is not the usual one."""
    async with bench.seat() as seat:
        choice = _choice(seat)
    options = {("chatAgent" if choice.member == "agent" else "chatBehavior"): choice.other}
    async with bench.seat(fresh=True, initialize={"initializationOptions": options}) as seat:
        got = _choice(seat).selected
    bench.check("LIFE-8", got == choice.other, expected=f"{choice.other!r} is selected", got=got)
