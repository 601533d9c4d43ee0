"""Cases of bodies: JSON, encodings, limits, and values that are no message."""

from __future__ import annotations

from typing import Any, Final

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.harness import ClientSession, Harness
from eca_protocol.testing.conformance.server.asking import (
    Outcome,
    Trial,
    bytes_of,
    check_trials,
    frame,
    is_read,
    message,
    query,
    try_bytes,
)
from eca_protocol.testing.conformance.server.reading import all_text
from eca_protocol.testing.script import reply

UNPARSED: Final = (-32700,)
INVALID: Final = (-32600,)


_PLAIN: Final = bytes_of(query("x"))


def _with(member: bytes) -> bytes:
    return _PLAIN.replace(b'"params": {', b'"params": {' + member + b", ", 1)


NO_JSON: Final = (
    Trial("BASE-23", frame(b"{"), "half an object", codes=UNPARSED),
    Trial("BASE-23", frame(b""), "an empty body", codes=UNPARSED),
    Trial("BASE-23", frame(_PLAIN[:-1]), "an object without its end", codes=UNPARSED),
    Trial("BASE-13", frame(_PLAIN + _PLAIN), "two messages in one body"),
    Trial("W-5a", frame(_PLAIN.decode().encode("utf-16")), "UTF-16 with its mark"),
    Trial("W-5a", frame(_PLAIN.decode().encode("utf-16-le")), "UTF-16 without a mark"),
    Trial("W-5a", frame(_PLAIN.replace(b"no such", b"\xff\xfe")), "bytes that are no UTF-8"),
    Trial("W-5c", frame(_with(b'"n": ' + b"1" * 4301)), "an integer of 4,301 digits"),
    Trial("W-5d", frame(_with(b'"n": NaN')), "NaN"),
    Trial("W-5d", frame(_with(b'"n": [-Infinity]')), "-Infinity"),
    Trial("W-5g", frame(_with(b'"n": ' + b"[" * 140 + b"]" * 140)), "140 nested arrays"),
    Trial("BASE-24", frame(b"7"), "a number", codes=INVALID),
    Trial("BASE-24", frame(b'"text"'), "a text", codes=INVALID),
    Trial("BASE-24", frame(b"null"), "null", codes=INVALID),
    Trial("BASE-24", frame(b"{}"), "an object without members", codes=INVALID),
    Trial(
        "BASE-24",
        frame(b'{"jsonrpc": "2.0"}'),
        "an object that says its version only",
        codes=INVALID,
    ),
)


@case(
    "BASE-13", "BASE-23", "BASE-24", "W-5a", "W-5c", "W-5d", "W-5g", since=Revision.DRAFT
)  # fmt: skip
async def bodies_that_are_no_message_are_refused(harness: Harness) -> None:
    """Send bodies that are no JSON, no UTF-8 or no message; a query after each."""

    def is_refused(trial: Trial, outcome: Outcome) -> bool:
        codes = set(outcome.errors_to(*trial.ids))
        return outcome.still_serves and len(codes) == 1 and codes <= set(trial.codes or codes)

    await check_trials(harness, NO_JSON, "the error {codes} with id null for", is_refused)


_DIGITS: Final = int("9" * 4300)

WELL_READ: Final = (
    *(
        Trial("W-5c", frame(_PLAIN.replace(b'"x"', b"%d" % id_)), f"an id of {digits}", ids=(id_,))
        for digits, id_ in (
            ("54 bits", 2**53 + 1),
            ("64 bits", -(2**63)),
            ("20 digits", 2**64),
            ("4,300 digits", _DIGITS),
        )
    ),
    Trial("W-5e", frame(_PLAIN.replace(b'"2.0"', b'"1.0", "jsonrpc": "2.0"')), "two versions"),
    Trial("W-5g", frame(_with(b'"n": ' + b"[" * 120 + b"]" * 120)), "120 nested arrays"),
)


@case("W-5c", "W-5e", "W-5g", since=Revision.DRAFT)
async def odd_values_are_read(harness: Harness) -> None:
    """Send queries with long numbers, duplicate keys and deep nesting."""
    await check_trials(
        harness,
        WELL_READ,
        "a result with the same id for a query with",
        lambda trial, outcome: is_read(outcome.to(trial.ids[-1])),
    )


@case("W-5b", needs="model", since=Revision.DRAFT, fresh=True)
async def half_a_surrogate_pair_is_read(session: ClientSession) -> None:
    """Prompt with half a surrogate pair, and read the request to the model."""
    chat = session.chat(reply("Read."))
    prompt = message(
        "chat/prompt", {"chatId": chat.id, "message": chat.model.with_marker("half?")}, id="x"
    )
    outcome = await try_bytes(session, frame(bytes_of(prompt).replace(b"half?", b"half \\ud83d.")))
    if is_read(outcome.to("x")):
        await chat.model.wait_for_requests()
    text = all_text([request.body for request in chat.model.requests])
    expected = "U+FFFD in place of the half pair, in the request to the model"
    session.check("W-5b", "half \ufffd." in text, expected, text or outcome)


def _but(**members: Any) -> dict[str, Any]:
    return {**query("x"), **members}


NO_REQUEST: Final = (
    Trial("BASE-16", frame(_but(jsonrpc="1.0")), "jsonrpc 1.0", codes=INVALID),
    Trial("BASE-16", frame(_but(jsonrpc=2)), "jsonrpc as a number", codes=INVALID),
    Trial("BASE-16", frame({"id": "x", "method": query()["method"]}), "no jsonrpc", codes=INVALID),
    Trial("BASE-20", frame(_but(id=True)), "an id that is true", ids=(None,), codes=INVALID),
    Trial("BASE-20", frame(_but(id=[1])), "an id that is an array", ids=(None,), codes=INVALID),
    Trial(
        "BASE-20", frame(_but(id={"a": 1})), "an id that is an object", ids=(None,), codes=INVALID
    ),
    Trial("BASE-21", frame(_but(method=7)), "a method that is a number", codes=INVALID),
    Trial("BASE-21", frame(_but(method=None)), "a method that is null", codes=INVALID),
    Trial("BASE-22", frame(_but(params="text")), "params that are a text", codes=(-32600, -32602)),
    Trial("BASE-22", frame(_but(params=7)), "params that are a number", codes=(-32600, -32602)),
)


@case(
    "BASE-16", "BASE-19", "BASE-20", "BASE-21", "BASE-22", "BASE-28", since=Revision.DRAFT
)  # fmt: skip
async def values_that_are_no_request_are_refused(harness: Harness) -> None:
    """Send wrong versions, ids, methods, params and batches; a query after each."""

    def is_refused(trial: Trial, outcome: Outcome) -> bool:
        codes = outcome.errors_to(*trial.ids)
        return len(codes) == len(outcome.answers) > 0 and set(codes) <= set(trial.codes)

    await check_trials(harness, NO_REQUEST, "the error {codes} for", is_refused)
    await check_trials(harness, BATCHES, "one error {codes} for", _is_one_refusal)
    harness.record_pass("BASE-19")


BATCHES: Final = tuple(
    Trial("BASE-28", frame(batch), f"a batch of {len(batch)}, and no other answer", codes=INVALID)
    for batch in ([], [query("x")], [query("x"), message("exit")])
)


def _is_one_refusal(_: Trial, outcome: Outcome) -> bool:
    codes = outcome.errors_to(None)
    return outcome.still_serves and len(codes) == len(outcome.answers) and set(codes) == {*INVALID}
