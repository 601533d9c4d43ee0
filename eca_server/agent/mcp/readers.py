"""Lenient readers of servers' messages from JSON.

Rule: an invalid part affects only itself. An invalid tool is left out of its list with a sentence;
content of an unknown kind becomes a text; an optional text of a wrong type counts as absent. Only
an answer without its one required part is an error.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

from eca_protocol import json
from eca_server.agent.mcp import messages as m
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.schemas import readable_schema
from eca_server.json_members import flag_in, text_in
from eca_server.models.attachments import IMAGE_TYPES, SIGNATURE_BYTES, media_type_of
from eca_server.models.history import ImagePart, TextPart
from eca_server.printable import printable_line, visible

_DATA_URL = re.compile(r"data:[^,]{0,200},")
_BLANK = re.compile(r"\s+")

MAX_INSTRUCTIONS: Final = 8192
MAX_DESCRIPTION: Final = 16_384
_MAX_LINE: Final = 500
_MAX_NAME: Final = 4096  # characters of a name or a URI; editors get them in each update
_SHOWN: Final = 80
_HUGE: Final = 1e300

T = TypeVar("T")


def decode_base64(raw: Any) -> bytes:
    """Decode Base64: also URL-safe, unpadded, folded, or behind `data:...,`.

    Return `b""` for another value.
    """
    if not isinstance(raw, str):
        return b""
    start = _DATA_URL.match(raw)
    text = _BLANK.sub("", raw[start.end() :] if start else raw)
    text = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


class _Unreadable(ValueError):
    """An item of a list without a required part."""


def _object(raw: Any) -> Mapping[str, Any]:
    return raw if isinstance(raw, dict) else {}


def _named(raw: Any, key: str) -> str:
    value = raw.get(key) if isinstance(raw, dict) else None
    if not isinstance(value, str) or not value:
        raise _Unreadable(f"expected an object with a {key}, got {shown(raw)}")
    if len(value) > _MAX_NAME:
        raise _Unreadable(f"expected a {key} of at most {_MAX_NAME} characters, got {shown(raw)}")
    return value


def _prose(raw: Mapping[str, Any], key: str, limit: int = MAX_DESCRIPTION) -> str:
    """Return a text for a model, without invisible characters and cut at a length."""
    text = visible(text_in(raw, key)).strip()
    if len(text) <= limit:
        return text
    return f"{text[:limit]}... (cut, {len(text) - limit} characters left out)"


def _line(raw: Mapping[str, Any], key: str) -> str:
    """Return a short text for people on one line, without invisible characters."""
    return visible(text_in(raw, key).replace("\n", " ").replace("\t", " "))


def _readable_name(raw: Any) -> str:
    """Return the required name of an item, for models and people."""
    _named(raw, "name")
    name = _line(raw, "name")
    if not name.strip():
        raise _Unreadable(f"expected a name with visible characters, got {shown(raw)}")
    return name


def _readable_uri(raw: Any, key: str) -> str:
    """Return the required URI of an item; by its grammar it has no invisible characters."""
    uri = _named(raw, key)
    if visible(uri) != uri:
        raise _Unreadable(f"expected a {key} without invisible characters, got {shown(raw)}")
    return uri


def shown(raw: Any) -> str:
    """Return a JSON value as one short line."""
    text = json.dumps(raw).decode()
    return printable_line(text, longest=_SHOWN)


def read_initialized(raw: Any) -> m.Initialized:
    """Read the answer to `initialize`.

    Raises:
        MCPError: the answer names no revision.
    """
    revision = _object(raw).get("protocolVersion")
    if not isinstance(revision, str):
        raise MCPError(f"initialize was answered without a protocolVersion: {shown(raw)}")
    return _introduction(raw, (revision,))


def read_discovered(raw: Any) -> m.Initialized:
    """Read the answer to `server/discover`.

    Raises:
        MCPError: the answer names no revisions.
    """
    offered = _object(raw).get("supportedVersions")
    if not isinstance(offered, list):
        raise MCPError(f"server/discover was answered without supportedVersions: {shown(raw)}")
    revisions = tuple(name for name in offered if isinstance(name, str))
    return _introduction(raw, revisions)


def _introduction(raw: Mapping[str, Any], revisions: tuple[str, ...]) -> m.Initialized:
    return m.Initialized(
        revisions=revisions,
        capabilities=_object(raw.get("capabilities")),
        instructions=_prose(raw, "instructions", MAX_INSTRUCTIONS),
    )


def read_input_required(raw: Any) -> m.InputRequired | None:
    """Read a stateless server's questions; return None if the result is complete.

    Raises:
        MCPError: the result is of an unknown kind.
    """
    kind = _object(raw).get("resultType")
    if kind is None or kind == "complete":
        return None
    if kind != "input_required":
        raise MCPError(f"the result is of an unknown kind: {shown(kind)}")
    return m.InputRequired(
        requests=_object(raw.get("inputRequests")), state=raw.get("requestState")
    )


def read_page(key: str, read_item: Callable[[Any], T]) -> Callable[[Any], m.Page[T]]:
    """Return a reader of pages whose items are under `key`."""

    def read(raw: Any) -> m.Page[T]:
        items, problems = [], []
        values = _object(raw).get(key)
        if values is not None and not isinstance(values, list):
            problems.append(f"{key}: expected an array, got {shown(values)}")
        for index, item in enumerate(values if isinstance(values, list) else ()):
            try:
                items.append(read_item(item))
            except _Unreadable as error:
                problems.append(f"{key}[{index}]: {error}")
        return m.Page(
            items=tuple(items),
            problems=tuple(problems),
            next_cursor=_object(raw).get("nextCursor"),
        )

    return read


def read_tool(raw: Any) -> m.MCPTool:
    """Read a tool of a list."""
    name = _readable_name(raw)
    schema = raw.get("inputSchema")
    if schema is not None and not isinstance(schema, dict):
        raise _Unreadable(f"{name}: inputSchema: expected an object, got {shown(schema)}")
    if _object(raw.get("execution")).get("taskSupport") == "required":
        raise _Unreadable(f"{name}: it requires task support, which we do not have")
    hints = _object(raw.get("annotations"))
    return m.MCPTool(
        name=name,
        wire_name=raw["name"],
        title=_prose(raw, "title", _MAX_LINE) or _prose(hints, "title", _MAX_LINE),
        description=_prose(raw, "description"),
        input_schema=readable_schema(schema or {}),
        hints=m.ToolHints(
            read_only=flag_in(hints, "readOnlyHint"),
            destructive=flag_in(hints, "destructiveHint"),
            open_world=flag_in(hints, "openWorldHint"),
        ),
    )


def read_tool_result(raw: Any) -> m.ToolResult:
    """Read the answer to `tools/call`; return an answer of an unknown shape as an error."""
    if not isinstance(raw, dict) or not {"content", "structuredContent"} & raw.keys():
        return m.ToolResult(content=(TextPart(_as_json(raw)),), is_error=True)
    content = raw.get("content")
    blocks = content if isinstance(content, list) else [] if content is None else [content]
    return m.ToolResult(
        content=tuple(_content(block) for block in blocks),
        structured=raw.get("structuredContent"),
        is_error=raw.get("isError") is True,
    )


def _as_json(raw: Any) -> str:
    return json.dumps(raw).decode()


def _content(raw: Any) -> m.Content:
    """Read a block; return a block of an unknown kind as a text with its JSON."""
    if isinstance(raw, str):
        return TextPart(raw)
    block = _object(raw)
    kind, uri = block.get("type"), text_in(block, "uri")
    if kind == "text" and "text" in block:
        text = block["text"]
        return TextPart(text if isinstance(text, str) else _as_json(text))
    if kind in ("image", "audio"):
        return _media(block, kind)
    if kind == "resource" and isinstance(block.get("resource"), dict):
        return _contents(block["resource"])
    if kind == "resource_link" and uri:
        description = _prose(block, "description")
        about = f": {description}" if description else ""
        return TextPart(f"Resource {_line(block, 'name') or uri} ({uri}){about}")
    return TextPart(_as_json(raw))


def _media(block: Mapping[str, Any], kind: Literal["image", "audio"]) -> m.Content:
    data, label = decode_base64(block.get("data")), text_in(block, "mimeType")
    if not data:
        return TextPart(f"({kind} that could not be read)")
    if kind == "image":
        return picture(data, label or "image/png")
    return TextPart(f"(a sound of {len(data)} bytes, {label or 'audio/wav'}, was left out)")


def picture(data: bytes, label: str) -> TextPart | ImagePart:
    """Return a picture of a supported type, else a note; its bytes decide, not its label."""
    media_type = media_type_of(data[:SIGNATURE_BYTES])
    if media_type in IMAGE_TYPES:
        return ImagePart(media_type=media_type, data=data)
    fault = "damaged" if label in IMAGE_TYPES else "a type that models do not accept"
    return TextPart(f"(a picture was left out: {len(data)} bytes, {label}, {fault})")


def _contents(raw: Mapping[str, Any]) -> m.ResourceContents:
    text, blob = raw.get("text"), decode_base64(raw.get("blob"))
    mime_type = text_in(raw, "mimeType")
    if not isinstance(text, str):
        text = _text_of(blob, mime_type) if blob else ""
    return m.ResourceContents(uri=text_in(raw, "uri"), mime_type=mime_type, text=text, blob=blob)


def _text_of(blob: bytes, mime_type: str) -> str | None:
    """Return the text of a blob that is labelled as text, as servers return files."""
    if not mime_type.startswith("text/") and not mime_type.endswith(("json", "xml", "yaml")):
        return None
    try:
        return blob.decode()
    except UnicodeDecodeError:
        return None


def read_contents(raw: Any) -> tuple[m.ResourceContents, ...]:
    """Read the answer to `resources/read`."""
    values = _object(raw).get("contents")
    items = values if isinstance(values, list) else [values]
    return tuple(_contents(item) for item in items if isinstance(item, dict))


def read_prompt(raw: Any) -> m.Prompt:
    """Read a prompt of a list."""
    name = _readable_name(raw)
    arguments = raw.get("arguments")
    return m.Prompt(
        name=name,
        wire_name=raw["name"],
        title=_prose(raw, "title", _MAX_LINE),
        description=_prose(raw, "description"),
        arguments=tuple(
            m.PromptArgument(
                name=_line(argument, "name"),
                wire_name=text_in(argument, "name"),
                description=_prose(argument, "description"),
                required=argument.get("required") is True,
            )
            for argument in (arguments if isinstance(arguments, list) else ())
            if isinstance(argument, dict) and _line(argument, "name").strip()
        ),
    )


def read_prompt_result(raw: Any) -> tuple[m.PromptMessage, ...]:
    """Read the answer to `prompts/get`."""
    messages = _object(raw).get("messages")
    if not isinstance(messages, list):
        raise MCPError(f"prompts/get was answered without messages: {shown(raw)}")
    read = []
    for message in messages:
        content = _object(message).get("content")
        role: Literal["user", "assistant"] = (
            "assistant" if _object(message).get("role") == "assistant" else "user"
        )
        blocks = content if isinstance(content, list) else [content]
        read += [m.PromptMessage(role=role, content=_content(block)) for block in blocks]
    return tuple(read)


def read_resource(raw: Any, key: str = "uri") -> m.Resource:
    """Read a resource of a list, or a template with its URI under this key."""
    uri = _readable_uri(raw, key)
    return m.Resource(
        uri=uri,
        name=_line(raw, "name")[:_MAX_LINE] or uri,
        title=_prose(raw, "title", _MAX_LINE),
        description=_prose(raw, "description"),
        mime_type=_line(raw, "mimeType")[:_MAX_LINE],
    )


def read_template(raw: Any) -> m.Resource:
    """Read a template of a list."""
    return read_resource(raw, "uriTemplate")


def read_updated(raw: Any) -> str:
    """Read the URI of a changed resource; return "" if it is missing."""
    return text_in(_object(raw), "uri")


def read_progress(raw: Any) -> m.Progress | None:
    """Read a progress; return None without a valid token and number."""
    token, progress = _object(raw).get("progressToken"), _number(raw, "progress")
    if isinstance(token, bool) or not isinstance(token, int | str) or progress is None:
        return None
    message = _prose(raw, "message", _MAX_LINE)
    return m.Progress(token=token, progress=progress, total=_number(raw, "total"), message=message)


def _number(raw: Any, key: str) -> float | None:
    value = _object(raw).get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _HUGE else None


def read_log_message(raw: Any) -> m.LogMessage:
    """Read a log message."""
    raw = _object(raw)
    data = raw.get("data")
    return m.LogMessage(
        level=text_in(raw, "level") or "info",
        text=data if isinstance(data, str) else _as_json(data),
    )
