"""What an MCP server made of a prompt, as the messages that a model answers.

The rules it keeps: the roles stay, and yet every API takes the history: it begins and ends with
the user; what a server embeds stands in the frame of contexts; however much a prompt is, what is
kept of it is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Literal, TypeAlias

import attrs

from eca_server.context.block import render
from eca_server.context.limits import Limits
from eca_server.context.resources import resource_content
from eca_server.llm.attachments import MAX_IMAGE_BYTES
from eca_server.llm.history import FilePart, ImagePart, Message, TextPart
from eca_server.mcp.messages import Content, EmbeddedResource, PromptResult, ResourceContents
from eca_server.mcp.tools import part_of
from eca_server.tools.output import Cap, cut_end
from eca_server.workspace import FileError

__all__ = ["messages_of"]

_LONGEST_URI = 2000
_CONTINUE = TextPart("Continue.")

_Part: TypeAlias = TextPart | ImagePart | FilePart


def messages_of(
    result: PromptResult, *, server: str, typed: str, more: str = ""
) -> tuple[Message, ...]:
    """What a server gave as messages of a history; the last is the user's.

    Args:
        result: the prompt, filled in.
        server: who gave it.
        typed: what the user wrote; it comes first where the server begins with an answer.
        more: words of the user's that the prompt has no place for.
    """
    giving = _Giving(server=server)
    given = [
        (each.role, part)
        for each in result.messages
        for part in giving.parts(each.role, each.content)
    ]
    messages = [
        Message(role=role, parts=tuple(part for _, part in group))
        for role, group in groupby(given, lambda each: each[0])
    ]
    if not messages:
        return ()
    if messages[0].role == "assistant":
        messages.insert(0, Message(role="user", parts=(TextPart(typed),)))
    said = (TextPart(more),) if more else ()
    if messages[-1].role == "assistant":
        messages.append(Message(role="user", parts=said or (_CONTINUE,)))
    elif said:
        messages[-1] = attrs.evolve(messages[-1], parts=messages[-1].parts + said)
    return tuple(messages)


@attrs.define(kw_only=True, eq=False)
class _Giving:
    """What of one prompt was given so far."""

    server: str
    limits: Limits = attrs.field(factory=Limits)
    size: int = attrs.field(init=False, default=0)
    attached: int = attrs.field(init=False, default=0)
    is_full: bool = attrs.field(init=False, default=False)

    def parts(self, role: Literal["user", "assistant"], content: Content) -> Iterator[_Part]:
        """A block; an answer holds no pictures, for no API takes them there."""
        for part in self._parts(content):
            if isinstance(part, TextPart):
                if part.text.strip():
                    yield part
            elif role == "user" and self._may_attach(part):
                yield part
            else:
                yield TextPart(f"(a picture or document of {len(part.data)} bytes is left out)")

    def _parts(self, content: Content) -> Iterator[_Part]:
        room = self.limits.total - self.size
        if room <= 0:
            if not self.is_full:
                self.is_full = True
                yield TextPart("(the rest of the prompt is left out: there is no room for it)")
            return
        if isinstance(content, EmbeddedResource):
            yield from self._embedded(content.contents, room)
            return
        part = part_of(content)
        if isinstance(part, TextPart):
            self.size += len(part.text.encode())
            part = TextPart(cut_end(part.text, Cap(lines=room, size=room)))
        yield part

    def _embedded(self, contents: ResourceContents, room: int) -> Iterator[_Part]:
        try:
            given = resource_content(self.server, contents, budget=room, limits=self.limits)
        except FileError as fault:
            yield TextPart(f"({contents.uri[:_LONGEST_URI]} is left out: {fault})")
            return
        self.size += given.size
        yield TextPart(render([given.section]))
        if given.attachment is not None:
            yield given.attachment

    def _may_attach(self, part: ImagePart | FilePart) -> bool:
        self.attached += 1
        fits = isinstance(part, FilePart) or len(part.data) <= MAX_IMAGE_BYTES
        return fits and self.attached <= self.limits.attachments
