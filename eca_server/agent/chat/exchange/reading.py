"""Reading of a chat from a file of upstream's `/export`.

Rules: unreadable entries are named, and nothing is guessed; data that only one provider understands
is left out, and counted.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from eca_protocol import json
from eca_protocol.errors import ECAError, InvalidJSON
from eca_server.agent.chat.exchange import edn
from eca_server.agent.chat.exchange.written import COMPACTED, VERSION
from eca_server.agent.chat.flags import Flag
from eca_server.client.content_formatting import NATIVE
from eca_server.models import history

_LONGEST_ID: Final = 256
_JSON = re.compile(r'\s*\{\s*"')


class BadExport(ECAError):
    """A file without a readable chat; the message gives the reason."""


@attrs.frozen(kw_only=True)
class ImportedChat:
    """A chat from a file.

    Attributes:
        title: its title; empty: none.
        model: the model of its last prompt, as `provider/model`.
        is_named_by_user: the user gave the title.
        skipped: the number of entries that were left out, by role.
    """

    messages: tuple[history.Message, ...]
    title: str = ""
    model: str | None = None
    variant: str | None = None
    is_named_by_user: bool = False
    flags: Mapping[str, Flag] = attrs.field(factory=dict)
    skipped: Mapping[str, int] = attrs.field(factory=dict)


def read_export(text: str, *, checkpoint: Callable[[], object] = lambda: None) -> ImportedChat:
    """Return the chat in a file's text, in EDN or in JSON.

    Raises:
        BadExport: the text has no readable chat.
    """
    try:
        if _JSON.match(text):
            export = json.loads(text.encode("utf-8", "replace"))
        else:
            export = edn.loads(text, checkpoint=checkpoint)
    except (edn.BadEDN, InvalidJSON) as fault:
        raise BadExport(f"it is neither EDN nor JSON: {fault}") from fault
    version = export.get("eca/export-version") if isinstance(export, dict) else None
    if version is None:
        raise BadExport("expected an exported chat, got something without eca/export-version")
    if version != VERSION:
        raise BadExport(f"expected version {VERSION} of an exported chat, got {version!r}")
    chat = export.get("chat")
    entries = chat.get("messages") if isinstance(chat, dict) else None
    if not isinstance(entries, list):
        raise BadExport("expected a list of messages in chat.messages")
    model = _text(chat, "model")
    reader = _Reader(model or "")
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("role"), str):
            raise BadExport(f"chat.messages[{place}]: expected a map with a role")
        try:
            reader.take(entry["role"], entry)
        except (AttributeError, LookupError, TypeError, ValueError):
            raise BadExport(
                f"chat.messages[{place}]: expected the content of a {entry['role'][:40]!r}"
            ) from None
    return ImportedChat(
        messages=tuple(reader.messages),
        title=" ".join((_text(chat, "title") or "").split())[:200],
        model=model,
        variant=_text(chat, "variant"),
        is_named_by_user=chat.get("title-custom?") is True,
        flags=reader.flags,
        skipped=reader.skipped,
    )


def _text(values: Mapping[str, Any], name: str) -> str | None:
    value = values.get(name)
    return str(value) if isinstance(value, str) and value else None


class _Reader:
    def __init__(self, model: str) -> None:
        provider, _, name = model.partition("/")
        self.messages: list[history.Message] = []
        self.flags: dict[str, Flag] = {}
        self._last_id: str | None = None
        self.skipped: Counter[str] = Counter()
        self._origin = history.Origin("imported", provider, name)
        self._ids: set[str] = set()
        self._calls: set[str] = set()
        self._is_compacted = False

    def take(self, role: str, entry: Mapping[str, Any]) -> None:
        content: Any = entry.get("content")
        match role:
            case "user":
                self._user(content, entry.get("content-id"))
            case "assistant":
                self._answer(*_parts(content))
            case "reason" if content.get("text"):
                name = content.get("id")
                self._last_id = name if isinstance(name, str) and name else str(uuid.uuid4())
                text = _must_be_text(content["text"])
                self._answer(history.ReasoningPart(text=text, id=self._last_id))
            case "tool_call":
                self._call(content)
            case "tool_call_output":
                self._result(content)
            case "compact_marker":
                self._is_compacted = True
            case "flag" if self._last_id is not None:
                text = _must_be_text(content["text"])
                self.flags[str(uuid.uuid4())] = Flag(after=self._last_id, text=text)
            case _:
                self.skipped[role[:40]] += 1

    def _user(self, content: Any, content_id: Any) -> None:
        parts: Sequence[history.Part] = _parts(content)
        if not parts:
            return
        if self._is_compacted:
            summary = "\n\n".join(part.text for part in parts if isinstance(part, history.TextPart))
            parts = (history.CompactionPart(summary.removeprefix(COMPACTED)),)
            self._is_compacted = False
            content_id = None
        usable = isinstance(content_id, str) and 0 < len(content_id) <= _LONGEST_ID
        known = str(content_id) if usable and content_id not in self._ids else None
        if known is not None:
            self._ids.add(known)
            self._last_id = known
        self.messages.append(history.Message(role="user", parts=tuple(parts), content_id=known))

    def _answer(self, *parts: history.Part) -> None:
        if self.messages and self.messages[-1].role == "assistant":
            parts = (*self.messages.pop().parts, *parts)
        self.messages.append(history.Message(role="assistant", parts=parts, origin=self._origin))

    def _call(self, content: Mapping[str, Any]) -> None:
        call_id, tool = _must_be_text(content["id"]), _must_be_text(content["name"])
        server = _must_be_text(content.get("server") or NATIVE)
        name = f"{server}_{tool}"
        arguments = edn.plain(dict(content.get("arguments") or {}))
        self._calls.add(call_id)
        self._last_id = call_id
        self._answer(
            history.ToolCallPart(
                id=call_id,
                name=name,
                raw=json.dumps(arguments).decode(),
                arguments=arguments,
                server=server,
                tool=name if server == NATIVE else tool,
            )
        )

    def _result(self, content: Mapping[str, Any]) -> None:
        if content["id"] not in self._calls:
            self.skipped["tool_call_output"] += 1
            return
        self._calls.discard(content["id"])
        output = content.get("output") or {}
        result = history.ToolResultPart(
            call_id=content["id"],
            parts=_parts(output.get("contents")) or (history.TextPart("(no output)"),),
            is_error=content.get("error") is True or output.get("error") is True,
        )
        before = self.messages.pop() if self.messages[-1].role == "tool" else None
        results = (*(before.parts if before is not None else ()), result)
        self.messages.append(history.Message(role="tool", parts=results))


def _parts(content: Any) -> tuple[history.TextPart | history.ImagePart, ...]:
    if isinstance(content, str):
        return (history.TextPart(str(content)),) if content else ()
    parts: list[history.TextPart | history.ImagePart] = []
    for each in content or ():
        if each.get("type") == "text":
            if text := _must_be_text(each["text"]):
                parts.append(history.TextPart(text))
        elif each.get("type") == "image":
            kind, data = _must_be_text(each["media-type"]), _must_be_text(each["base64"])
            parts.append(
                history.ImagePart(media_type=kind, data=base64.b64decode(data, validate=True))
            )
    return tuple(parts)


def _must_be_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return str(value)
