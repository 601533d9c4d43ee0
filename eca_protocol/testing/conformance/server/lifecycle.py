"""Cases of the handshake: what comes before, between and behind its three messages."""

from __future__ import annotations

from collections.abc import Mapping

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench, Seat
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.server.asking import (
    HELLO,
    QUERY,
    answer_to,
    code_of,
    frame,
    is_read,
    message,
    query,
)
from eca_protocol.testing.conformance.server.reading import INTRODUCTION_SECONDS

NOT_INITIALIZED = -32002
INVALID_REQUEST = -32600


@case("LIFE-2", "LIFE-3", "LIFE-4", "W-10a", "W-10d", since=Revision.DRAFT)
async def initialize_comes_once_and_first(bench: Bench) -> None:
    """Requests before `initialize`, it, a query before `initialized`, and `initialize` again."""
    async with bench.seat(hello=False) as seat:
        for method in (QUERY, "chat/queryCommands"):
            got = await answer_to(seat, method, {"query": ""})
            bench.check(
                "LIFE-2",
                code_of(got) == NOT_INITIALIZED,
                expected=f"{method} before `initialize` is answered {NOT_INITIALIZED}",
                got=got,
            )
        await _is_welcomed(bench, seat)
        got = await answer_to(seat, QUERY, {"query": "early"})
        bench.check(
            "W-10d",
            is_read(got) and code_of(got) != NOT_INITIALIZED,
            expected="a request behind the answer to `initialize` is served",
            got=got,
        )
        got = await answer_to(seat, "initialize", HELLO)
        bench.check(
            "LIFE-4",
            code_of(got) == INVALID_REQUEST,
            expected=f"a second `initialize` is answered {INVALID_REQUEST}",
            got=got,
        )


async def _is_welcomed(bench: Bench, seat: Seat) -> None:
    answer = await seat.ask("initialize", bench.initialize_params(seat.root), seconds=30)
    result = answer.get("result")
    is_object = bench.check(
        "LIFE-3",
        isinstance(result, Mapping),
        expected="`initialize` is answered with an object",
        got=answer,
    )
    if bench.edition is Revision.DRAFT:
        bench.not_applicable("W-10a", "The draft's answer to `initialize` has no members (W-50).")
    elif is_object:
        welcome = result.get("chatWelcomeMessage") if isinstance(result, Mapping) else None
        bench.check(
            "W-10a",
            isinstance(welcome, str),
            expected="a text as `chatWelcomeMessage`",
            got=result,
        )


@case("LIFE-14", "W-10b", "W-10c", "W-10e", since=Revision.DRAFT, seconds=30)
async def nothing_overtakes_the_handshake(bench: Bench) -> None:
    """`initialize` and two queries in one write; `initialized` only after all are answered.

    A folder that there is not gives the server something to tell of.
    """
    async with bench.seat(hello=False) as seat:
        folders = [{"name": "gone", "uri": (seat.root / "no such folder").as_uri()}]
        params = {**bench.initialize_params(seat.root), "workspaceFolders": folders}
        asked = [message("initialize", params, id="hello"), query("early"), query("early too")]
        await seat.write(b"".join(map(frame, asked)))
        first = await seat.until(lambda _: True, seconds=30, expected="the first message")
        bench.check(
            "W-10b",
            not first.method,
            expected="nothing before the answer to `initialize`",
            got=first.message,
        )
        early = [await seat.answer(id_) for id_ in ("early", "early too")]
        late = await seat.ask(QUERY, {"query": "late"})
        bench.check(
            "W-10c",
            all(code_of(got) == code_of(late) for got in early),
            expected="requests sent before the answer to `initialize` are served behind it",
            got=early,
        )
        unasked = [heard.method for heard in seat.heard[1:] if heard.method]
        bench.check(
            "W-10e",
            not unasked,
            expected="no notification before `initialized`",
            got=unasked,
        )
        if bench.edition is Revision.DRAFT:
            bench.not_applicable("LIFE-14", "The draft has no `config/updated`.")
            return
        await seat.answer("hello")
        await seat.tell("initialized", {})
        await seat.until(
            lambda told: told.get("method") == "config/updated",
            seconds=INTRODUCTION_SECONDS,
            shows="LIFE-14",
            expected="`config/updated`, though `initialized` came late",
        )
        bench.saw("LIFE-14")
