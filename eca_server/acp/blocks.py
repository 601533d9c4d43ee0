"""The blocks of an ACP prompt as a message with contexts, and MCP servers as configuration."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from eca_protocol import messages as eca
from eca_protocol.acp import messages as acp
from eca_protocol.errors import RPCError
from eca_protocol.jsonrpc import ErrorCode
from eca_protocol.server.roots import path_of

_CONTINUES: Final = re.compile(r"[\s,;!?)]|[.:](?!\w)")


def message_of(blocks: Iterable[acp.ContentBlock]) -> tuple[str, tuple[eca.ChatContext, ...]]:
    """Return the text of a prompt and its contexts.

    Raises:
        RPCError: -32602, a block is of a kind that `initialize` did not announce.
    """
    texts: list[acp.TextContent | str] = []
    contexts: list[eca.ChatContext] = []
    for block in blocks:
        match block:
            case acp.TextContent():
                texts.append(block)
            case acp.ImageContent():
                contexts.append(eca.ImageContext(media_type=block.mime_type, base64=block.data))
            case acp.ResourceLink():
                texts.append(f"@{block.name}")
                contexts.append(_linked(block.uri))
            case acp.EmbeddedResource(resource=resource) if resource.text is not None:
                texts.append(f"@{resource.uri}")
                contexts.append(eca.TextContext(label=resource.uri, content=resource.text))
            case _:
                kind = getattr(block, "type", None)
                raise RPCError(
                    ErrorCode.INVALID_PARAMS, f"prompt: a block of type {kind!r} is not supported"
                )
    return "".join(_separated(texts)), tuple(contexts)


def _separated(texts: list[acp.TextContent | str]) -> Iterable[str]:
    """Yield the texts of blocks and the names of resources, with separators.

    A blank line separates two texts, as they are messages or contexts; a space separates a name.
    Punctuation continues a sentence that the client has split.
    """
    last, last_is_name = "", False
    for each in texts:
        text, is_name = (each, True) if isinstance(each, str) else (each.text, False)
        if last and text and not last[-1].isspace() and not _CONTINUES.match(text):
            yield " " if is_name or last_is_name else "\n\n"
        yield text
        if text:
            last, last_is_name = text, is_name


def _linked(uri: str) -> eca.ChatContext:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return eca.TextContext(label=uri, content=uri)
    if parts.scheme in {"http", "https"}:
        return eca.WebContext(url=uri)
    try:
        path = path_of(f"{parts.scheme}://{parts.netloc}{parts.path}")  # a fragment names a line
        path.encode()
    except ValueError:  # also bytes that are not UTF-8
        return eca.TextContext(label=uri, content=uri)
    if os.path.isdir(path):  # noqa: PTH112 (pathlib raises for a path that cannot be looked up)
        return eca.DirectoryContext(path=path)
    return eca.FileContext(path=path)


def mcp_configuration(servers: Iterable[acp.McpServer]) -> Mapping[str, Any]:
    """Return the `mcpServers` of the server's configuration.

    Raises:
        RPCError: -32602, a server has neither a command nor a URL.
    """
    return {server.name: _mcp_server(server) for server in servers}


def _mcp_server(server: acp.McpServer) -> dict[str, Any]:
    if server.url is not None:
        return {
            "url": server.url,
            "headers": {header.name: header.value for header in server.headers or ()},
        }
    if server.command is None:
        raise RPCError(
            ErrorCode.INVALID_PARAMS, f"mcpServers: {server.name} has neither command nor url"
        )
    return {
        "command": server.command,
        "args": list(server.args or ()),
        "env": {variable.name: variable.value for variable in server.env or ()},
    }
