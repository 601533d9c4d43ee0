"""The codec of a connection: a method table and a revision, made into functions.

Its face lets one notification become none or several on its way in or out (an older edition may
say in two messages what a newer one says in one); requests and results stay one to one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import attrs

from eca_protocol.codec.explain import explain_failure
from eca_protocol.codec.read import Mismatch, Read, reader
from eca_protocol.codec.write import NotWritten, Write, writer
from eca_protocol.endpoint import Method, Table
from eca_protocol.errors import LocalProtocolError
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


@attrs.frozen
class Codec:
    """Models to JSON values and back, for the methods of one table in one revision."""

    table: Table
    revision: Revision
    _reads: dict[tuple[str, str], Read | None] = attrs.field(
        init=False, factory=dict, eq=False, repr=False
    )
    _writes: dict[tuple[str, str], Callable[[Any], Any]] = attrs.field(
        init=False, factory=dict, eq=False, repr=False
    )

    def decode_params(self, method: str, raw: Any) -> Any:
        """The typed params of `method`; None for a method without params.

        Absent (None), null, `{}` and `[]` mean the same (W-3).

        Raises:
            DecodeError: they do not fit the method's type.
            LocalProtocolError: the table has no such method.
        """
        return self._decode("params", method, raw)

    def decode_result(self, method: str, raw: Any) -> Any:
        """The typed result of `method`; None where the result says nothing.

        Raises:
            DecodeError: it does not fit the method's type.
            LocalProtocolError: the table has no such method.
        """
        return self._decode("result", method, raw)

    def encode_params(self, method: str, params: Any) -> Any:
        """The raw params of `method`; None for a method without params.

        Raises:
            LocalProtocolError: the table has no such method, the revision does not know it or
                what is in it, or `params` is not of the method's type.
        """
        try:
            return self._write("params", method)(params)
        except NotWritten as error:
            raise LocalProtocolError(f"{method}: {error}") from None

    def encode_result(self, method: str, result: Any) -> Any:
        """The raw result of `method`.

        Raises:
            LocalProtocolError: as for `encode_params`.
        """
        try:
            return self._write("result", method)(result)
        except NotWritten as error:
            raise LocalProtocolError(f"{method}: {error}") from None

    def incoming(self, method: str, raw: Any) -> Sequence[tuple[str, Any]]:
        """A raw notification as typed ones: pairs of method and params.

        Raises:
            DecodeError: it does not fit the method's type.
            LocalProtocolError: the table has no such method.
        """
        return ((method, self._decode("params", method, raw)),)

    def outgoing(self, method: str, params: Any) -> Sequence[tuple[str, Any]]:
        """A typed notification as raw ones: pairs of method and params.

        None at all where the revision does not know the method or what is in it.

        Raises:
            LocalProtocolError: the table has no such method, or `params` is not of its type.
        """
        try:
            return ((method, self._write("params", method)(params)),)
        except NotWritten:
            return ()

    def _decode(self, part: Literal["params", "result"], method: str, raw: Any) -> Any:
        try:
            read = self._reads[part, method]
        except KeyError:
            read = self._reads[part, method] = _read_message(self._hint(part, method))
        if read is None:
            return None
        if not raw and (raw is None or raw == []):
            raw = {}
        try:
            return read(raw, None)
        except (Mismatch, KeyError):
            failure = explain_failure(self.table[method], raw, part)
            if failure is None:
                raise
            raise failure from None

    def _write(self, part: Literal["params", "result"], method: str) -> Callable[[Any], Any]:
        try:
            return self._writes[part, method]
        except KeyError:
            hint = self._hint(part, method)
            window = self._method(method).window
            if not window.written_in(self.revision):
                write = _write_nothing(method, self.revision)
            else:
                write = _write_message(method, hint, self.revision)
            self._writes[part, method] = write
            return write

    def _hint(self, part: Literal["params", "result"], method: str) -> Any:
        row = self._method(method)
        return row.params if part == "params" else row.result

    def _method(self, name: str) -> Method:
        method = self.table.get(name)
        if method is None:
            raise LocalProtocolError(f"the table has no method {name}")
        return method


def _read_message(hint: Any) -> Read | None:
    return None if hint is None else reader(hint)


def _write_nothing(method: str, revision: Revision) -> Write:
    def write(_: Any) -> Any:
        raise NotWritten(f"{method} does not exist in revision {revision.value}")

    return write


def _write_message(method: str, hint: Any, revision: Revision) -> Write:
    if hint is None:
        return _write_none(method)
    write_value = writer(hint, revision)
    cls = hint if isinstance(hint, type) else None

    def write(value: Any) -> Any:
        if cls is not None and value.__class__ is not cls:
            raise LocalProtocolError(
                f"{method}: expected {cls.__name__}, got {type(value).__name__}"
            )
        try:
            return write_value(value)
        except (AttributeError, TypeError) as error:
            raise LocalProtocolError(f"{method}: cannot write {value!r}: {error}") from error

    return write


def _write_none(method: str) -> Write:
    def write(value: Any) -> None:
        if value is not None:
            raise LocalProtocolError(f"{method}: expected None, got {type(value).__name__}")

    return write
