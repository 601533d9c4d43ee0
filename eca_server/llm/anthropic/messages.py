"""Histories in the words of the Messages API. No I/O.

The rules it keeps: what a provider wants back goes only to that provider and model, and there
exactly as it came, ids included, for signatures cover all that stands before them; results of
calls stand first in the one message of the user that follows, and behind them what errors show,
since those hold text only.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from eca_server.llm.anthropic.blocks import CALL_FIELDS
from eca_server.llm.history import (
    BlockPart,
    FilePart,
    ImagePart,
    Message,
    Origin,
    Part,
    ReasoningPart,
    ServerToolPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from eca_server.llm.written import Waiting

__all__ = ["MessagesWriter", "mark_for_cache"]

_MARK = {"cache_control": {"type": "ephemeral"}}
_LEGAL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_THOUGHTS = ("thinking", "redacted_thinking")

_Block = dict[str, Any]


def mark_for_cache(blocks: list[_Block]) -> None:
    """Has the provider keep everything up to the last of `blocks`."""
    blocks[-1] = {**blocks[-1], **_MARK}


@attrs.frozen(kw_only=True)
class _Carried:
    """What a message needs of those before it.

    Attributes:
        said: blocks of the user, to which the next message may add.
        ids: of all calls: ours, and the one written.
    """

    said: tuple[_Block, ...] = ()
    ids: Mapping[str, str] = attrs.field(factory=dict)


class MessagesWriter:
    """As `written.Writer`.

    Args:
        origin: whose opaque parts are given back.
        images: whether the model reads pictures.
    """

    def __init__(self, origin: Origin, *, images: bool = True) -> None:
        self._origin = origin
        self._images = images

    def write(self, messages: Iterable[Message], waiting: Waiting) -> tuple[list[_Block], Waiting]:
        """As `written.Writer.write`."""
        [carried] = waiting or [_Carried()]
        said, ids = list(carried.said), _Ids(carried.ids)
        written: list[_Block] = []
        for message in messages:
            if message.role == "assistant":
                written += [{"role": "user", "content": said}] if said else []
                written.append({"role": "assistant", "content": self._answer(message, ids)})
                said = []
            else:
                said += self._said(message, ids)
        return written, [_Carried(said=tuple(said), ids=ids.written)]

    def end(self, waiting: Waiting) -> list[_Block]:
        """As `written.Writer.end`."""
        return [{"role": "user", "content": list(carried.said)} for carried in waiting]

    def paused(self, answer: Message) -> _Block:
        """An answer that is not at its end."""
        return {"role": "assistant", "content": self._verbatim(answer.parts, _Ids({}))}

    def _said(self, message: Message, ids: _Ids) -> Iterator[_Block]:
        behind: list[_Block] = []
        for part in message.parts:
            match part:
                case TextPart() | ImagePart() | FilePart():
                    yield self._shown(part)
                case ToolResultPart():
                    yield self._result(part, ids, behind)
        yield from behind

    def _answer(self, message: Message, ids: _Ids) -> list[_Block]:
        if message.origin == self._origin:
            blocks = self._verbatim(_paired(message.parts), ids)
            while blocks[-1]["type"] in _THOUGHTS:
                blocks.pop()  # they are refused at an end
            return blocks
        blocks = []
        for part in message.parts:
            match part:
                case TextPart(text):
                    blocks.append(_text(text.rstrip()))
                case ServerToolPart():
                    blocks.append(_text(f"[used {part.kind}]"))
                case ImagePart():
                    blocks.append(_text("[an image that you made]"))
                case ToolCallPart():
                    blocks.append(_call(part, ids.new(part.id, part.id)))
        return blocks

    def _verbatim(self, parts: Iterable[Part], ids: _Ids) -> list[_Block]:
        """An answer of this very model, as it came."""
        blocks: list[_Block] = []
        for part in parts:
            match part:
                case TextPart(text):
                    blocks.append(_text(text))
                case ReasoningPart(opaque={"data": data}):
                    blocks.append({"type": "redacted_thinking", "data": data})
                case ReasoningPart(text=text, opaque={"signature": signature}):
                    thought = {"type": "thinking", "thinking": text, "signature": signature}
                    blocks.append(thought)
                case ToolCallPart():
                    call = _call(part, ids.new(part.id, part.provider_id or part.id))
                    opaque = part.opaque if isinstance(part.opaque, dict) else {}
                    kept = {name: opaque[name] for name in CALL_FIELDS if name in opaque}
                    blocks.append({**call, **kept})
                case BlockPart(raw={"type": "text", "text": str(text)} as raw):
                    _take_back(blocks, text)
                    blocks.append(dict(raw))
                case BlockPart(raw={"type": _} as raw) | ServerToolPart(raw={"type": _} as raw):
                    blocks.append(dict(raw))
                case ServerToolPart():
                    blocks.append(_text(f"[used {part.kind}]"))
                case ImagePart():
                    blocks.append(_text("[an image that you made]"))
        return blocks

    def _result(self, result: ToolResultPart, ids: _Ids, behind: list[_Block]) -> _Block:
        """A result; what an error may not hold goes `behind` all of them."""
        content = [self._shown(part) for part in result.parts]
        block = {"type": "tool_result", "tool_use_id": ids.written[result.call_id]}
        if not result.is_error:
            return {**block, "content": content}
        texts = [each for each in content if each["type"] == "text"]
        if len(texts) < len(content):
            behind += (each for each in content if each["type"] != "text")
            texts.append(_text("[shown behind the results]"))
        return {**block, "content": texts, "is_error": True}

    def _shown(self, part: TextPart | ImagePart | FilePart) -> _Block:
        match part:
            case TextPart(text):
                return _text(text)
            case ImagePart():
                return self._picture(part)
            case FilePart():
                return _document(part)

    def _picture(self, part: ImagePart) -> _Block:
        if not self._images:
            return _text("[an image was left out: this model reads none]")
        return {"type": "image", "source": _encoded(part)}


class _Ids:
    """The ids of calls: ours, and what is written for it, which no other call may have."""

    def __init__(self, written: Mapping[str, str]) -> None:
        self.written = dict(written)
        self._taken = set(written.values())

    def new(self, ours: str, wanted: str) -> str:
        if not _LEGAL_ID.fullmatch(wanted) or wanted in self._taken:
            wanted = f"call_{hashlib.sha256(ours.encode('utf-8', 'replace')).hexdigest()[:24]}"
        self.written[ours] = wanted
        self._taken.add(wanted)
        return wanted


def _paired(parts: Sequence[Part]) -> Iterator[Part]:
    """The parts, but of the provider's own tools only calls with a result, and the reverse."""
    raws = [part.raw for part in parts if isinstance(part, BlockPart | ServerToolPart)]
    blocks = [raw for raw in raws if isinstance(raw, dict)]
    answered = {block["tool_use_id"] for block in blocks if "tool_use_id" in block}
    called = {block["id"] for block in blocks if "id" in block}
    for part in parts:
        raw = part.raw if isinstance(part, BlockPart | ServerToolPart) else None
        block = raw if isinstance(raw, dict) else {}
        alone = block.get("tool_use_id", block.get("id")) not in called & answered
        if not block or not alone or not block.keys() & {"tool_use_id", "id"}:
            yield part
        elif isinstance(part, ServerToolPart):
            yield TextPart(f"[used {part.kind}]")


def _call(part: ToolCallPart, written_id: str) -> _Block:
    given = dict(part.arguments or {})
    return {"type": "tool_use", "id": written_id, "name": part.name, "input": given}


def _take_back(blocks: list[_Block], text: str) -> None:
    """Removes from the end what comes again, with its quotations."""
    if blocks and blocks[-1]["type"] == "text" and blocks[-1]["text"].endswith(text):
        before = blocks.pop()["text"].removesuffix(text)
        blocks += [_text(before)] if before.strip() else []


def _text(text: str) -> _Block:
    return {"type": "text", "text": text}


def _document(part: FilePart) -> _Block:
    if part.media_type == "application/pdf":
        return {"type": "document", "source": _encoded(part), "title": part.name}
    text = part.data.decode("utf-8", "replace")
    if part.media_type.startswith("text/") and text.strip():
        source = {"type": "text", "media_type": "text/plain", "data": text}
        return {"type": "document", "source": source, "title": part.name}
    return _text(f"[the file {part.name} was left out: it cannot be read ({part.media_type})]")


def _encoded(part: ImagePart | FilePart) -> _Block:
    data = base64.b64encode(part.data).decode("ascii")
    return {"type": "base64", "media_type": part.media_type, "data": data}
