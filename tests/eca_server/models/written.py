"""Requests as each API's backend writes them, without a server."""

import base64
import json
from typing import Any

import attrs

from eca_server.models.backend import Request
from eca_server.models.encoding import encoded
from eca_server.models.history import Message
from eca_server.models.http_backend import HTTPBackend
from tests.eca_server.models.histories import PICTURE
from tests.eca_server.models.reading import backend_of

HISTORY = {
    "openai-chat": "messages",
    "openai-responses": "input",
    "anthropic": "messages",
    "google": "contents",
    "ollama": "messages",
}
"""The field of a request that holds the history."""

PICTURE_DATA = base64.b64encode(PICTURE.data).decode()


def payload_of(backend: HTTPBackend, request: Request) -> dict[str, Any]:
    return json.loads(encoded(backend.payload(request)))


def write(api: str, *history: Message, **options: Any) -> dict[str, Any]:
    """Return the request of a history; `options` are fields of it, too."""
    names = attrs.fields_dict(Request)
    fields = {name: options.pop(name) for name in names if name in options}
    return payload_of(backend_of(api, **options), Request(messages=history, **fields))


def write_history(api: str, *history: Message, **options: Any) -> list[dict[str, Any]]:
    """Return the history of a request, without marks for a cache."""
    written = write(api, *history, **options)[HISTORY[api]]
    for message in written:
        for block in message["content"] if api == "anthropic" else ():
            block.pop("cache_control", None)
    return written
