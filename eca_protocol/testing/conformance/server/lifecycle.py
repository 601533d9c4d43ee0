"""Cases of the handshake: messages before, between and after its three messages."""

from __future__ import annotations

from collections.abc import Mapping

from eca_protocol.errors import INVALID_REQUEST, SERVER_NOT_INITIALIZED
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.harness import ClientSession
from eca_protocol.testing.conformance.server.asking import (
    INITIALIZE_PARAMS,
    QUERY,
    answer_to,
    code_of,
    frame,
    is_read,
    message,
    query,
)
from eca_protocol.testing.conformance.server.reading import INTRODUCTION_SECONDS
from eca_protocol.testing.members import at


@case("LIFE-2", "LIFE-3", "LIFE-4", "W-10a", "W-10d", since=Revision.DRAFT, handshake=False)
async def initialize_comes_once_and_first(session: ClientSession) -> None:
    """Send requests before `initialize` and before `initialized`, and `initialize` twice."""
    for method in (QUERY, "chat/queryCommands"):
        got = await answer_to(session, method, {"query": ""})
        expected = f"the error {SERVER_NOT_INITIALIZED} for {method} before `initialize`"
        session.check("LIFE-2", code_of(got) == SERVER_NOT_INITIALIZED, expected, got)
    await _check_welcome(session)
    got = await answer_to(session, QUERY, {"query": "early"})
    expected = "a result for a query after the answer to `initialize`"
    session.check("W-10d", is_read(got) and code_of(got) != SERVER_NOT_INITIALIZED, expected, got)
    got = await answer_to(session, "initialize", INITIALIZE_PARAMS)
    expected = f"the error {INVALID_REQUEST} for a second `initialize`"
    session.check("LIFE-4", code_of(got) == INVALID_REQUEST, expected, got)


async def _check_welcome(session: ClientSession) -> None:
    answer = await session.initialize()
    result = answer.get("result")
    is_object = session.check(
        "LIFE-3", isinstance(result, Mapping), "an object as the result of `initialize`", answer
    )
    if session.edition is Revision.DRAFT:
        session.not_applicable("W-10a", "The draft's answer to `initialize` has no members (W-50).")
    elif is_object:
        welcome = at(result, "chatWelcomeMessage")
        session.check("W-10a", isinstance(welcome, str), "a text as `chatWelcomeMessage`", result)


@case("LIFE-14", "W-10b", "W-10c", "W-10e", since=Revision.DRAFT, seconds=30, handshake=False)
async def nothing_overtakes_the_handshake(session: ClientSession) -> None:
    """Send `initialize` and two queries at once, and `initialized` after all answers.

    A missing folder gives the server a reason for a notification.
    """
    folders = [{"name": "gone", "uri": (session.root / "no such folder").as_uri()}]
    params = session.initialize_params(workspaceFolders=folders)
    requests = [message("initialize", params, id="hello"), query("early"), query("early too")]
    await session.write(b"".join(map(frame, requests)))
    first = await session.until(lambda _: True, seconds=30, expected="the first message")
    session.check(
        "W-10b", not first.method, "no message before the answer to `initialize`", first.message
    )
    early = [await session.answer(id_) for id_ in ("early", "early too")]
    late = await session.ask(QUERY, {"query": "late"})
    expected = "the same result for queries sent before and after the answer to `initialize`"
    session.check("W-10c", all(code_of(got) == code_of(late) for got in early), expected, early)
    notifications = [received.method for received in session.messages[1:] if received.method]
    session.check("W-10e", not notifications, "no notification before `initialized`", notifications)
    if session.edition is Revision.DRAFT:
        session.not_applicable("LIFE-14", "The draft has no `config/updated`.")
        return
    await session.answer("hello")
    await session.notify("initialized", {})
    expected = "`config/updated`, although `initialized` came late"
    await session.wait_for(
        "config/updated", seconds=INTRODUCTION_SECONDS, shows="LIFE-14", expected=expected
    )
    session.record_pass("LIFE-14")
