"""Helpers of the cases for CURRENT: requests, chats, and a capable client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eca_protocol.errors import METHOD_NOT_FOUND
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.chat_session import ChatSession
from eca_protocol.testing.conformance.message_session import MessageSession
from eca_protocol.testing.conformance.server.reading import result_of
from eca_protocol.testing.conformance.session import ClientSession
from eca_protocol.testing.conformance.verdicts import NotApplicable, Unmet
from eca_protocol.testing.script import Reply

CURRENT: Final = Revision.CURRENT
RANGE: Final = {
    "start": {"line": 7, "character": 1},
    "end": {"line": 7, "character": 5},
}
CAPABLE_CLIENT: Final[dict[str, object]] = {
    "capabilities": {
        "codeAssistant": {
            "chat": True,
            "rewrite": True,
            "chatCapabilities": {"askQuestion": True},
            "editor": {"diagnostics": True, "definition": True, "references": True},
        }
    }
}
"""The params of a client with every capability of CURRENT."""
PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)
"""A PNG of one pixel."""


async def request_result(
    session: MessageSession, method: str, /, **params: Any
) -> Mapping[str, Any]:
    """Send a request of CURRENT; return its result.

    Raises:
        NotApplicable: the server does not know the method.
        Unmet: it answers with another error.
    """
    answer = await session.ask(method, params)
    error = answer.get("error")
    if isinstance(error, Mapping) and error.get("code") == METHOD_NOT_FOUND:
        raise NotApplicable(f"the server does not know {method}")
    if error is not None:
        raise Unmet(f"a result of {method}", error)
    return result_of(answer)


async def chat_with_turns(session: ClientSession, *script: Reply) -> ChatSession:
    """Start a chat with one turn for each reply."""
    chat = session.chat(*script)
    for turn in range(1, len(script) + 1):
        await chat.take_turn(f"Prompt {turn}.")
    return chat


def content_id(chat: ChatSession) -> str:
    """Return the id of the last prompt's echo."""
    ids = [each.get("contentId") for each in chat.of("text") if each.get("contentId")]
    if not ids:
        raise Unmet("an echo with an id", chat.of("text"))
    return str(ids[-1])
