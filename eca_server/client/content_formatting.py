"""The formatting of contents for a client: names of tools, pictures, pieces of texts (W-6).

The module is imported with the first content, which keeps the start fast.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath
from typing import Final

import attrs

from eca_protocol.messages import (
    ChatContent,
    ChatContentReceivedParams,
    ChatImageContent,
    ChatTextContent,
    ChatToolCalledContent,
    ChatToolCallPrepareContent,
    ChatToolCallRejectedContent,
    ChatToolCallRunContent,
    ChatToolCallRunningContent,
    FileChangeDetails,
)
from eca_protocol.server.roots import path_of
from eca_protocol.server.texts import Role, split
from eca_server.client.profiles import ClientProfile
from eca_server.printable import LONGEST_NAME, printable_line

NATIVE = "eca"
"""The server name of native tools in the contents of a call."""

NATIVE_SERVER: Final = "ECA"
"""Their name among the MCP servers (W-33)."""

PREFIX = "eca_"
"""Prefix of a native tool's name, for models and older revisions of the protocol (W-33)."""

LARGEST_PICTURE = 8 * 1024 * 1024
"""Limit of a picture in one frame, in characters of base64; a text replaces a larger one."""

_OF_CALLS = (
    ChatToolCallPrepareContent,
    ChatToolCallRunContent,
    ChatToolCallRunningContent,
    ChatToolCalledContent,
    ChatToolCallRejectedContent,
)


@attrs.frozen
class ContentFormatter:
    """The formatter of contents for one client.

    Attributes:
        link: returns the URI of the file of a picture in a chat, if there is one.
    """

    profile: ClientProfile
    link: Callable[[str, ChatImageContent], str | None] = lambda _chat_id, _picture: None

    def messages(
        self, chat_id: str, role: Role, content: ChatContent, parent_chat_id: str | None = None
    ) -> list[ChatContentReceivedParams]:
        """Return the messages that carry a content of a chat."""
        if role != "assistant" or not isinstance(content, ChatTextContent):
            role, content = self._adapted(chat_id, role, content)
        is_split = role != "user" or self.profile.writing.splits_echo
        pieces = split(content, self.profile.writing.text_limit) if is_split else (content,)
        if role == "user" and self.profile.writing.ends_echo:
            pieces = _with_line_end(pieces)
        return [
            ChatContentReceivedParams(
                chat_id=chat_id, parent_chat_id=parent_chat_id, role=role, content=piece
            )
            for piece in pieces
        ]

    def _adapted(self, chat_id: str, role: Role, content: ChatContent) -> tuple[Role, ChatContent]:
        """Return a content as the client can show it, with its role."""
        if isinstance(content, ChatImageContent) and not self.shows(content):
            return self._in_words(content, self.link(chat_id, content))
        if role == "system" and isinstance(content, ChatTextContent) and self._hides(content.text):
            return "assistant", attrs.evolve(content, text=f"\n\n{_wrapping(content.text)}\n\n")
        return role, self.named(content)

    def shows(self, picture: ChatImageContent) -> bool:
        """Return whether the client is sent this picture; else a text replaces it."""
        fits = len(picture.base64) <= LARGEST_PICTURE
        return (
            self.profile.display.shows_pictures and fits and picture.media_type.startswith("image/")
        )

    def named(self, content: ChatContent) -> ChatContent:
        """Return a content with the names of its tool and file as the client needs them."""
        if not isinstance(content, _OF_CALLS) or content.server != NATIVE:
            return content
        if not self.profile.prefixes_tools:
            content = attrs.evolve(content, name=content.name.removeprefix(PREFIX))
        display, details = self.profile.display, content.details
        if isinstance(details, FileChangeDetails):
            is_rejected = isinstance(content, ChatToolCallRejectedContent)
            if is_rejected and not display.shows_rejected_changes:
                return attrs.evolve(content, details=None)
            if display.names_changed_files:
                content = attrs.evolve(
                    content, summary=_without_name(content.summary, details.path)
                )
        return content

    def _hides(self, system_text: str) -> bool:
        """Return whether the client would cut lines of this text that the user must see."""
        return self.profile.display.has_plain_own_texts and "```" in system_text

    def _in_words(
        self, picture: ChatImageContent, link: str | None
    ) -> tuple[Role, ChatTextContent]:
        """Return a text that describes a picture and its file, with its role."""
        size = len(picture.base64) * 3 // 4 - picture.base64[-2:].count("=")
        text = f"[a picture: {picture.media_type}, {size:,} bytes]"
        if link is None:
            return "system", ChatTextContent(text=text)
        if not self.profile.display.has_plain_own_texts:
            return "system", ChatTextContent(text=f"{text}({link})")
        # This client cuts long lines of system texts and does not follow links to files.
        return "assistant", ChatTextContent(text=f"\n\n{text} `{path_of(link)}`\n\n")


def _with_line_end(pieces: Iterable[ChatContent]) -> Iterator[ChatContent]:
    *others, last = pieces
    yield from others
    yield attrs.evolve(last, text=f"{last.text}\n") if isinstance(last, ChatTextContent) else last


def _without_name(summary: str | None, path: str) -> str | None:
    """Return a summary without the file's name; a reason in brackets after it stays."""
    name = printable_line(PurePath(path).name, longest=LONGEST_NAME)
    return summary and re.sub(rf" {re.escape(name)}(?= \(|\Z)", "", summary, count=1)


def _wrapping(text: str) -> str:
    """Return Markdown with each line of a code block as inline code, which wraps."""
    lines, is_code = [], False
    for line in text.split("\n"):
        if line.startswith("```"):
            is_code = not is_code
            lines.append("")
        elif is_code and line.strip():
            ticks = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
            lines.append(f"{ticks} {line} {ticks}  ")  # two blanks: a hard line break
        else:
            lines.append(line)
    return "\n".join(lines)
