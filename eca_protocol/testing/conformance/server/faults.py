"""Cases of a failing model: refused, cut off, malformed, unknown; the turn ends nevertheless."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Final

import anyio

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.chat_session import ChatSession
from eca_protocol.testing.conformance.harness import ClientSession
from eca_protocol.testing.conformance.server.reading import poll, result_of
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.script import Reply, close, raw, reply, wait

NO_MODEL: Final = "no-such/model"
REFUSAL: Final = {"error": {"message": "no, thank you"}}
ERROR_EVENT: Final = json.dumps({"type": "error", **REFUSAL})
ERRORS: Final[Mapping[str, Reply]] = {
    "a key that is refused": Reply(status=401, body=REFUSAL),
    "a request that is refused": Reply(status=400, body=REFUSAL),
    "an answer that breaks off": reply("some", close()),
    "an event that is no JSON": reply("some", raw("data: {]\n\n"), close()),
    "an event that breaks off": reply("some", raw('data: {"choices":[{"ind'), close()),
    "an error event": reply("some", raw(f"event: error\ndata: {ERROR_EVENT}\n\n")),
    "a page in place of an answer": Reply(
        body="<html>Sorry!</html>", headers={"content-type": "text/html"}
    ),
}


MAX_TRIES: Final = 1000  # more than any server makes
AT_ONCE_SECONDS: Final = 2.0
RETRY_SECONDS: Final = 30.0
QUIET_SECONDS: Final = 10.0
"""Seconds, plus three times the longest pause between tries, after which no try is expected."""


def is_retried(chat: ChatSession) -> bool:
    """Return whether the server has repeated the failed request."""
    return len(chat.model.requests) > 1


async def ends_before(chat: ChatSession, deadline: float) -> bool | None:
    """Return whether the turn ends; None if the server still retries at the deadline."""
    look = partial(chat.finishes, seconds=0.1)
    ended = await poll(look, lambda ended: ended or is_retried(chat), seconds=6)
    if ended or not is_retried(chat):
        return ended
    while True:
        tries = [at for at, party, _ in chat.model.traffic if party == "server"]
        pause = max(later - sooner for sooner, later in pairwise(tries))
        quiet = tries[-1] + QUIET_SECONDS + 3 * pause
        now = anyio.current_time()
        if await chat.finishes(seconds=max(0, min(quiet, deadline) - now)):
            return True
        if now >= quiet:
            return False
        if now >= deadline:
            return None


@case("W-21d", "W-26d", needs="model", seconds=90)
async def an_error_of_the_model_is_shown_and_ends_the_turn(session: ClientSession) -> None:
    """Let the model refuse, break off, or answer malformed data, at every try."""
    trials: list[tuple[str, ChatSession, object]] = []
    for error, answer in ERRORS.items():
        chat = session.chat(*[answer] * MAX_TRIES)
        status = result_of(await chat.prompt("Hi.")).get("status")
        await chat.finishes(seconds=AT_ONCE_SECONDS)
        trials.append((error, chat, status))
    deadline = anyio.current_time() + RETRY_SECONDS  # for all of them: they run side by side
    for error, chat, status in trials:
        ended = await ends_before(chat, deadline)
        if ended is None:
            session.untestable("W-21d", f"{error}: the server still retries")
            await chat.stop()
            continue
        is_right = status in ("prompting", "login") and ended and chat.text("system").strip()
        expected = "the status prompting, an error text of the role system, and `finished`"
        got = f"{error}: the status {status}, then {chat.of()}"
        session.check("W-21d", is_right, expected, got)
        if chat.text("assistant") and chat.text("system").strip():
            session.record_pass("W-26d")
    await session.settle()


@case("W-21e", "W-21f")
async def a_prompt_for_an_unknown_model_is_one_like_any_other(session: ClientSession) -> None:
    """Prompt an idle and a busy chat for an unknown model."""
    alone = session.chat()
    answer = await alone.prompt("Hi, you.", model=NO_MODEL)
    model = result_of(answer).get("model")
    if not isinstance(model, str):
        raise Unmet("a model in the answer to a prompt", answer)
    session.check("W-21e", model == NO_MODEL, f"the model {NO_MODEL} in the answer", answer)
    if not await alone.finishes():
        raise Unmet("the end of the turn of the failed prompt")

    chat = session.chat(reply("first", wait("go")))
    await chat.prompt("Hi.")
    await chat.model.wait_for_gate("go")
    await chat.prompt("Hi, you.", model=NO_MODEL)
    await session.settle()
    early = chat.ends
    chat.model.open("go")
    await chat.finishes(2)
    busy_is_echoed = chat.text("user").startswith(chat.prompts[0])
    echoed = bool(alone.text("user")) or not busy_is_echoed
    expected = "the prompt's echo and `finished`, after the running turn"
    session.check("W-21f", echoed and not early, expected, f"{alone.of()}; {chat.of()}")


@case("W-21g", since=Revision.CURRENT)
async def a_turn_that_never_starts_is_an_error_in_current(session: ClientSession) -> None:
    """Prompt an idle chat for an unknown model."""
    chat = session.chat()
    answer = await chat.prompt("Hi, you.", model=NO_MODEL)
    session.check("W-21g", result_of(answer).get("status") == "error", "the status error", answer)
    await chat.finished()
