"""The codec of a connection: a method table and a revision, made into functions.

Its face lets one notification become none or several on its way in or out (an older edition may
say in two messages what a newer one says in one); requests and results stay one to one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

from eca_protocol.codec.converter import converter
from eca_protocol.codec.explain import explain_failure
from eca_protocol.codec.read import Mismatch, Read
from eca_protocol.codec.write import NotInRevision, Write
from eca_protocol.endpoint import Method, Table
from eca_protocol.errors import DecodeError, LocalProtocolError, RequestFailed
from eca_protocol.jsonrpc import error_response
from eca_protocol.revisions import Revision

__all__ = ["Codec", "MessageCodec"]


class MessageCodec(Protocol):
    """What a peer asks of a codec; `Codec` is the one for every revision but the draft."""

    def decode_params(self, method: str, raw: Any) -> Any:
        """The typed params of a request; see `Codec.decode_params`."""

    def encode_params(self, method: str, params: Any) -> Any:
        """The raw params of a request; see `Codec.encode_params`."""

    def decode_result(self, method: str, raw: Any) -> Any:
        """The typed result of a request; see `Codec.decode_result`."""

    def encode_result(self, method: str, result: Any) -> Any:
        """The raw result of a request; see `Codec.encode_result`."""

    def incoming(self, method: str, raw: Any) -> Sequence[tuple[str, Any]]:
        """One raw notification as typed ones; see `Codec.incoming`."""

    def outgoing(self, method: str, params: Any) -> Sequence[tuple[str, Any]]:
        """One typed notification as raw ones; see `Codec.outgoing`."""


class _ByMethod(dict[str, Any]):
    """One function for each method, made when it is first needed."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, method: str) -> Any:
        self[method] = made = self._make(method)
        return made


class Codec:
    """Models to JSON values and back, for the methods of one table in one revision."""

    __slots__ = (
        "_read_params",
        "_read_result",
        "_write_params",
        "_write_result",
        "revision",
        "table",
    )

    def __init__(self, table: Table, revision: Revision) -> None:
        self.table = table
        self.revision = revision
        self._read_params = _ByMethod(lambda name: self._reader(self._method(name).params))
        self._read_result = _ByMethod(lambda name: self._reader(self._method(name).result))
        self._write_params = _ByMethod(lambda name: self._params_writer(self._method(name)))
        self._write_result = _ByMethod(lambda name: self._writer(self._method(name).result))

    def __repr__(self) -> str:
        return f"Codec({self.revision})"

    def decode_params(self, method: str, raw: Any) -> Any:
        """The typed params of `method`; None for a method without params.

        Absent (None), null, `{}` and `[]` mean the same (W-3).

        Raises:
            DecodeError: they do not fit the method's type.
            LocalProtocolError: the table has no such method.
        """
        try:
            return self._read_params[method](raw or _empty(raw), None)
        except (Mismatch, KeyError):
            raise self._failure("params", method, raw) from None

    def decode_result(self, method: str, raw: Any) -> Any:
        """The typed result of `method`; None where the result says nothing.

        Raises:
            RequestFailed: an error stands where the result should be (W-60).
            DecodeError: it does not fit the method's type.
            LocalProtocolError: the table has no such method.
        """
        try:
            if isinstance(raw, dict) and ("error" in raw or "message" in raw):
                _raise_error_in(raw, method)
            return self._read_result[method](raw or _empty(raw), None)
        except (Mismatch, KeyError):
            raise self._failure("result", method, raw) from None

    def encode_params(self, method: str, params: Any) -> Any:
        """The raw params of `method`; None for a method without params.

        Raises:
            LocalProtocolError: the table has no such method, the revision does not know it or
                what is in it, or `params` is not of the method's type.
        """
        try:
            return self._write_params[method](params)
        except (NotInRevision, AttributeError, TypeError) as error:
            raise LocalProtocolError(f"{method}: {error}") from error

    def encode_result(self, method: str, result: Any) -> Any:
        """The raw result of `method`.

        A method that the revision does not know is answered all the same: the client asked.

        Raises:
            LocalProtocolError: as for `encode_params`.
        """
        try:
            return self._write_result[method](result)
        except (NotInRevision, AttributeError, TypeError) as error:
            raise LocalProtocolError(f"{method}: {error}") from error

    def incoming(self, method: str, raw: Any) -> Sequence[tuple[str, Any]]:
        """A raw notification as typed ones: pairs of method and params.

        Raises:
            DecodeError: it does not fit the method's type.
            LocalProtocolError: the table has no such method.
        """
        return ((method, self.decode_params(method, raw)),)

    def outgoing(self, method: str, params: Any) -> Sequence[tuple[str, Any]]:
        """A typed notification as raw ones: pairs of method and params.

        None at all where the revision does not know the method or what is in it.

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
        error = explain_failure(self._method(method), raw, self.revision, part)
        return error or DecodeError(path=part, expected="JSON values", got="something else")


def _empty(raw: Any) -> Any:
    """Of what is falsy: `{}` for what means "nothing is said"; the rest is a wrong type."""
    return {} if raw is None or raw == [] else raw


def _raise_error_in(raw: dict[str, Any], method: str) -> None:
    """Some servers' errors are results: `{error: {code, message}}` or `{type, message}`."""
    error = raw.get("error")
    if error is None and raw.keys() <= {"type", "message"}:
        error = raw if raw.get("type") in {"error", "warning", "info"} else None
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
