"""JSON-RPC 2.0 messages as values, and the classification of decoded JSON values.

Rulings W-2 and W-3: ids are integers or strings and keep their JSON type; a success has a
`result` and no `error`; a notification has no `id`. Batches are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from eca_protocol import errors

__all__ = [
    "ErrorCode",
    "ErrorResponse",
    "Id",
    "Message",
    "Notification",
    "Request",
    "Response",
    "check_message",
    "classify",
    "error_response",
]

Id: TypeAlias = int | str


class ErrorCode:
    """The JSON-RPC error codes this protocol uses."""

    PARSE_ERROR = errors.PARSE_ERROR
    INVALID_REQUEST = errors.INVALID_REQUEST
    METHOD_NOT_FOUND = errors.METHOD_NOT_FOUND
    INVALID_PARAMS = errors.INVALID_PARAMS
    INTERNAL_ERROR = errors.INTERNAL_ERROR
    SERVER_NOT_INITIALIZED = errors.SERVER_NOT_INITIALIZED
    REQUEST_CANCELLED = errors.REQUEST_CANCELLED


@attrs.define(unsafe_hash=True)
class Request:
    """A call that gets exactly one answer."""

    id: Id
    method: str
    params: Any = None

    def to_json(self) -> dict[str, Any]:
        """Return the message as a JSON value; absent params are omitted."""
        message = {"jsonrpc": "2.0", "id": self.id, "method": self.method}
        if self.params is not None:
            message["params"] = self.params
        return message


@attrs.frozen
class Notification:
    """A call that gets no answer."""

    method: str
    params: Any = None

    def to_json(self) -> dict[str, Any]:
        """Return the message as a JSON value; absent params are omitted."""
        if self.params is None:
            return {"jsonrpc": "2.0", "method": self.method}
        return {"jsonrpc": "2.0", "method": self.method, "params": self.params}


@attrs.define(unsafe_hash=True)
class Response:
    """The success response to a request; `result` may be None and is always written."""

    id: Id
    result: Any = None

    def to_json(self) -> dict[str, Any]:
        """Return the message as a JSON value."""
        return {"jsonrpc": "2.0", "id": self.id, "result": self.result}


@attrs.frozen
class ErrorResponse:
    """The error response to a request; `id` is None if the request's id could not be read."""

    id: Id | None
    code: int
    message: str
    data: Any = None

    def to_json(self) -> dict[str, Any]:
        """Return the message as a JSON value; absent data are omitted."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return {"jsonrpc": "2.0", "id": self.id, "error": error}


Message: TypeAlias = Request | Notification | Response | ErrorResponse


def classify(value: Any) -> Message:
    """Return the JSON-RPC message in a decoded JSON value.

    Raises:
        RemoteProtocolError: see `check_message`.
    """
    if check_message(value):
        method, params = value["method"], value.get("params")
        return (
            Request(value["id"], method, params) if "id" in value else Notification(method, params)
        )
    if value.get("error") is not None:
        return error_response(value.get("id"), value["error"])
    return Response(value["id"], value["result"])


def check_message(value: Any) -> bool:
    """Check a decoded JSON value; return True for a call, False for an answer.

    A message with a `method` is a request if it has an `id`, otherwise a notification. A message
    without a `method` is a response. An `error` of null next to a `result` is read as a success. A
    non-integer error code is read as -32603, and the error's message may be absent (ruling W-60).

    Raises:
        RemoteProtocolError: the value is not a message of JSON-RPC 2.0. The error carries the code
            and the id of the reply. Without a readable method the id is null, because the
            message's id may belong to one of our calls.
    """
    if type(value) is not dict:
        raise errors.RemoteProtocolError(
            "batches are not supported: expected one object, got an array"
            if isinstance(value, list)
            else f"expected a JSON-RPC message object, got {_kind(value)}"
        )
    if "method" not in value:
        _check_answer(value)
        return False
    answer_to = None
    if "id" in value:
        answer_to = value["id"]
        if type(answer_to) is not int and type(answer_to) is not str:
            raise errors.RemoteProtocolError(
                f"id: expected an integer or a string, got {_kind(answer_to)}"
            )
    if value.get("jsonrpc") != "2.0":
        raise errors.RemoteProtocolError(
            f'jsonrpc: expected "2.0", got {_shown(value, "jsonrpc")}', request_id=answer_to
        )
    if type(value["method"]) is not str:
        raise errors.RemoteProtocolError(
            f"method: expected a string, got {_kind(value['method'])}", request_id=answer_to
        )
    params = value.get("params")
    if type(params) is not dict and params is not None and type(params) is not list:
        raise errors.RemoteProtocolError(
            f"params: expected an object, an array or null, got {_kind(params)}",
            request_id=answer_to,
        )
    return True


def _check_answer(value: Mapping[str, Any]) -> None:
    error = value.get("error")
    if error is None and "result" not in value:
        raise errors.RemoteProtocolError(
            "expected a method, a result or an error, got none of these keys"
        )
    if value.get("jsonrpc") != "2.0":
        raise errors.RemoteProtocolError(f'jsonrpc: expected "2.0", got {_shown(value, "jsonrpc")}')
    request_id = value.get("id")
    if type(request_id) is not int and type(request_id) is not str:
        if request_id is None and error is not None:
            return
        raise errors.RemoteProtocolError(
            f"id: expected the integer or string of a request, got {_kind(request_id)}"
        )


def error_response(request_id: Id | None, error: Any) -> ErrorResponse:
    """Read the `error` member of a response; a non-integer code moves to the data (W-60)."""
    if not isinstance(error, dict):
        return ErrorResponse(request_id, errors.INTERNAL_ERROR, _text_of(error), None)
    code = error.get("code")
    data = error.get("data")
    if type(code) is not int:
        data = data if code is None or data is not None else {"code": code}
        code = errors.INTERNAL_ERROR
    return ErrorResponse(request_id, code, _text_of(error.get("message")), data)


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else "the answer is an error without a message"


def _shown(value: Mapping[str, Any], key: str) -> str:
    if key not in value:
        return "nothing"
    shown = value[key]
    return f'"{shown[:40]}"' if isinstance(shown, str) else _kind(shown)


_KINDS = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), type(value).__name__)
