"""A chat in the format of upstream's `/export` (its version 1), and as Markdown.

Rules: the user's data stays as it is, except for keys, which are hidden; data that only one
provider understands is left out.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from eca_protocol import json
from eca_server.agent.chat.exchange.edn import Keyword
from eca_server.agent.chat.flags import Flag
from eca_server.client.content_formatting import NATIVE
from eca_server.models import history

VERSION: Final = 1
COMPACTED: Final = "The conversation was compacted/summarized, consider this summary:\n"
"""The text before the summary in upstream's message for a compacted conversation."""

Hide: TypeAlias = Callable[[str], str]
"""A function that hides keys in a text."""

Entry: TypeAlias = dict[Keyword, Any]

_PICTURE: Final = Keyword("base64")


def envelope(
    messages: Sequence[history.Message],
    about: Mapping[str, Any],
    *,
    version: str,
    exported_at: int,
    flags: Mapping[str, Flag],
    hide: Hide,
) -> Entry:
    """Return a chat as an entry of EDN.

    Args:
        messages: its history.
        about: its other values, by upstream's names.
        version: the version of this server.
        exported_at: milliseconds since the epoch.
        flags: the user's flags, by their content ids.
        hide: hides keys in every text.
    """
    names = {part.id: part for part in history.parts_in(messages, history.ToolCallPart)}
    entries = [
        _hidden(entry, hide) for message in messages for entry in _entries(message, names, flags)
    ]
    chat = {Keyword(name): value for name, value in about.items() if value is not None}
    return _map(
        **{"eca/version": version, "eca/export-version": VERSION, "exported-at": exported_at},
        chat={**_hidden(chat, hide), Keyword("messages"): entries},
    )


def _map(**members: Any) -> Entry:
    return {Keyword(name): value for name, value in members.items()}


def _hidden(value: Any, hide: Hide) -> Any:
    match value:
        case Keyword():
            return value
        case str():
            return hide(value)
        case Mapping():
            return {
                key: held if key is _PICTURE else _hidden(held, hide) for key, held in value.items()
            }
        case list() | tuple():
            return [_hidden(each, hide) for each in value]
        case _:
            return value


def _entries(
    message: history.Message, calls: Mapping[str, history.ToolCallPart], flags: Mapping[str, Flag]
) -> Iterator[Entry]:
    contents: list[Entry] = []
    for part in message.parts:
        match part:
            case history.CompactionPart(summary):
                yield _map(role="compact_marker", content={Keyword("auto?"): False})
                contents.append(_content(history.TextPart(COMPACTED + summary)))
            case history.TextPart() | history.ImagePart() | history.FilePart():
                contents.append(_content(part))
            case history.RefusalPart(text):
                contents.append(_content(history.TextPart(text)))
            case history.ReasoningPart(text=text) if text:
                yield _map(role="reason", content=_map(id=part.id or str(uuid.uuid4()), text=text))
                yield from _flags_after(part.id, flags)
            case history.ToolCallPart():
                if contents:
                    yield _map(role="assistant", content=contents)
                    contents = []
                yield _map(role="tool_call", content=_call(part))
            case history.ToolResultPart() if part.call_id in calls:
                output = _map(error=part.is_error, contents=[_content(each) for each in part.parts])
                content = {**_call(calls[part.call_id]), Keyword("output"): output}
                content[Keyword("error")] = part.is_error
                yield _map(role="tool_call_output", content=content)
                yield from _flags_after(part.call_id, flags)
    if contents:
        entry = _map(role=message.role, content=contents)
        if message.content_id is not None:
            entry[Keyword("content-id")] = message.content_id
        yield entry
    yield from _flags_after(message.content_id, flags)


def _flags_after(content_id: str | None, flags: Mapping[str, Flag]) -> Iterator[Entry]:
    for name, flag in flags.items():
        if flag.after == content_id:
            yield {**_map(role="flag", content=_map(text=flag.text)), Keyword("content-id"): name}


def _content(part: history.TextPart | history.ImagePart | history.FilePart) -> Entry:
    match part:
        case history.TextPart(text):
            return _map(type=Keyword("text"), text=text)
        case history.ImagePart(media_type=media_type, data=data):
            encoded = base64.b64encode(data).decode()
            return {**_map(type=Keyword("image"), **{"media-type": media_type}), _PICTURE: encoded}
        case history.FilePart(name=name, media_type=media_type):
            return _map(type=Keyword("text"), text=f"[file {name}, {media_type}]")


def _call(part: history.ToolCallPart) -> Entry:
    server, name = part.server or NATIVE, part.tool or part.name
    if server == NATIVE:
        name = name.removeprefix(f"{NATIVE}_")
    return _map(
        id=part.id,
        name=name,
        server=server,
        origin=Keyword("native" if server == NATIVE else "mcp"),
        arguments=part.arguments or {},
        **{"full-name": f"{server}__{name}"},
    )


def markdown(messages: Sequence[history.Message], title: str, *, hide: Hide) -> str:
    """Return a chat as Markdown, for people."""
    blocks = [f"# {' '.join(title.split())}"]
    for message in messages:
        if message.interrupted and message.role == "user" and message.shown is not None:
            blocks.append(message.shown)
        elif message.role != "tool":
            blocks.append(f"## {message.role.capitalize()}")
        blocks += filter(None, map(_block, message.parts))
    return "\n\n".join(map(hide, blocks)) + "\n"


def _block(part: Any) -> str:
    match part:
        case history.CompactionPart(summary):
            block = f"*The chat was compacted here.*\n\n{summary}"
        case history.TextPart(text) | history.RefusalPart(text):
            block = text.strip("\n")
        case history.ReasoningPart(text=text):
            block = "\n".join(f"> {line}".rstrip() for line in text.splitlines())
        case history.ToolCallPart(name=name, server=server, tool=tool, arguments=arguments):
            called = f"{server}/{tool}" if server else name
            block = f"**Called `{called}`**\n\n{_fenced(json.dumps(arguments or {}).decode())}"
        case history.ToolResultPart(parts=parts, is_error=is_error):
            outputs = (
                _fenced(each.text) if isinstance(each, history.TextPart) else _block(each)
                for each in parts
            )
            block = "\n\n".join(["**Failed:**" if is_error else "**Result:**", *outputs])
        case (
            history.ImagePart(media_type=kind, data=data)
            | history.FilePart(media_type=kind, data=data)
        ):
            block = f"*[{kind}, {len(data)} bytes]*"
        case _:
            block = ""
    return block


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
