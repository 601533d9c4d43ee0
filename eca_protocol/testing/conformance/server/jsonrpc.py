"""Cases of JSON-RPC: ids, answers, optional members, and messages without an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from eca_protocol.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
)
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.harness import ClientSession, Harness
from eca_protocol.testing.conformance.server.asking import (
    ABSENT,
    QUERY,
    Trial,
    answer_to,
    check_trials,
    code_of,
    frame,
    message,
    query,
    try_bytes,
)
from eca_protocol.testing.conformance.server.ends import busy
from eca_protocol.testing.script import reply, wait

NUMBERS: Final = (0, -1, 7, 1 - 2**53, 2**53 - 1)
"""Ids that every language reads exactly; W-5c has the longer ones."""
TEXTS: Final = ("", "0", "-1", "7", "null", "x" * 1000)


@case("W-2a", "W-2b", since=Revision.DRAFT, fresh=True)
async def ids_come_back_as_they_came(session: ClientSession) -> None:
    """Send queries with numbers and texts as ids."""
    for ids in (NUMBERS, TEXTS):
        outcome = await try_bytes(
            session, *(frame(query(id_)) for id_ in ids), answers_due=len(ids)
        )
        returned = [answer.get("id") for answer in outcome.answers]
        for id_ in ids:
            is_right = any(type(each) is type(id_) and each == id_ for each in returned)
            expected = f"an answer with the id {id_!r}, of the same type"
            session.check("W-2b", is_right, expected, returned)
    session.record_pass("W-2a")


@case("BASE-31", "W-2c", needs="model", since=Revision.DRAFT, fresh=True)
async def requests_that_wait_keep_their_ids(session: ClientSession) -> None:
    """Repeat and cancel the ids of queries and of deletes of running chats.

    Any of the requests may be fast: one that was answered before the next message was read
    shows nothing.
    """
    chats = [await busy(session), await busy(session)]
    deletes = [message("chat/delete", {"chatId": chat.id}) for chat in chats]
    requests: list[Any] = []
    for number, request in enumerate((deletes[0], query()), 5):
        again = message("chat/queryCommands", {"query": ""}, id=number)
        requests += [{**request, "id": number}, again]
    for id_, request in (("delete", deletes[1]), ("query", query())):
        requests += [{**request, "id": id_}, message("$/cancelRequest", {"id": id_})]
    requests.append(message("chat/delete", {"chatId": "no-such-chat"}, id="plain"))
    outcome = await try_bytes(session, *map(frame, requests), answers_due=7)
    for number in (5, 6):
        answers = [each for each in outcome.answers if str(each.get("id")) == str(number)]
        if len(answers) == 1 and outcome.to("plain") is None:
            session.untestable("W-2c", "Not even a plain delete is answered.")
        else:
            _check_repeated_id(session, answers)
    for id_ in ("delete", "query"):
        _check_cancelled(session, outcome.to(id_))


def _check_repeated_id(session: ClientSession, answers: Sequence[Mapping[str, Any]]) -> None:
    """Check the answers to two requests with one id; the second asks for commands."""
    results = [str(answer.get("result")) for answer in answers if "result" in answer]
    if len(results) == 2 and "commands" in results[1]:
        session.untestable("W-2c", "The first was answered before the second was read.")
        return
    is_right = {code_of(answer) for answer in answers} == {INVALID_REQUEST, 0}
    expected = "one result and one error -32600 for two requests with one id"
    session.check("W-2c", is_right, expected, answers)


def _check_cancelled(session: ClientSession, answer: Mapping[str, Any] | None) -> None:
    if answer is not None and "result" in answer:
        session.untestable("BASE-31", "The request was answered before it was cancelled.")
        return
    is_right = answer is not None and code_of(answer) == REQUEST_CANCELLED
    expected = "the error -32800 for a request that was cancelled while it ran"
    session.check("BASE-31", is_right, expected, answer or "no answer")


@case("BASE-1", needs="model", since=Revision.DRAFT)
async def requests_are_served_while_a_turn_runs(session: ClientSession) -> None:
    """Send a notification and two queries while the model pauses."""
    chat = session.chat(reply("Hel", wait("rest"), "lo"))
    await chat.prompt("Hi.")
    await chat.content("text", text="Hel", expected="the first text of the model")
    await session.notify("chat/promptStop", {"chatId": "another"})
    for params in ({"query": "meanwhile"}, {"query": "meanwhile", "chatId": chat.id}):
        got = await answer_to(session, QUERY, params)
        expected = f"a result for {params} while a turn runs"
        session.check("BASE-1", "result" in got, expected, got or "no answer")
    chat.model.open("rest")
    await chat.finished(shows="BASE-1")


UNKNOWN: Final = ("no/such", "$/no/such", "chat/contentReceived", "Initialize")


@case("BASE-25", since=Revision.DRAFT)
async def unknown_requests_are_refused(session: ClientSession) -> None:
    """Send requests with unknown methods and with methods of the server's own."""
    for method in UNKNOWN:
        got = await answer_to(session, method, {})
        session.check(
            "BASE-25", code_of(got) == METHOD_NOT_FOUND, f"the error -32601 for {method!r}", got
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
async def params_that_do_not_fit_are_refused(session: ClientSession) -> None:
    """Send requests that lack a required member, or have one of a wrong type."""
    for method, params, field in UNFIT:
        got = await answer_to(session, method, params)
        expected = f"the error -32602 for {method} with {params}"
        fits = session.check("BASE-26", code_of(got) == INVALID_PARAMS, expected, got)
        error = got.get("error", {})
        if fits and "message" in error:  # without a message, another requirement fails
            is_right = field in f"{error.get('message')} {error.get('data')}"
            expected = f"an error text that names {field!r} for {method} with {params}"
            session.check("BASE-32", is_right, expected, error)


@case("W-3a", "W-3b", "W-3c", "W-3e", since=Revision.DRAFT)
async def what_means_nothing_may_be_missing(session: ClientSession) -> None:
    """Send requests without params, with empty ones, nulls, and unknown members."""
    results = []
    for params in (ABSENT, None, {}, []):
        request = message("chat/queryCommands", params, id=session.wire.next_id())
        await session.send(request)
        answer = await session.answer(request["id"])
        results.append((answer.get("result"), code_of(answer)))
    is_right = all(result == results[0] for result in results)
    expected = "one result for no params, null, an empty object and an empty array"
    session.check("W-3a", is_right, expected, [str(result)[:60] for result in results])
    for row, method, params, description in LENIENT:
        got = await answer_to(session, method, params)
        session.check(row, "result" in got, f"a result for {method} with {description}", got)
    request = {**query(session.wire.next_id()), "odd": 1, "Params": [], "": None}
    await session.send(request)
    got = await session.answer(request["id"])
    session.check("W-3e", "result" in got, "a result for a request with unknown members", got)
    await _check_prompts(session)


LENIENT: Final[tuple[tuple[str, str, Any, str], ...]] = (
    ("W-3c", QUERY, {}, "no query and no contexts"),
    ("W-3c", QUERY, {"query": None, "contexts": None}, "nulls as query and contexts"),
    ("W-3b", QUERY, {"query": "x", "contexts": [], "chatId": None}, "a null as chatId"),
    ("W-3e", QUERY, {"query": "x", "request-id": 7, "": {}, "__proto__": []}, "odd members"),
)


async def _check_prompts(session: ClientSession) -> None:
    nulls: Any = dict.fromkeys(("model", "behavior", "agent", "contexts", "variant"))
    for row, params in (("W-3b", nulls), ("W-3e", {"request-id": 7, "trust!": {"a": []}})):
        chat = session.chat(reply("Hello."))
        got = await chat.prompt("Hi.", **params)
        served = session.check(row, "result" in got, f"a result for chat/prompt with {params}", got)
        if served:
            await chat.finished()


@case("W-3c", since=Revision.DRAFT, handshake=False)
async def initialize_says_nothing_of_the_client(session: ClientSession) -> None:
    """Send `initialize` with an empty object as params."""
    got = await session.ask("initialize", {}, seconds=30)
    session.check("W-3c", "result" in got, "a result for `initialize` with empty params", got)


@case("W-3h", since=Revision.DRAFT, handshake=False)
async def a_capability_may_be_an_object(session: ClientSession) -> None:
    """Send `initialize` with an object as the capability to chat."""
    capabilities: Any = {"codeAssistant": {"chat": {}}}
    params: Any = {"processId": None, "capabilities": capabilities, "workspaceFolders": []}
    got = await session.ask("initialize", params, seconds=30)
    session.check("W-3h", "result" in got, "a result for the capability {}, as for true", got)


NEVER_ANSWERED: Final = (
    Trial("BASE-18", frame(message("chat/promptStop", {"chatId": "none"})), "a stop"),
    Trial(
        "BASE-18",
        frame(message("chat/promptStop", {"chatId": 7}), message("chat/promptStop")),
        "a stop that does not fit",
    ),
    Trial("BASE-18", frame(message("initialized", {})), "`initialized` once more"),
    Trial("W-4c", frame(message("$/no/such", {"a": 1}), message("$/setTrace")), "unknown $/ ones"),
    Trial("W-4c", frame(message("no/such", [1, 2]), message("no/such")), "unknown notifications"),
    Trial(
        "BASE-30",
        frame(
            {"jsonrpc": "2.0", "id": 4711, "result": {}},
            {"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "no"}},
            {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no"}},
        ),
        "answers to unknown ids",
    ),
)


@case("BASE-18", "BASE-30", "W-4c", since=Revision.DRAFT)
async def some_messages_are_never_answered(harness: Harness) -> None:
    """Send known and unknown notifications, and stray answers; a query after each."""
    await check_trials(
        harness,
        NEVER_ANSWERED,
        "no answer to",
        lambda _, outcome: outcome.still_serves and not outcome.answers,
        answers_due=0,
    )


@case("W-4a", since=Revision.DRAFT, fresh=True)
async def a_prompt_has_no_id(session: ClientSession) -> None:
    """Send a prompt as a notification, and wait for its turn."""
    await session.take_turn("Hi.", reply("Hello."))  # one that ends without the user
    chat = session.chat(reply("Hello."))
    await session.notify(
        "chat/prompt", {"chatId": chat.id, "message": chat.model.with_marker("Hi.")}
    )
    await chat.finished(shows="W-4a")
    await session.settle()
    answers = [
        received.message
        for received in session.messages
        if not received.method and received.message.get("id") is None
    ]
    session.check("W-4a", not answers, "no answer to a request without an id", answers)
    session.record_pass("BASE-18")


@case("W-4b", needs="model", since=Revision.DRAFT)
async def a_stop_has_an_id(session: ClientSession) -> None:
    """Stop a turn by a request."""
    chat = await busy(session)
    got = await answer_to(session, "chat/promptStop", {"chatId": chat.id})
    session.check("W-4b", got.get("result", ABSENT) is None, "the result null", got)
    await chat.finished(shows="W-4b")
