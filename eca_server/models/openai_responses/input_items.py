"""A history in the format of Responses: its input items. Pure functions.

Items that the server wants back go, in their order, only to the model that made them. A reasoning
item never appears without the item that it led to.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

import attrs

from eca_server.models import history
from eca_server.models.attachments import data_url
from eca_server.models.calls import LEGAL_ID, CallIds
from eca_server.models.encoding import Writer
from eca_server.models.openai_responses.output_items import SEPARATOR
from eca_server.models.openai_responses.profiles import Profile

_LONGEST_ID = 64

_Item = dict[str, Any]


@attrs.define(eq=False)
class ResponsesWriter(Writer):
    """A writer for Responses.

    Args:
        refused: ids of reasoning items that the server refused.
    """

    _profile: Profile
    _images: bool = attrs.field(default=True, kw_only=True)
    _refused: Container[str] = attrs.field(default=(), kw_only=True)
    _ids: CallIds = attrs.field(factory=CallIds, init=False)

    def write(self, messages: Iterable[history.Message]) -> list[_Item]:
        """Write messages."""
        items: list[_Item] = []
        for message in messages:
            if message.role == "user":
                items.append({"role": "user", "content": self._user_content(message)})
            elif message.role == "tool":
                items += self._results(message)
            else:
                items += self._answer(message)
        return items

    def _user_content(self, message: history.Message) -> str | list[_Item]:
        content: list[_Item] = []
        for part in message.parts:
            match part:
                case history.TextPart(text):
                    content.append({"type": "input_text", "text": text})
                case history.ImagePart() | history.FilePart():
                    content.append(self._attachment(part))
        return _plain(content)

    def _answer(self, message: history.Message) -> Iterator[_Item]:
        """Write an answer: this model's own items as they came, without their ids.

        Without storage an id refers to nothing; only reasoning items must have theirs.
        """
        thoughts: list[_Item] = []  # held back until the item they led to
        texts: list[str] = []
        after_message = False
        for part in message.parts:
            item: _Item | None = None
            match part:
                case history.TextPart(text):
                    texts.append(text.removeprefix(SEPARATOR) if after_message else text)
                    after_message = False
                    continue
                case history.ReasoningPart(opaque=dict(opaque)) if self._can_be_returned(opaque):
                    yield from _flush(thoughts, self._message(texts))
                    thoughts.append(opaque)
                    continue
                case history.BlockPart(raw={"type": "message"} as head):
                    after_message = True
                    item = self._message(texts, head)
                case history.BlockPart(raw=dict(raw)) | history.ServerToolPart(raw=dict(raw)):
                    yield from _flush(thoughts, self._message(texts))
                    item = raw
                case history.ToolCallPart():
                    yield from _flush(thoughts, self._message(texts))
                    item = _call(part, self._call_id(part))
            yield from _flush(thoughts, item)
        yield from _flush(thoughts, self._message(texts))

    def _call_id(self, part: history.ToolCallPart) -> str:
        """Return the model's own id of its call, else ours, if the API accepts it."""
        own, ours = part.provider_id or "", part.id
        fitting = own if len(own) <= _LONGEST_ID else ""
        return self._ids.add(ours, fitting, ours if LEGAL_ID.fullmatch(ours) else "")

    def _message(self, texts: list[str], head: Mapping[str, Any] | None = None) -> _Item | None:
        """Take the texts and return them as a message; None if they are blank."""
        text = "".join(texts)
        texts.clear()
        if not text.strip():
            return None
        if self._profile.typed_messages:
            content = [{"type": "output_text", "text": text}]
            return {"type": "message", **(head or {}), "role": "assistant", "content": content}
        return {**(head or {}), "role": "assistant", "content": text}

    def _can_be_returned(self, item: Mapping[str, Any]) -> bool:
        readable = item.get("encrypted_content") or item.get("content")
        return bool(readable) and str(item.get("id")) not in self._refused

    def _results(self, message: history.Message) -> Iterator[_Item]:
        later: list[_Item] = []  # images that outputs cannot contain
        for result in message.parts:
            assert isinstance(result, history.ToolResultPart)
            text = "\n".join(
                part.text for part in result.parts if isinstance(part, history.TextPart)
            )
            content = [{"type": "input_text", "text": f"{'Error: ' * result.is_error}{text}"}]
            shown = [
                self._attachment(part)
                for part in result.parts
                if not isinstance(part, history.TextPart)
            ]
            texts = [each for each in shown if each["type"] == "input_text"]
            if len(texts) < len(shown) and not self._profile.images_in_results:
                content += [*texts, {"type": "input_text", "text": "[shown after the results]"}]
                later += [each for each in shown if each not in texts]
            else:
                content += shown
            yield {
                "type": "function_call_output",
                "call_id": self._ids.written[result.call_id],
                "output": _plain([part for part in content if part.get("text") != ""]),
            }
        if later:
            yield {"role": "user", "content": later}

    def _attachment(self, part: history.ImagePart | history.FilePart) -> _Item:
        if isinstance(part, history.FilePart):
            return {"type": "input_file", "filename": part.name, "file_data": data_url(part)}
        if not self._images:
            text = "[image omitted: this model does not accept images]"
            return {"type": "input_text", "text": text}
        return {"type": "input_image", "image_url": data_url(part), "detail": "auto"}


def _call(part: history.ToolCallPart, call_id: str) -> _Item:
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": part.name,
        "arguments": part.raw,
    }


def _plain(content: list[_Item]) -> str | list[_Item]:
    """Return a string if there is only text, for servers that accept nothing else."""
    if all(part["type"] == "input_text" for part in content):
        return "\n\n".join(part["text"] for part in content)
    return content


def _flush(thoughts: list[_Item], item: _Item | None) -> Iterator[_Item]:
    """Yield the reasoning that led to an item, then the item; without an item, keep both."""
    if item is not None:
        yield from thoughts
        thoughts.clear()
        yield item
