"""Conversion of a prompt from an MCP server to messages for the model.

Rules: roles are preserved, but the history begins and ends with the user, as every API requires;
embedded resources are marked like other contexts; the size is limited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Literal, TypeAlias

import attrs

from eca_server.agent.context.block import render
from eca_server.agent.context.limits import Limits
from eca_server.agent.context.resources import resource_content
from eca_server.agent.mcp.messages import Content, PromptMessage, ResourceContents
from eca_server.agent.tools.output import Cap, cut_end
from eca_server.models.attachments import MAX_IMAGE_BYTES
from eca_server.models.history import FilePart, ImagePart, Message, TextPart
from eca_server.workspace.errors import FileError

_LONGEST_URI = 2000
_CONTINUE = TextPart("Continue.")

_Part: TypeAlias = TextPart | ImagePart | FilePart


def messages_of(
    prompt: Iterable[PromptMessage], *, server: str, user_text: str, extra_text: str = ""
) -> tuple[Message, ...]:
    """Return a prompt as messages of a history; the last is the user's.

    Args:
        prompt: its messages, with its arguments filled in.
        server: the name of its server.
        user_text: the user's message; it comes first if the prompt begins with an answer.
        extra_text: text of the user that no argument of the prompt takes.
    """
    builder = _PartBuilder(server=server)
    parts = [
        (each.role, part) for each in prompt for part in builder.parts(each.role, each.content)
    ]
    messages = [
        Message(role=role, parts=tuple(part for _, part in group))
        for role, group in groupby(parts, lambda each: each[0])
    ]
    if not messages:
        return ()
    if messages[0].role == "assistant":
        messages.insert(0, Message(role="user", parts=(TextPart(user_text),)))
    extra_parts = (TextPart(extra_text),) if extra_text else ()
    if messages[-1].role == "assistant":
        messages.append(Message(role="user", parts=extra_parts or (_CONTINUE,)))
    elif extra_parts:
        messages[-1] = attrs.evolve(messages[-1], parts=messages[-1].parts + extra_parts)
    return tuple(messages)


@attrs.define(kw_only=True, eq=False)
class _PartBuilder:
    """Builds the parts of one prompt, within limits."""

    server: str
    limits: Limits = attrs.field(factory=Limits)
    size: int = attrs.field(init=False, default=0)
    attached: int = attrs.field(init=False, default=0)
    is_full: bool = attrs.field(init=False, default=False)

    def parts(self, role: Literal["user", "assistant"], content: Content) -> Iterator[_Part]:
        """Yield the parts of a block; answers contain no pictures, which no API takes there."""
        for part in self._parts(content):
            if isinstance(part, TextPart):
                if part.text.strip():
                    yield part
            elif role == "user" and self._may_attach(part):
                yield part
            else:
                yield TextPart(f"(a picture or document of {len(part.data)} bytes was left out)")

    def _parts(self, content: Content) -> Iterator[_Part]:
        room = self.limits.total - self.size
        if room <= 0:
            if not self.is_full:
                self.is_full = True
                yield TextPart("(the rest of the prompt was left out: it is too long)")
            return
        if isinstance(content, ResourceContents):
            yield from self._embedded(content, room)
            return
        if isinstance(content, TextPart):
            self.size += len(content.text.encode())
            content = TextPart(cut_end(content.text, Cap(lines=room, size=room)))
        yield content

    def _embedded(self, contents: ResourceContents, room: int) -> Iterator[_Part]:
        try:
            rendered = resource_content(self.server, contents, budget=room, limits=self.limits)
        except FileError as error:
            yield TextPart(f"({contents.uri[:_LONGEST_URI]} was left out: {error})")
            return
        self.size += rendered.size
        yield TextPart(render([rendered.section]))
        if rendered.attachment is not None:
            yield rendered.attachment

    def _may_attach(self, part: ImagePart | FilePart) -> bool:
        self.attached += 1
        fits = isinstance(part, FilePart) or len(part.data) <= MAX_IMAGE_BYTES
        return fits and self.attached <= self.limits.attachments
