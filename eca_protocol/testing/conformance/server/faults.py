"""Cases of a model that fails: refused, cut off, garbled, unknown; the turn ends all the same."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Final

import anyio

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench
from eca_protocol.testing.conformance.cases import Stuck, case
from eca_protocol.testing.conformance.chat_seat import ChatSeat
from eca_protocol.testing.conformance.server.reading import (
    at_gate,
    contents,
    finishes,
    in_time,
    result_of,
    said,
    told,
)
from eca_protocol.testing.script import Reply, close, raw, reply, wait

NO_MODEL: Final = "no-such/model"
REFUSED: Final = {"error": {"message": "no, thank you"}}
FAULTS: Final[Mapping[str, Reply]] = {
    "a key that is refused": Reply(status=401, body=REFUSED),
    "a request that is refused": Reply(status=400, body=REFUSED),
    "an answer that breaks off": reply("some", close()),
    "an event that is no JSON": reply("some", raw("data: {]\n\n"), close()),
    "an event that breaks off": reply("some", raw('data: {"choices":[{"ind'), close()),
    "a page in place of an answer": Reply(
        body="<html>Sorry!</html>", headers={"content-type": "text/html"}
    ),
}


TRIES: Final = 1000  # more than any server makes
AT_ONCE_SECONDS: Final = 2.0
AGAIN_SECONDS: Final = 30.0
QUIET_SECONDS: Final = 10.0
"""Beside three times the longest pause between two tries: then no other try is to come."""


def is_asked_again(chat: ChatSeat) -> bool:
    """Whether the model is asked once more of what it failed at."""
    return len(chat.model.requests) > 1


async def ends_by(chat: ChatSeat, until: float) -> bool | None:
    """Whether its turn ends; None if by then the model was asked just now, or soon may be."""
    look = partial(finishes, chat, seconds=0.1)
    ended = await in_time(look, lambda ended: ended or is_asked_again(chat), seconds=6)
    if ended or not is_asked_again(chat):
        return ended
    while True:
        tries = [at for at, party, _ in chat.model.passed if party == "server"]
        pause = max(later - sooner for sooner, later in pairwise(tries))
        quiet = tries[-1] + QUIET_SECONDS + 3 * pause
        now = anyio.current_time()
        if await finishes(chat, seconds=max(0, min(quiet, until) - now)):
            return True
        if now >= quiet:
            return False
        if now >= until:
            return None


@case("W-21d", "W-26d", seconds=90)
async def a_fault_of_the_model_is_told_and_ends_the_turn(bench: Bench) -> None:
    """A model that refuses, breaks off, or answers with what cannot be read, however often."""
    async with bench.seat() as seat:
        tried: list[tuple[str, ChatSeat, object]] = []
        for fault, answer in FAULTS.items():
            chat = seat.chat(*[answer] * TRIES)
            status = result_of(await chat.prompt("Hi.")).get("status")
            await finishes(chat, seconds=AT_ONCE_SECONDS)
            tried.append((fault, chat, status))
        until = anyio.current_time() + AGAIN_SECONDS  # for all of them: they run side by side
        for fault, chat, status in tried:
            ended = await ends_by(chat, until)
            if ended is None:
                bench.untestable("W-21d", f"{fault}: the model is asked again and again")
                await chat.stop()
                continue
            bench.check(
                "W-21d",
                status in ("prompting", "login") and ended and told(chat).strip(),
                expected="prompting, a text of the system's, and `finished`",
                got=f"{fault}: {status}, then {contents(chat)}",
            )
            if said(chat, "assistant") and told(chat).strip():
                bench.saw("W-26d")
        await seat.settle()


@case("W-21e", "W-21f")
async def a_prompt_for_an_unknown_model_is_one_like_any_other(bench: Bench) -> None:
    """It comes while another turn runs, and waits for its own."""
    async with bench.seat() as seat:
        alone = seat.chat()
        answer = await alone.prompt("Hi, nobody.", model=NO_MODEL)
        model = result_of(answer).get("model")
        if not isinstance(model, str):
            raise Stuck("a model in the answer to a prompt", answer)
        bench.check("W-21e", model == NO_MODEL, expected=NO_MODEL, got=answer)
        if not await finishes(alone):
            raise Stuck("the end of such a prompt's turn")

        busy = seat.chat(reply("first", wait("go")))
        await busy.prompt("Hi.")
        await at_gate(busy, "go")
        await busy.prompt("Hi, nobody.", model=NO_MODEL)
        await seat.settle()
        early = busy.ends
        busy.model.open("go")
        await finishes(busy, 2)
        others = said(busy, "user").startswith(busy.prompted[0])
        echoed = bool(said(alone, "user")) or not others
        bench.check(
            "W-21f",
            echoed and not early,
            expected="its echo and `finished`, behind the turn that runs",
            got=f"{contents(alone)}; {contents(busy)}",
        )


@case("W-21g", since=Revision.CURRENT)
async def a_turn_that_never_starts_is_an_error_in_current(bench: Bench) -> None:
    """A prompt for an unknown model to an idle chat."""
    async with bench.seat() as seat:
        chat = seat.chat()
        answer = await chat.prompt("Hi, nobody.", model=NO_MODEL)
        status = result_of(answer).get("status")
        bench.check("W-21g", status == "error", expected="error", got=answer)
        await chat.finished()
