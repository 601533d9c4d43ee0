"""The form and the place of a message in a conversation, with only the standard library.

A script that replays a failure finds the message that showed a violation by its signature. So it
needs no watcher.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from eca_protocol.testing.sessions.wire import Violation

Signature = tuple[str, ...]

_WORD = re.compile(r"[A-Za-z$/][A-Za-z$/_-]*")
_FREE_TEXTS = ("argumentsText", "message", "summary", "text", "title", "welcomeMessage")
"""Members whose text depends on how a server splits and words it."""


class Signatures:
    """The signatures of a conversation's messages.

    A signature has the kinds of the earlier contents of the turn and of the client's actions in it,
    the form of the message, and its number among equal ones.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, list[str]] = {}
        self._requests: dict[str, tuple[str, str]] = {}
        self._counts: Counter[Signature] = Counter()

    def take(self, side: str, message: Mapping[str, Any]) -> Signature:
        """Take the next message of either side; return its signature."""
        topic, kind = self._topic_and_kind(side, message)
        place = self._kinds.setdefault(topic, [])
        signature = (*place, kind, repr(_form(message)))
        self._counts[signature] += 1
        if not place or place[-1] != kind:
            place.append(kind)
        if kind == "finished":
            place[:] = [kind]
        return (*signature, str(self._counts[signature]))

    def _topic_and_kind(self, side: str, message: Mapping[str, Any]) -> tuple[str, str]:
        """Return the chat of a message, else its method; and its kind."""
        method, params = message.get("method"), message.get("params")
        params = params if isinstance(params, dict) else {}
        if isinstance(method, str):
            chat = str(params.get("chatId", ""))
            if "id" in message:
                self._requests[repr(message["id"])] = (method, chat)
            if method == "chat/contentReceived":
                return chat, _kind_of_content(params)
            return chat or method, f"{side}: {method}"
        method, chat = self._requests.get(repr(message.get("id")), ("", ""))
        result = message.get("result")
        named = result.get("chatId") if isinstance(result, dict) else None
        return str(named or chat or method), f"{side}: response to {method}"


def signature_finder(
    signature: Signature, requirement: str, expected: str, got: str
) -> Callable[[str, Any], None]:
    """Return a callback for all messages, which raises a violation at the one with a signature."""
    signatures = Signatures()

    def watch(side: str, message: Any) -> None:
        if isinstance(message, dict) and signatures.take(side, message) == signature:
            raise Violation(requirement, expected, got)

    return watch


def _kind_of_content(params: Mapping[str, Any]) -> str:
    content = params.get("content")
    content = content if isinstance(content, dict) else {}
    if content.get("state") == "finished":
        return "finished"
    return f"{params.get('role')} {content.get('type')}"


def _form(value: Any, name: str = "") -> Any:
    """Return a value without what differs between runs: ids, texts, the size of numbers."""
    if isinstance(value, dict):
        return {key: _form(value[key], key) for key in sorted(value)}
    if isinstance(value, list):
        forms = [_form(each) for each in value]
        return [each for place, each in enumerate(forms) if each not in forms[:place]]
    if isinstance(value, bool) or value is None or value == "":
        return value
    if isinstance(value, int | float):
        return f"{type(value).__name__} {(value > 0) - (value < 0)}"
    return value if name not in _FREE_TEXTS and _WORD.fullmatch(value) else "a text"
