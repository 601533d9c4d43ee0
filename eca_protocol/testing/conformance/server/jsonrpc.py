"""Cases of JSON-RPC: ids, answers, what may be left out, and what is never answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench, Seat
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.server.asking import (
    ABSENT,
    QUERY,
    answer_to,
    code_of,
    frame,
    in_turn,
    message,
    query,
    tried,
)
from eca_protocol.testing.conformance.server.ends import busy
from eca_protocol.testing.script import reply, wait

INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
CANCELLED: Final = -32800

NUMBERS: Final = (0, -1, 7, 2**53 + 1, -(2**63))
TEXTS: Final = ("", "0", "-1", "7", "null", "x" * 1000)


@case("W-2a", "W-2b", since=Revision.DRAFT)
async def ids_come_back_as_they_came(bench: Bench) -> None:
    """Queries whose ids are numbers and texts of every kind."""
    async with bench.seat(fresh=True) as seat:
        for ids in (NUMBERS, TEXTS):
            outcome = await tried(seat, *(frame(query(id_)) for id_ in ids), wants=len(ids))
            came = [answer.get("id") for answer in outcome.answers]
            for id_ in ids:
                bench.check(
                    "W-2b",
                    any(type(each) is type(id_) and each == id_ for each in came),
                    expected=f"an answer with the id {id_!r}, of the same type",
                    got=came,
                )
    bench.saw("W-2a")


@case("BASE-31", "W-2c", since=Revision.DRAFT)
async def requests_that_wait_keep_their_ids(bench: Bench) -> None:
    """Queries, and deletes of chats whose turns run: their ids come again, or are cancelled.

    Which of them takes its time is the server's business: what was answered before the next
    message was read shows nothing.
    """
    async with bench.seat(fresh=True) as seat:
        chats = [await busy(seat), await busy(seat)]
        deletes = [message("chat/delete", {"chatId": chat.id}) for chat in chats]
        requests: list[Any] = []
        for number, request in enumerate((deletes[0], query()), 5):
            again = message("chat/queryCommands", {"query": ""}, id=number)
            requests += [{**request, "id": number}, again]
        for id_, request in (("delete", deletes[1]), ("query", query())):
            requests += [{**request, "id": id_}, message("$/cancelRequest", {"id": id_})]
        requests.append(message("chat/delete", {"chatId": "nobody's"}, id="plain"))
        outcome = await tried(seat, *map(frame, requests), wants=7)
    for number in (5, 6):
        twice = [each for each in outcome.answers if str(each.get("id")) == str(number)]
        if len(twice) == 1 and outcome.to("plain") is None:
            bench.untestable("W-2c", "Not even a plain delete is answered.")
        else:
            _is_refused_again(bench, twice)
    for id_ in ("delete", "query"):
        _is_cancelled(bench, outcome.to(id_))


def _is_refused_again(bench: Bench, answers: Sequence[Mapping[str, Any]]) -> None:
    """What two requests with one id got; the second one asked for commands."""
    results = [str(answer.get("result")) for answer in answers if "result" in answer]
    if len(results) == 2 and "commands" in results[1]:
        bench.untestable("W-2c", "The first was answered before the second was read.")
        return
    bench.check(
        "W-2c",
        {code_of(answer) for answer in answers} == {INVALID_REQUEST, 0},
        expected="one result and one error -32600 for two requests with one id",
        got=answers,
    )


def _is_cancelled(bench: Bench, answer: Mapping[str, Any] | None) -> None:
    if answer is not None and "result" in answer:
        bench.untestable("BASE-31", "The request was answered before it was cancelled.")
        return
    bench.check(
        "BASE-31",
        answer is not None and code_of(answer) == CANCELLED,
        expected="-32800 for a request that was cancelled while it ran",
        got=answer or "no answer",
    )


@case("BASE-1", since=Revision.DRAFT)
async def requests_are_served_while_a_turn_runs(bench: Bench) -> None:
    """The model is silent in its answer; a notification, two queries, one of them for that chat."""
    async with bench.seat() as seat:
        chat = seat.chat(reply("Hel", wait("rest"), "lo"))
        await chat.prompt("Hi.")
        await chat.content("text", text="Hel", expected="the first words of the model")
        await seat.tell("chat/promptStop", {"chatId": "another"})
        for params in ({"query": "meanwhile"}, {"query": "meanwhile", "chatId": chat.id}):
            got = await answer_to(seat, QUERY, params)
            bench.check(
                "BASE-1",
                "result" in got,
                expected=f"a result for {params} while a turn runs",
                got=got or "no answer",
            )
        chat.model.open("rest")
        await chat.finished(shows="BASE-1")


UNKNOWN: Final = ("no/such", "$/no/such", "chat/contentReceived", "Initialize")


@case("BASE-25", since=Revision.DRAFT)
async def unknown_requests_are_refused(bench: Bench) -> None:
    """Requests for methods that nobody knows, or that are the server's own."""
    async with bench.seat() as seat:
        for method in UNKNOWN:
            got = await answer_to(seat, method, {})
            bench.check(
                "BASE-25",
                code_of(got) == METHOD_NOT_FOUND,
                expected=f"-32601 for {method!r}",
                got=got,
            )


UNFIT: Final[tuple[tuple[str, Any, str], ...]] = (
    ("chat/prompt", {}, "message"),
    ("chat/prompt", {"message": 7}, "message"),
    ("chat/prompt", {"message": "Hi.", "chatId": 7}, "chatId"),
    ("chat/delete", {"chatId": ["x"]}, "chatId"),
    (QUERY, {"query": 7}, "query"),
    ("chat/queryCommands", {"query": {}}, "query"),
)


@case("BASE-26", "BASE-32", since=Revision.DRAFT)
async def params_that_do_not_fit_are_refused(bench: Bench) -> None:
    """Requests without a member that they need, or with one of another type."""
    async with bench.seat() as seat:
        for method, params, field in UNFIT:
            got = await answer_to(seat, method, params)
            fits = bench.check(
                "BASE-26",
                code_of(got) == INVALID_PARAMS,
                expected=f"-32602 for {method} with {params}",
                got=got,
            )
            error = got.get("error", {})
            if fits and "message" in error:  # else that is what is wrong with it
                bench.check(
                    "BASE-32",
                    field in f"{error.get('message')} {error.get('data')}",
                    expected=f"an error that names {field!r} for {method} with {params}",
                    got=error,
                )


@case("W-3a", "W-3b", "W-3c", "W-3e", since=Revision.DRAFT)
async def what_means_nothing_may_be_missing(bench: Bench) -> None:
    """Requests without params, with empty ones, with nulls, with members that nobody knows."""
    async with bench.seat() as seat:
        results = []
        for params in (ABSENT, None, {}, []):
            request = message("chat/queryCommands", params, id=seat.wire.next_id())
            await seat.send(request)
            answer = await seat.answer(request["id"])
            results.append((answer.get("result"), code_of(answer)))
        bench.check(
            "W-3a",
            all(result == results[0] for result in results),
            expected="one result for no params, null, an empty object and an empty array",
            got=[str(result)[:60] for result in results],
        )
        for row, method, params, words in LENIENT:
            got = await answer_to(seat, method, params)
            bench.check(row, "result" in got, expected=f"{method} is served with {words}", got=got)
        request = {**query(seat.wire.next_id()), "odd": 1, "Params": [], "": None}
        await seat.send(request)
        got = await seat.answer(request["id"])
        bench.check("W-3e", "result" in got, expected="a request with unknown members", got=got)
        await _prompts(bench, seat)


LENIENT: Final[tuple[tuple[str, str, Any, str], ...]] = (
    ("W-3c", QUERY, {}, "neither query nor contexts"),
    ("W-3c", QUERY, {"query": None, "contexts": None}, "nulls as query and contexts"),
    ("W-3b", QUERY, {"query": "x", "contexts": [], "chatId": None}, "a null as chatId"),
    ("W-3e", QUERY, {"query": "x", "request-id": 7, "": {}, "__proto__": []}, "odd members"),
)


async def _prompts(bench: Bench, seat: Seat) -> None:
    """A prompt full of nulls, and one with members that nobody knows."""
    nulls: Any = dict.fromkeys(("model", "behavior", "agent", "contexts", "variant"))
    for row, params in (("W-3b", nulls), ("W-3e", {"request-id": 7, "trust!": {"a": []}})):
        chat = seat.chat(reply("Hello."))
        got = await chat.prompt("Hi.", **params)
        served = bench.check(
            row, "result" in got, expected=f"chat/prompt is served with {params}", got=got
        )
        if served:
            await chat.finished()


@case("W-3c", since=Revision.DRAFT)
async def initialize_says_nothing_of_the_client(bench: Bench) -> None:
    """`initialize` with an empty object as params."""
    async with bench.seat(hello=False) as seat:
        got = await seat.ask("initialize", {}, seconds=30)
        bench.check("W-3c", "result" in got, expected="a result, as for nulls", got=got)


@case("W-3h", since=Revision.DRAFT)
async def a_capability_may_be_an_object(bench: Bench) -> None:
    """`initialize` with an object in place of true as the capability to chat."""
    async with bench.seat(hello=False) as seat:
        capabilities: Any = {"codeAssistant": {"chat": {}}}
        params: Any = {"processId": None, "capabilities": capabilities, "workspaceFolders": []}
        got = await seat.ask("initialize", params, seconds=30)
        bench.check("W-3h", "result" in got, expected="a result, as for true", got=got)


@attrs.frozen
class Told:
    """Messages that are not answered: the row that says so, and in words."""

    row: str
    messages: tuple[Any, ...]
    words: str


NEVER_ANSWERED: Final = (
    Told("BASE-18", (message("chat/promptStop", {"chatId": "none"}),), "a stop"),
    Told(
        "BASE-18",
        (message("chat/promptStop", {"chatId": 7}), message("chat/promptStop")),
        "a stop that does not fit",
    ),
    Told("BASE-18", (message("initialized", {}),), "`initialized` once more"),
    Told("W-4c", (message("$/no/such", {"a": 1}), message("$/setTrace")), "unknown $/ ones"),
    Told("W-4c", (message("no/such", [1, 2]), message("no/such")), "unknown notifications"),
    Told(
        "BASE-30",
        (
            {"jsonrpc": "2.0", "id": 4711, "result": {}},
            {"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "no"}},
            {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no"}},
        ),
        "answers that nobody waits for",
    ),
)


@case("BASE-18", "BASE-30", "W-4c", since=Revision.DRAFT)
async def some_messages_are_never_answered(bench: Bench) -> None:
    """Notifications, known or not, and stray answers; a query behind each."""

    async def attempt(seat: Seat, told: Told) -> bool:
        outcome = await tried(seat, *map(frame, told.messages), wants=0)
        bench.check(
            told.row,
            outcome.goes_on and not outcome.answers,
            expected=f"no answer to {told.words}",
            got=outcome,
        )
        return outcome.goes_on

    await in_turn(bench, NEVER_ANSWERED, attempt)


@case("W-4a", since=Revision.DRAFT)
async def a_prompt_has_no_id(bench: Bench) -> None:
    """A prompt as a notification: its turn runs."""
    async with bench.seat() as seat:
        chat = seat.chat(reply("Hello."))
        await seat.tell("chat/prompt", {"chatId": chat.id, "message": chat.worded("Hi.")})
        await chat.finished(shows="W-4a")
    bench.saw("W-4a", "BASE-18")


@case("W-4b", since=Revision.DRAFT)
async def a_stop_has_an_id(bench: Bench) -> None:
    """A turn is stopped by a request."""
    async with bench.seat() as seat:
        chat = await busy(seat)
        got = await answer_to(seat, "chat/promptStop", {"chatId": chat.id})
        bench.check("W-4b", got.get("result", ABSENT) is None, expected="the result null", got=got)
        await chat.finished(shows="W-4b")
