"""ECP's method table for a `Peer`, its dialect and codec, and the negotiation of versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from eca_protocol.ecp.messages import (
    InitializeParams,
    InitializeResult,
    Result,
    StepParams,
    read_initialize_params,
    read_initialize_result,
    read_reset_result,
    read_step_params,
    read_step_result,
    write_initialize_params,
    write_initialize_result,
    write_step_params,
    write_step_result,
)
from eca_protocol.endpoint import Dialect, Method, Table
from eca_protocol.errors import DecodeError, LocalProtocolError, RPCError

PROTOCOL_VERSION: Final = "1.0"
"""The newest supported version of the protocol."""

LEGACY_VERSION: Final = "0.1"
"""The version of an agent that names none."""

AGENT_FAILED: Final = -32000
"""The error code for a failure of the agent's code."""

VERSION_UNSUPPORTED: Final = -32001
"""The error code for a different major version."""


def _request(name: str, params: Any, result: Any) -> Method:
    return Method(
        name=name, kind="request", direction="client_to_server", types=lambda: (params, result)
    )


ECP: Final = Table(
    [
        _request("agent/initialize", InitializeParams, InitializeResult),
        _request("agent/step", StepParams, Result),
        _request("agent/reset", None, bool),
    ]
)

ECP_DIALECT: Final = Dialect()
"""The dialect of ECP: no cancellation message."""


def major_version(version: str) -> int:
    """Return the first number of a version."""
    return int(version.partition(".")[0])


def negotiate_version(offered: str | None) -> str:
    """Return the agent's answer to an evaluator's version.

    Raises:
        RPCError: -32001, the major version is different.
    """
    if offered is None:
        return PROTOCOL_VERSION
    if major_version(offered) != major_version(PROTOCOL_VERSION):
        raise RPCError(
            VERSION_UNSUPPORTED,
            f"protocol version {offered} is not supported: this agent speaks {PROTOCOL_VERSION}",
            {"supported": [PROTOCOL_VERSION]},
        )
    return min(offered, PROTOCOL_VERSION, key=lambda version: int(version.partition(".")[2]))


def _read_nothing(raw: Any) -> None:
    if raw is not None and not isinstance(raw, Mapping | list):
        raise DecodeError(path="params", expected="no params", got=type(raw).__name__)


_Read = Callable[[Any], Any]

_PARAMS: Final[Mapping[str, tuple[_Read, _Read]]] = {
    "agent/initialize": (read_initialize_params, write_initialize_params),
    "agent/step": (read_step_params, write_step_params),
    "agent/reset": (_read_nothing, lambda _: {}),
}
_RESULTS: Final[Mapping[str, tuple[_Read, _Read]]] = {
    "agent/initialize": (read_initialize_result, write_initialize_result),
    "agent/step": (read_step_result, write_step_result),
    "agent/reset": (read_reset_result, lambda _: True),
}


class ECPCodec:
    """A codec between raw JSON and ECP's models, with the interface of `codec.MessageCodec`."""

    def decode_params(self, method: str, raw: Any) -> Any:
        """Return the typed params of a request."""
        if isinstance(raw, list) and raw:
            raise DecodeError(path="params", expected="an object", got="an array")
        return _PARAMS[method][0](raw or None)

    def encode_params(self, method: str, params: Any) -> Any:
        """Return the raw params of a request."""
        if method not in _PARAMS:
            raise LocalProtocolError(f"the table has no method {method}")
        return _PARAMS[method][1](params)

    def decode_result(self, method: str, raw: Any) -> Any:
        """Return the typed result of a request."""
        return _RESULTS[method][0](raw)

    def encode_result(self, method: str, result: Any) -> Any:
        """Return the raw result of a request."""
        return _RESULTS[method][1](result)

    def incoming(self, method: str, raw: Any) -> Sequence[tuple[str, Any]]:
        """Return a raw notification as typed ones."""
        return ((method, self.decode_params(method, raw)),)

    def outgoing(self, method: str, params: Any) -> Sequence[tuple[str, Any]]:
        """Return a typed notification as raw ones."""
        return ((method, self.encode_params(method, params)),)


class _RawCodec(ECPCodec):
    """A codec that converts and checks nothing; for conformance checks."""

    def encode_params(self, method: str, params: Any) -> Any:
        return params

    def decode_result(self, method: str, raw: Any) -> Any:
        return raw


ECP_CODEC: Final = ECPCodec()
RAW_CODEC: Final = _RawCodec()
