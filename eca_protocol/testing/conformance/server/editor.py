"""Cases of requests to the editor: diagnostics, by a tool that the model calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.harness import ChatSession, ClientSession
from eca_protocol.testing.conformance.personalities import COUNTS_FROM_ZERO, PLAIN
from eca_protocol.testing.conformance.recorder import ReceivedMessage
from eca_protocol.testing.conformance.server.reading import call_results, calls, start_call
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.script import reply

METHOD: Final = "editor/getDiagnostics"
TOOL: Final = "editor_diagnostics"
CLIENT_WITH_DIAGNOSTICS: Final[Mapping[str, Any]] = {
    "clientInfo": PLAIN.client,
    "capabilities": {"codeAssistant": {"editor": {"diagnostics": True}}},
}
"""The params of a client that has diagnostics and counts lines from 1."""

LINE: Final = 4217


def _diagnostics(path: str, line: int = LINE, **members: Any) -> dict[str, Any]:
    place = {"line": line, "character": 31}
    diagnostic = {
        "uri": f"file://{path}",
        "severity": "error",
        "code": "E1",
        "range": {"start": place, "end": place},
        "source": "lint",
        "message": f"a problem in {path}",
        **members,
    }
    return {"diagnostics": [diagnostic]}


async def _start_call(session: ClientSession, **arguments: Any) -> ChatSession:
    """Prompt a chat whose model calls the diagnostics tool."""
    session.tool("editor diagnostics")
    session.replies[METHOD] = None
    chat = session.chat(calls((TOOL, arguments)), reply("Seen."))
    await start_call(chat, "Look.", "the call of the tool")
    return chat


async def _next_request(session: ClientSession, **options: Any) -> ReceivedMessage:
    return await session.wait_for(METHOD, expected=f"a request {METHOD}", **options)


async def _model_text(chat: ChatSession, *, shows: str | None = None) -> str:
    await chat.finished(shows=shows)
    return "\n".join(call_results(chat.model.requests[-1].body))


@case("EDIT-1", "EDIT-2", "W-42b", "W-42c", "W-42e", fresh=True, initialize=CLIENT_WITH_DIAGNOSTICS)
async def the_editor_is_asked_for_diagnostics(session: ClientSession) -> None:
    """Ask for one file, then for all; answer with diagnostics, then with junk."""
    path = session.file("faulty.py", "oops\n")
    chat = await _start_call(session, path=str(path))
    request = await _next_request(session, shows="EDIT-1")
    got = request.params.get("uri")
    named = isinstance(got, str) and got.endswith(f"/{path.name}")
    session.check("EDIT-1", named, f"the uri {path.as_uri()}", request.params)
    await session.reply(request, _diagnostics(str(path)))
    text = await _model_text(chat)
    expected = f"line {LINE}, counted from 1, in the tool result"
    session.check("W-42c", str(LINE) in text and str(LINE + 1) not in text, expected, text)
    chat = await _start_call(session)
    request = await _next_request(session, after=request, shows="EDIT-2")
    expected = "no uri in the request for all diagnostics"
    session.check("EDIT-2", request.params.get("uri") is None, expected, request.params)
    for members in (
        {"severity": "unknown", "code": None, "source": None},
        {"severity": "information", "code": 7},
    ):
        await session.reply(request, _diagnostics(str(path), **members))
        text = await _model_text(chat)
        expected = f"a diagnostic with {members} in the tool result"
        session.check("W-42b", f"a problem in {path}" in text, expected, text)
        chat = await _start_call(session)
        request = await _next_request(session, after=request)
    await session.reply(request, {"diagnostics": "junk"})
    text = await _model_text(chat, shows="W-42e")
    expected = "toolCalled after an invalid answer, and the turn continues"
    session.check("W-42e", bool(chat.of("toolCalled")) and bool(text), expected, text)


@case("BASE-29", fresh=True, initialize=CLIENT_WITH_DIAGNOSTICS)
async def answers_come_in_another_order(session: ClientSession) -> None:
    """Ask for diagnostics in two chats; answer the second request first."""
    paths = [session.file(name, "oops\n") for name in ("one.py", "two.py")]
    first = await _start_call(session, path=str(paths[0]))
    requests = [await _next_request(session)]
    second = await _start_call(session, path=str(paths[1]))
    requests.append(await _next_request(session, after=requests[0]))
    for request, path in ((requests[1], paths[1]), (requests[0], paths[0])):
        await session.reply(request, _diagnostics(path.name))
    text = [await _model_text(first), await _model_text(second)]
    if not all("a problem in" in text for text in text):
        raise Unmet("a diagnostic in each chat's tool result", text)
    are_right = [
        f"a problem in {mine.name}" in text and other.name not in text
        for text, mine, other in zip(text, paths, reversed(paths), strict=True)
    ]
    expected = "each chat's tool result has the answer to its own request"
    session.check("BASE-29", all(are_right), expected, text)


@case("W-42a", fresh=True, initialize={**CLIENT_WITH_DIAGNOSTICS, "clientInfo": COUNTS_FROM_ZERO})
async def some_editors_count_from_zero(session: ClientSession) -> None:
    """Report a diagnostic from an editor that counts lines from 0."""
    path = session.file("faulty.py", "oops\n")
    chat = await _start_call(session, path=str(path))
    await session.reply(await _next_request(session), _diagnostics(str(path), LINE - 1))
    text = await _model_text(chat)
    session.check("W-42a", str(LINE) in text, f"line {LINE} in the tool result", text)


@case(
    "W-42d",
    needs="model",
    fresh=True,
    initialize={"capabilities": {"codeAssistant": {"editor": {"diagnostics": False}}}},
)
async def the_editor_is_not_asked_what_it_cannot(session: ClientSession) -> None:
    """Call the diagnostics tool for a client without diagnostics."""
    chat = session.chat(calls((TOOL, {})), reply("Seen."))
    await start_call(chat, "Look.", "the call of the tool")
    await chat.finished()
    requests = [received.message for received in session.messages if received.method == METHOD]
    session.check("W-42d", not requests, f"no request {METHOD}", requests)
