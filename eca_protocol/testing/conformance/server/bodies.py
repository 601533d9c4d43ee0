"""Cases of bodies: JSON, encodings, limits, and values that are no message."""

from __future__ import annotations

from typing import Any, Final

import attrs

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.harness import ClientSession, Harness
from eca_protocol.testing.conformance.server.asking import (
    Outcome,
    bytes_of,
    frame,
    is_read,
    message,
    query,
    run_trials,
    try_bytes,
)
from eca_protocol.testing.conformance.server.reading import all_text
from eca_protocol.testing.script import reply

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600


@attrs.frozen
class Wrong:
    """A body to refuse: its requirement, bytes, error code, and description."""

    row: str
    body: bytes
    code: int | None
    description: str


_PLAIN: Final = bytes_of(query("x"))


def _with(member: bytes) -> bytes:
    """Return the query with one more member in its params."""
    return _PLAIN.replace(b'"params": {', b'"params": {' + member + b", ", 1)


NO_JSON: Final = (
    Wrong("BASE-23", b"{", PARSE_ERROR, "half an object"),
    Wrong("BASE-23", b"", PARSE_ERROR, "an empty body"),
    Wrong("BASE-23", _PLAIN[:-1], PARSE_ERROR, "an object without its end"),
    Wrong("BASE-13", _PLAIN + _PLAIN, None, "two messages in one body"),
    Wrong("W-5a", _PLAIN.decode().encode("utf-16"), None, "UTF-16 with its mark"),
    Wrong("W-5a", _PLAIN.decode().encode("utf-16-le"), None, "UTF-16 without a mark"),
    Wrong("W-5a", _PLAIN.replace(b"no such", b"\xff\xfe"), None, "bytes that are no UTF-8"),
    Wrong("W-5c", _with(b'"n": ' + b"1" * 4301), None, "an integer of 4,301 digits"),
    Wrong("W-5d", _with(b'"n": NaN'), None, "NaN"),
    Wrong("W-5d", _with(b'"n": [-Infinity]'), None, "-Infinity"),
    Wrong("W-5g", _with(b'"n": ' + b"[" * 140 + b"]" * 140), None, "140 nested arrays"),
    Wrong("BASE-24", b"7", INVALID_REQUEST, "a number"),
    Wrong("BASE-24", b'"text"', INVALID_REQUEST, "a text"),
    Wrong("BASE-24", b"null", INVALID_REQUEST, "null"),
    Wrong("BASE-24", b"{}", INVALID_REQUEST, "an object without members"),
    Wrong(
        "BASE-24", b'{"jsonrpc": "2.0"}', INVALID_REQUEST, "an object that says its version only"
    ),
)


@case(
    "BASE-13", "BASE-23", "BASE-24", "W-5a", "W-5c", "W-5d", "W-5g", since=Revision.DRAFT
)  # fmt: skip
async def bodies_that_are_no_message_are_refused(harness: Harness) -> None:
    """Send bodies that are no JSON, no UTF-8 or no message; a query after each."""

    async def attempt(session: ClientSession, wrong: Wrong) -> bool:
        outcome = await try_bytes(session, frame(wrong.body))
        codes = outcome.errors_to(None, "x")
        code = "of any code" if wrong.code is None else str(wrong.code)
        harness.check(
            wrong.row,
            outcome.still_serves and len(set(codes)) == 1 and wrong.code in (None, *codes),
            f"the error {code} with id null for {wrong.description}",
            outcome,
        )
        return outcome.still_serves

    await run_trials(harness, NO_JSON, attempt)


@attrs.frozen
class Read:
    """A body to accept: its requirement, bytes, id, and description."""

    row: str
    body: bytes
    id: object
    description: str


_DIGITS: Final = int("9" * 4300)

WELL_READ: Final = (
    Read("W-5c", _PLAIN.replace(b'"x"', b"%d" % 2**64), 2**64, "an id of 20 digits"),
    Read("W-5c", _PLAIN.replace(b'"x"', b"9" * 4300), _DIGITS, "an id of 4,300 digits"),
    Read("W-5e", _PLAIN.replace(b'"2.0"', b'"1.0", "jsonrpc": "2.0"'), "x", "two versions"),
    Read("W-5g", _with(b'"n": ' + b"[" * 120 + b"]" * 120), "x", "120 nested arrays"),
)


@case("W-5c", "W-5e", "W-5g", since=Revision.DRAFT)
async def odd_values_are_read(harness: Harness) -> None:
    """Send queries with long numbers, duplicate keys and deep nesting."""

    async def attempt(session: ClientSession, read: Read) -> bool:
        outcome = await try_bytes(session, frame(read.body))
        harness.check(
            read.row,
            is_read(outcome.to(read.id)),
            f"a result with the same id for a query with {read.description}",
            outcome,
        )
        return outcome.still_serves

    await run_trials(harness, WELL_READ, attempt)


@case("W-5b", needs="model", since=Revision.DRAFT)
async def half_a_surrogate_pair_is_read(harness: Harness) -> None:
    """Prompt with half a surrogate pair, and read the request to the model."""
    async with harness.session(fresh=True) as session:
        chat = session.chat(reply("Read."))
        prompt = message(
            "chat/prompt", {"chatId": chat.id, "message": chat.with_marker("half?")}, id="x"
        )
        outcome = await try_bytes(
            session, frame(bytes_of(prompt).replace(b"half?", b"half \\ud83d."))
        )
        await chat.model.until(lambda: bool(chat.model.requests) or not is_read(outcome.to("x")))
        text = all_text([request.body for request in chat.model.requests])
    harness.check(
        "W-5b",
        "half \ufffd." in text,
        "U+FFFD in place of the half pair, in the request to the model",
        text or outcome,
    )


@attrs.frozen
class Unfit:
    """A value that is no request: its requirement, and the ids and codes of the answer."""

    row: str
    value: Any
    description: str
    ids: tuple[object, ...] = (None, "x")
    codes: tuple[int, ...] = (INVALID_REQUEST,)


def _but(**members: Any) -> dict[str, Any]:
    return {**query("x"), **members}


NO_REQUEST: Final = (
    Unfit("BASE-16", _but(jsonrpc="1.0"), "jsonrpc 1.0"),
    Unfit("BASE-16", _but(jsonrpc=2), "jsonrpc as a number"),
    Unfit("BASE-16", {"id": "x", "method": query()["method"]}, "no jsonrpc"),
    Unfit("BASE-20", _but(id=True), "an id that is true", ids=(None,)),
    Unfit("BASE-20", _but(id=[1]), "an id that is an array", ids=(None,)),
    Unfit("BASE-20", _but(id={"a": 1}), "an id that is an object", ids=(None,)),
    Unfit("BASE-21", _but(method=7), "a method that is a number"),
    Unfit("BASE-21", _but(method=None), "a method that is null"),
    Unfit("BASE-22", _but(params="text"), "params that are a text", codes=(-32600, -32602)),
    Unfit("BASE-22", _but(params=7), "params that are a number", codes=(-32600, -32602)),
)


@case(
    "BASE-16", "BASE-19", "BASE-20", "BASE-21", "BASE-22", "BASE-28", since=Revision.DRAFT
)  # fmt: skip
async def values_that_are_no_request_are_refused(harness: Harness) -> None:
    """Send wrong versions, ids, methods, params and batches; a query after each."""

    async def attempt(session: ClientSession, unfit: Unfit) -> bool:
        outcome = await try_bytes(session, frame(unfit.value))
        codes = outcome.errors_to(*unfit.ids)
        harness.check(
            unfit.row,
            len(codes) == len(outcome.answers) > 0 and set(codes) <= set(unfit.codes),
            f"the error {' or '.join(map(str, unfit.codes))} for {unfit.description}",
            outcome,
        )
        return outcome.still_serves

    await run_trials(harness, NO_REQUEST, attempt)
    await run_trials(
        harness, BATCHES, lambda session, batch: _batch_is_refused(harness, session, batch)
    )
    harness.record_pass("BASE-19")


BATCHES: Final[tuple[list[Any], ...]] = ([], [query("x")], [query("x"), message("exit")])


async def _batch_is_refused(harness: Harness, session: ClientSession, batch: list[Any]) -> bool:
    outcome = await try_bytes(session, frame(batch))
    harness.check(
        "BASE-28",
        _is_one_refusal(outcome),
        f"one error -32600 for a batch of {len(batch)}, and no other answer",
        outcome,
    )
    return outcome.still_serves


def _is_one_refusal(outcome: Outcome) -> bool:
    """Return whether the batch got one error, and its members no answer."""
    codes = outcome.errors_to(None)
    return (
        outcome.still_serves
        and len(codes) == len(outcome.answers)
        and set(codes) == {INVALID_REQUEST}
    )
