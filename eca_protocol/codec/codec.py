"""The codec of a connection, for a method table and a revision.

Its interface lets one notification become none or several in either direction, since an older
edition may need two messages for one of a newer edition. Requests and results stay one to one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

from eca_protocol.codec.converter import converter
from eca_protocol.codec.read import Mismatch, Read
from eca_protocol.codec.write import NotInRevision, Write
from eca_protocol.endpoint import Method, Table
from eca_protocol.errors import DecodeError, LocalProtocolError, RequestFailed
from eca_protocol.jsonrpc import error_response
from eca_protocol.revisions import Revision


class MessageCodec(Protocol):
    """The codec interface of a peer; `Codec` implements every revision but the draft."""

    def decode_params(self, method: str, raw: Any) -> Any:
        """Return the typed params of a request; see `Codec.decode_params`."""

    def encode_params(self, method: str, params: Any) -> Any:
        """Return the raw params of a request; see `Codec.encode_params`."""

    def decode_result(self, method: str, raw: Any) -> Any:
        """Return the typed result of a request; see `Codec.decode_result`."""

    def encode_result(self, method: str, result: Any) -> Any:
        """Return the raw result of a request; see `Codec.encode_result`."""

    def incoming(self, method: str, raw: Any) -> Sequence[tuple[str, Any]]:
        """Return a raw notification as typed ones; see `Codec.incoming`."""

    def outgoing(self, method: str, params: Any) -> Sequence[tuple[str, Any]]:
        """Return a typed notification as raw ones; see `Codec.outgoing`."""


class _ByMethod(dict[str, Any]):
    """One function per method, made at its first use."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, method: str) -> Any:
        self[method] = function = self._make(method)
        return function


def check_revision(revision: object) -> None:
    """Refuse an option that is neither a revision nor None.

    Raises:
        LocalProtocolError: it is neither.
    """
    if revision is not None and not isinstance(revision, Revision):
        raise LocalProtocolError(
            f"revision: expected a Revision, such as Revision.R2025_10, got {revision!r}"
        )


class Codec:
    """The conversion of models to JSON values and back, for one table and one revision."""

    __slots__ = (
        "_read_params",
        "_read_result",
        "_write_params",
        "_write_result",
        "revision",
        "table",
    )

    def __init__(self, table: Table, revision: Revision) -> None:
        check_revision(revision)
        self.table: Table = table
        self.revision: Revision = revision
        self._read_params = _ByMethod(lambda name: self._reader(self._method(name).params))
        self._read_result = _ByMethod(lambda name: self._reader(self._method(name).result))
        self._write_params = _ByMethod(lambda name: self._params_writer(self._method(name)))
        self._write_result = _ByMethod(lambda name: self._writer(self._method(name).result))

    def __repr__(self) -> str:
        return f"Codec({self.revision})"

    def decode_params(self, method: str, raw: Any) -> Any:
        """Return the typed params of `method`; None for a method without params.

        Absent (None), null, `{}` and `[]` mean the same (W-3).

        Raises:
            DecodeError: the params do not fit the method's type.
            LocalProtocolError: the table has no such method.
        """
        try:
            return self._read_params[method](raw or _empty(raw), None)
        except (Mismatch, KeyError):
            raise self._failure("params", method, raw) from None

    def decode_result(self, method: str, raw: Any) -> Any:
        """Return the typed result of `method`; None for a method without a result.

        Raises:
            RequestFailed: the result contains an error (W-60).
            DecodeError: the result does not fit the method's type.
            LocalProtocolError: the table has no such method.
        """
        try:
            if isinstance(raw, dict) and ("error" in raw or "message" in raw):
                _raise_error_in(raw, method)
            return self._read_result[method](raw or _empty(raw), None)
        except (Mismatch, KeyError):
            raise self._failure("result", method, raw) from None

    def encode_params(self, method: str, params: Any) -> Any:
        """Return the raw params of `method`; None for a method without params.

        Raises:
            LocalProtocolError: the table has no such method, the revision does not know it or its
                content, or `params` is not of the method's type.
        """
        try:
            return self._write_params[method](params)
        except (NotInRevision, AttributeError, TypeError) as error:
            raise LocalProtocolError(f"{method}: {error}") from error

    def encode_result(self, method: str, result: Any) -> Any:
        """Return the raw result of `method`, even if the revision does not know the method.

        Raises:
            LocalProtocolError: the table has no such method, the revision does not know the
                result's content, or `result` is not of the method's type.
        """
        try:
            return self._write_result[method](result)
        except (NotInRevision, AttributeError, TypeError) as error:
            raise LocalProtocolError(f"{method}: {error}") from error

    def incoming(self, method: str, raw: Any) -> Sequence[tuple[str, Any]]:
        """Return a raw notification as typed ones: pairs of method and params.

        Raises:
            DecodeError: the params do not fit the method's type.
            LocalProtocolError: the table has no such method.
        """
        return ((method, self.decode_params(method, raw)),)

    def outgoing(self, method: str, params: Any) -> Sequence[tuple[str, Any]]:
        """Return a typed notification as raw ones: pairs of method and params.

        The result is empty if the revision does not know the method or its content.

        Raises:
            LocalProtocolError: the table has no such method, or `params` is not of its type.
        """
        try:
            return ((method, self._write_params[method](params)),)
        except NotInRevision:
            return ()
        except (AttributeError, TypeError) as error:
            raise LocalProtocolError(f"{method}: {error}") from error

    def _method(self, name: str) -> Method:
        method = self.table.get(name)
        if method is None:
            raise LocalProtocolError(f"the table has no method {name}")
        return method

    def _reader(self, hint: Any) -> Read:
        return _read_nothing if hint is None else converter(self.revision).get_structure_hook(hint)

    def _params_writer(self, method: Method) -> Write:
        if method.window.written_in(self.revision):
            return self._writer(method.params)
        return functools.partial(_refuse_method, self.revision)

    def _writer(self, hint: Any) -> Write:
        return (
            _write_nothing if hint is None else converter(self.revision).get_unstructure_hook(hint)
        )

    def _failure(self, part: Literal["params", "result"], method: str, raw: Any) -> DecodeError:
        from eca_protocol.codec.departures import explain_failure  # noqa: PLC0415 - after an error

        error = explain_failure(self._method(method), raw, self.revision, part)
        return error or DecodeError(path=part, expected="JSON values", got="something else")


def _empty(raw: Any) -> Any:
    """Return `{}` for null and `[]`, which mean the same (W-3); leave other values as they are."""
    return {} if raw is None or raw == [] else raw


def _raise_error_in(raw: dict[str, Any], method: str) -> None:
    """Raise the error in a result: `{error: {code, message}}` or `{type, message}` (W-60)."""
    error = raw.get("error")
    if error is None and raw.keys() <= {"type", "message"}:
        error = raw if raw.get("type") in ("error", "warning", "info") else None
    if isinstance(error, dict):
        failure = error_response(None, error)
        raise RequestFailed(failure.code, failure.message, failure.data, method=method)


def _read_nothing(_: Any, __: Any) -> None:
    return None


def _write_nothing(value: Any) -> None:
    if value is not None:
        raise TypeError(f"expected None, got a {type(value).__name__}")


def _refuse_method(revision: Revision, _: Any) -> Any:
    raise NotInRevision(f"revision {revision.value} has no such method")
