"""The texts of a turn: pieces of long ones (W-6), and blank lines around the server's own (W-26).

Clients append each text of a turn to the text before it. A system text therefore begins with a
blank line if other text came before, and so does the text behind a system text, or behind a call of
the tool `task`, which clients do not show where it was made.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs

from eca_protocol.messages import (
    ChatContent,
    ChatReasonTextContent,
    ChatRole,
    ChatTextContent,
    ChatToolCallPrepareContent,
    ChatToolCallRunContent,
)

__all__ = ["Paragraphs", "Role", "arguments_of", "closing_text", "named_command", "pieces", "split"]

Role: TypeAlias = Literal["user", "system", "assistant"]

_COMMAND = re.compile(r"\s*+/([^\s/]++)(?!\S)")

_MOST_JSON_BYTES = 6  # of one character
_SHORT_ESCAPES = b'"\\\b\t\n\f\r'
_ESCAPES = _SHORT_ESCAPES, bytes(set(range(0x20)) - set(_SHORT_ESCAPES))  # 1 or 5 bytes more

_TEXTS: Mapping[type, str] = {
    ChatTextContent: "text",
    ChatReasonTextContent: "text",
    ChatToolCallPrepareContent: "arguments_text",
}
"""The contents whose text may be split into pieces that the client joins."""


class Paragraphs:
    """The blank lines between the texts of one turn."""

    def __init__(self) -> None:
        self._before = ""
        self._begins_paragraph = False

    def spaced(self, role: ChatRole, content: ChatContent) -> ChatContent | None:
        """Return the content as it is written next, or None for a system text without words."""
        if not isinstance(content, ChatTextContent):
            self._begins_paragraph |= _is_hidden_call(content)
            return content
        text = content.text.strip("\n") if role == "system" else content.text
        if role == "user":
            self._before, self._begins_paragraph = "", False
            return content
        if not text:
            return None if role == "system" else content
        if self._before and (role == "system" or self._begins_paragraph):
            text = "\n" * _missing(self._before, text) + text
        self._before, self._begins_paragraph = text, role == "system"
        return content if text == content.text else ChatTextContent(text=text)


def _is_hidden_call(content: ChatContent) -> bool:
    if not isinstance(content, ChatToolCallRunContent):
        return False
    return (content.server, content.name.removeprefix("eca_")) == ("eca", "task")


def _missing(before: str, text: str) -> int:
    at_end = len(before) - len(before.rstrip("\n"))
    at_start = len(text) - len(text.lstrip("\n"))
    return max(0, 2 - at_end - at_start)


def split(content: ChatContent, limit: int) -> Iterable[ChatContent]:
    """Return a content in pieces of at most `limit` bytes of text, which the client joins."""
    field = _TEXTS.get(type(content))
    if field is None:
        return (content,)
    text: str = getattr(content, field)
    if len(text) * _MOST_JSON_BYTES <= limit:
        return (content,)
    part: Any = content
    return (attrs.evolve(part, **{field: piece}) for piece in pieces(text, limit))


def pieces(text: str, limit: int) -> Iterator[str]:
    """Yield a text in pieces of at most `limit` bytes of JSON each.

    A piece ends after a line break if there is one in its second half.
    """
    start = 0
    while start < len(text):
        window = text[start : start + limit]
        if _json_bytes(window) > limit:
            end = bisect_right(range(len(window)), limit, key=lambda end: _json_bytes(window[:end]))
            window = window[: max(end - 1, 1)]
        if start + len(window) < len(text):
            lines = window[: window.rfind("\n") + 1]
            window = lines if _json_bytes(lines) * 2 > _json_bytes(window) else window
        yield window
        start += len(window)


def _json_bytes(text: str) -> int:
    """Return the bytes of a text in JSON, without the quotation marks."""
    encoded = text.encode("utf-8", "surrogatepass")
    size = len(encoded)
    short, long = (size - len(encoded.translate(None, each)) for each in _ESCAPES)
    return size + short + 5 * long


def closing_text(dropped: Sequence[str], *, is_stopped: bool) -> str:
    """Return the last text of a turn: a stop, and the messages that no model got (W-22).

    Args:
        dropped: the texts of these messages.
        is_stopped: whether the user has stopped the turn.
    """
    why = "Stopped. Prompts that were dropped" if is_stopped else "Not sent to the model"
    return "\n\n".join([f"{why}:", *dropped]) if dropped else "Stopped." * is_stopped


def named_command(message: str) -> str | None:
    """Return the name of a prompt's command, in lower case, or None.

    A command is a first word that begins with its only slash: `/doctor` and `/Costs now` name one;
    `/usr/bin/env`, `a/b` and `/` do not.
    """
    command = _COMMAND.match(message)
    return command[1].lower() if command else None


def arguments_of(prompt: str) -> str:
    """Return the text behind the command's name."""
    return " ".join(prompt.split(maxsplit=1)[1:]).strip()
