"""A history in the format of the Messages API. No I/O.

Content that a provider wants back goes only to the same provider and model, exactly as it came, ids
included: signatures cover everything before them. Tool results come first in the next user message;
attachments of errors follow them, since an error result holds text only.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any

import attrs

from eca_server.models import history
from eca_server.models.anthropic.blocks import CALL_FIELDS
from eca_server.models.calls import LEGAL_ID, CallIds
from eca_server.models.encoding import Writer
from eca_server.models.reasoning import BLANK

_MARK = {"cache_control": {"type": "ephemeral"}}
_THOUGHTS = ("thinking", "redacted_thinking")

_Block = dict[str, Any]


def mark_for_cache(blocks: list[_Block]) -> None:
    """Let the provider cache everything up to the last of `blocks`."""
    blocks[-1] = {**blocks[-1], **_MARK}


@attrs.define(kw_only=True, eq=False)
class MessagesWriter(Writer):
    """A writer for the Messages API; user blocks wait for the next message, which may add to them.

    Args:
        thinking_required: whether each answer must begin with reasoning.
    """

    _images: bool = True
    thinking_required: bool = False
    _user_blocks: list[_Block] = attrs.field(factory=list, init=False)
    _ids: CallIds = attrs.field(factory=CallIds, init=False)

    def write(self, messages: Iterable[history.Message]) -> list[_Block]:
        """Write messages."""
        written: list[_Block] = []
        for message in messages:
            if message.role == "assistant":
                written += self.end()
                self._user_blocks = []
                answer = self._answer(message)
                if self.thinking_required and answer[0]["type"] not in _THOUGHTS:
                    answer.insert(0, {"type": "thinking", "thinking": BLANK, "signature": ""})
                written.append({"role": "assistant", "content": answer})
            else:
                self._user_blocks += self._user_content(message)
        return written

    def end(self) -> list[_Block]:
        """Write the waiting user blocks as a message."""
        return [{"role": "user", "content": self._user_blocks}] if self._user_blocks else []

    def paused(self, answer: history.Message) -> _Block:
        """Return an unfinished answer, to be continued."""
        return {"role": "assistant", "content": deepcopy(self)._verbatim(answer.parts)}

    def _user_content(self, message: history.Message) -> Iterator[_Block]:
        trailing: list[_Block] = []
        for part in message.parts:
            match part:
                case history.TextPart() | history.ImagePart() | history.FilePart():
                    yield self._content_block(part)
                case history.ToolResultPart():
                    yield self._result(part, trailing)
        yield from trailing

    def _answer(self, message: history.Message) -> list[_Block]:
        blocks = self._verbatim(_paired(message.parts))
        while blocks[-1]["type"] in _THOUGHTS:
            blocks.pop()  # the API refuses reasoning at the end
        if message.origin is None:  # and the blanks with which a different model may end
            return [{**b, "text": b["text"].rstrip()} if "text" in b else b for b in blocks]
        return blocks

    def _verbatim(self, parts: Iterable[history.Part]) -> list[_Block]:
        blocks: list[_Block] = []
        for part in parts:
            match part:
                case history.TextPart(text):
                    blocks.append(_text(text))
                case history.ReasoningPart(opaque={"data": data}):
                    blocks.append({"type": "redacted_thinking", "data": data})
                case history.ReasoningPart(text=text, opaque={"signature": signature}):
                    thought = {"type": "thinking", "thinking": text, "signature": signature}
                    blocks.append(thought)
                case history.ToolCallPart():
                    preferred = part.provider_id or part.id
                    legal = preferred if LEGAL_ID.fullmatch(preferred) else ""
                    call = _call(part, self._ids.add(part.id, legal))
                    opaque = part.opaque if isinstance(part.opaque, dict) else {}
                    returned = {name: opaque[name] for name in CALL_FIELDS if name in opaque}
                    blocks.append({**call, **returned})
                case history.BlockPart(raw={"type": "text", "text": str(text)} as raw):
                    _remove_text(blocks, text)
                    blocks.append(dict(raw))
                case (
                    history.BlockPart(raw={"type": _} as raw)
                    | history.ServerToolPart(raw={"type": _} as raw)
                ):
                    blocks.append(dict(raw))
                case history.ServerToolPart() | history.ImagePart():
                    blocks.append(_text(history.spoken(part)))
        return blocks

    def _result(self, result: history.ToolResultPart, trailing: list[_Block]) -> _Block:
        """Write a result; attachments of an error are added to `trailing`."""
        content = [self._content_block(part) for part in result.parts]
        block = {"type": "tool_result", "tool_use_id": self._ids.written[result.call_id]}
        if not result.is_error:
            return {**block, "content": content}
        texts = [each for each in content if each["type"] == "text"]
        if len(texts) < len(content):
            trailing += (each for each in content if each["type"] != "text")
            texts.append(_text("[shown after the results]"))
        return {**block, "content": texts, "is_error": True}

    def _content_block(
        self, part: history.TextPart | history.ImagePart | history.FilePart
    ) -> _Block:
        match part:
            case history.TextPart(text):
                return _text(text)
            case history.ImagePart():
                return self._image(part)
            case history.FilePart():
                return _document(part)

    def _image(self, part: history.ImagePart) -> _Block:
        if not self._images:
            return _text("[image omitted: this model does not accept images]")
        return {"type": "image", "source": _encoded(part)}


def _paired(parts: Sequence[history.Part]) -> Iterator[history.Part]:
    """Drop calls of the provider's own tools without a result, and results without a call."""
    raws = [
        part.raw for part in parts if isinstance(part, history.BlockPart | history.ServerToolPart)
    ]
    blocks = [raw for raw in raws if isinstance(raw, dict)]
    result_ids = {block["tool_use_id"] for block in blocks if "tool_use_id" in block}
    call_ids = {block["id"] for block in blocks if "id" in block}
    for part in parts:
        raw = part.raw if isinstance(part, history.BlockPart | history.ServerToolPart) else None
        block = raw if isinstance(raw, dict) else {}
        is_unpaired = block.get("tool_use_id", block.get("id")) not in call_ids & result_ids
        if not block or not is_unpaired or not block.keys() & {"tool_use_id", "id"}:
            yield part
        elif isinstance(part, history.ServerToolPart):
            yield history.TextPart(history.spoken(part))


def _call(part: history.ToolCallPart, written_id: str) -> _Block:
    arguments = dict(part.arguments or {})
    return {"type": "tool_use", "id": written_id, "name": part.name, "input": arguments}


def _remove_text(blocks: list[_Block], text: str) -> None:
    """Remove a text from the end that is written again with its citations."""
    if blocks and blocks[-1]["type"] == "text" and blocks[-1]["text"].endswith(text):
        before = blocks.pop()["text"].removesuffix(text)
        blocks += [_text(before)] if before.strip() else []


def _text(text: str) -> _Block:
    return {"type": "text", "text": text}


def _document(part: history.FilePart) -> _Block:
    if part.media_type == "application/pdf":
        return {"type": "document", "source": _encoded(part), "title": part.name}
    text = part.data.decode("utf-8", "replace")
    if part.media_type.startswith("text/") and text.strip():
        source = {"type": "text", "media_type": "text/plain", "data": text}
        return {"type": "document", "source": source, "title": part.name}
    return _text(f"[file {part.name} omitted: its type cannot be read ({part.media_type})]")


def _encoded(part: history.ImagePart | history.FilePart) -> _Block:
    data = base64.b64encode(part.data).decode("ascii")
    return {"type": "base64", "media_type": part.media_type, "data": data}
