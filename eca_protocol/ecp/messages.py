"""The message models of ECP, validated on creation.

An author who makes one gets a TypeError or ValueError that names the field; JSON from the wire is
read into the same models, and the same error becomes a `DecodeError`. No type is converted.
`private_thought`, the deprecated name of `evaluation_context`, is handled in this module only:
either is read, both are written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar

import attrs

from eca_protocol.errors import DecodeError

StepStatus: TypeAlias = Literal["done", "paused"]

_NOTHING: Final = object()
"""The value of an absent member, which no field accepts."""

_VERSION: Final = re.compile(r"(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})")  # two canonical integers
_ModelT = TypeVar("_ModelT")


def _shown(value: Any) -> str:
    if value is None or value is _NOTHING:
        return "null" if value is None else "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "an array"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _wrong(path: str, expected: str, value: Any, *, kind: type[Exception] = TypeError) -> Exception:
    return kind(f"{path}: expected {expected}, got {_shown(value)}")


def _expects(
    expected: str, accepts: Callable[[Any], object], *, kind: type[Exception] = TypeError
) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    """Return a validator; its error names the field and the expected value."""

    def validate(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not accepts(value):
            raise _wrong(attribute.name, expected, value, kind=kind)

    return validate


_text = _expects("a string", lambda value: isinstance(value, str))
_text_or_none = _expects("a string or null", lambda value: isinstance(value, str | None))
_non_empty = _expects("a string that is not empty", lambda value: value and isinstance(value, str))
_object = _expects("an object", lambda value: isinstance(value, Mapping))
_status = _expects('"done" or "paused"', lambda value: value in ("done", "paused"), kind=ValueError)
_version = _expects(
    'a version like "1.0"',
    lambda value: value is None or (isinstance(value, str) and _VERSION.fullmatch(value)),
    kind=ValueError,
)
_count = [
    _expects(
        "an integer or null",
        lambda value: isinstance(value, int | None) and not isinstance(value, bool),
    ),
    _expects("an integer not below zero", lambda value: not (value or 0) < 0, kind=ValueError),
]


@attrs.frozen(kw_only=True)
class ToolCall:
    """A tool call of the agent, with its arguments.

    `extra` holds the call's unknown members, which are written unchanged.
    """

    name: str = attrs.field(validator=_non_empty)
    arguments: Mapping[str, Any] = attrs.field(factory=dict, validator=_object)
    extra: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Usage:
    """Tokens spent by a step. An unknown count is None, which is not zero."""

    input_tokens: int | None = attrs.field(default=None, validator=_count)
    output_tokens: int | None = attrs.field(default=None, validator=_count)
    total_tokens: int | None = attrs.field(default=None, validator=_count)
    extra: Mapping[str, Any] = attrs.field(factory=dict)


def _parts(value: Any, path: str, names: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    if not isinstance(value, Mapping):
        raise _wrong(path, "an object", value)
    known = {name: value[name] for name in names if name in value}
    return known, {key: item for key, item in value.items() if key not in known}


def _under(path: str, make: Callable[[], _ModelT]) -> _ModelT:
    """Make a model; prefix the path in its error with `path`."""
    try:
        return make()
    except (TypeError, ValueError) as error:
        raise type(error)(f"{path}.{error}") from None


def _tool_call(value: Any, path: str) -> ToolCall:
    if isinstance(value, ToolCall):
        return value
    known, extra = _parts(value, path, ("name", "arguments"))
    return _under(path, lambda: ToolCall(**{"name": _NOTHING, **known}, extra=extra))


def _tool_calls(value: Any) -> tuple[ToolCall, ...] | None:
    if value is None:
        return None
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise _wrong("tool_calls", "an array or null", value)
    return tuple(_tool_call(call, f"tool_calls[{index}]") for index, call in enumerate(value))


def _usage(value: Any) -> Usage | None:
    if value is None or isinstance(value, Usage):
        return value
    known, extra = _parts(value, "usage", ("input_tokens", "output_tokens", "total_tokens"))
    return _under("usage", lambda: Usage(**known, extra=extra))


@attrs.frozen(kw_only=True)
class Result:
    """The result of an agent's step (`agent/step`).

    Attributes:
        status: `done` or `paused`; the protocol gives `paused` no meaning, and both are graded
            alike.
        public_output: the text for a user.
        evaluation_context: further text for the evaluator: reasons and decisions, never secrets.
        tool_calls: the tool calls, in order; mappings become `ToolCall`s. None means unknown, an
            empty list means no calls.
        logs: log messages for readers of the report.
        usage: the tokens spent; a mapping becomes a `Usage`.
        private_thought: the deprecated name of `evaluation_context`; counts if that is None. Both
            are equal afterwards.

    Raises:
        TypeError, ValueError: a field has a wrong type or value; the message names it.
    """

    status: StepStatus = attrs.field(default="done", validator=_status)
    public_output: str | None = attrs.field(default=None, validator=_text_or_none)
    evaluation_context: str | None = attrs.field(default=None, validator=_text_or_none)
    tool_calls: tuple[ToolCall, ...] | None = attrs.field(default=None, converter=_tool_calls)
    logs: str | None = attrs.field(default=None, validator=_text_or_none)
    usage: Usage | None = attrs.field(default=None, converter=_usage)
    private_thought: str | None = attrs.field(
        default=None, validator=_text_or_none, eq=False, repr=False
    )

    def __attrs_post_init__(self) -> None:
        """Set both names of the context to the same value."""
        context = self.evaluation_context
        if context is None:
            context = self.private_thought
        object.__setattr__(self, "evaluation_context", context)
        object.__setattr__(self, "private_thought", context)


@attrs.frozen(kw_only=True)
class InitializeParams:
    """The params of `agent/initialize`, which starts a conversation."""

    protocol_version: str | None = attrs.field(default=None, validator=_version)
    config: Mapping[str, Any] = attrs.field(factory=dict, validator=_object)


@attrs.frozen(kw_only=True)
class InitializeResult:
    """The result of `agent/initialize`. No version means a protocol older than versions."""

    name: str = attrs.field(validator=_non_empty)
    capabilities: Mapping[str, Any] = attrs.field(validator=_object)
    protocol_version: str | None = attrs.field(default=None, validator=_version)


@attrs.frozen(kw_only=True)
class StepParams:
    """The params of `agent/step`."""

    input: str = attrs.field(validator=_text)


def _read(path: str, raw: Any, model: type[_ModelT], *required: str) -> _ModelT:
    """Read an object; null means the same as an absent member, unless the member is required."""
    if not isinstance(raw, Mapping):
        raise DecodeError(path=path, expected="an object", got=_shown(raw))
    names = {field.name for field in attrs.fields(model)}  # type: ignore[arg-type]  # of attrs
    values = {name: raw[name] for name in names & raw.keys() if raw[name] is not None}
    try:
        return model(**values, **{n: raw.get(n, _NOTHING) for n in required if n not in values})
    except (TypeError, ValueError) as error:
        where, _, rest = str(error).partition(": expected ")
        expected, _, got = rest.rpartition(", got ")
        raise DecodeError(path=f"{path}.{where}", expected=expected, got=got) from None


def read_initialize_params(raw: Any) -> InitializeParams:
    """Read the params of `agent/initialize`; null and an absent member mean the default.

    Raises:
        DecodeError: a member is of the wrong type.
    """
    return _read("params", {} if raw is None else raw, InitializeParams)


def read_initialize_result(raw: Any) -> InitializeResult:
    """Read the result of `agent/initialize`.

    Raises:
        DecodeError: a member is absent or of the wrong type.
    """
    result = _read("result", raw, InitializeResult, "name", "capabilities")
    if "protocol_version" in raw and result.protocol_version is None:
        raise DecodeError(
            path="result.protocol_version", expected='a version like "1.0"', got="null"
        )
    return result


def read_step_params(raw: Any) -> StepParams:
    """Read the params of `agent/step`.

    Raises:
        DecodeError: the input is absent or not a string.
    """
    return _read("params", {} if raw is None else raw, StepParams, "input")


def read_step_result(raw: Any) -> Result:
    """Read the result of `agent/step`.

    Raises:
        DecodeError: a member is of the wrong type; the path names it.
    """
    calls = raw.get("tool_calls") if isinstance(raw, Mapping) else None
    if calls is not None and not isinstance(calls, list):
        raise DecodeError(path="result.tool_calls", expected="an array or null", got=_shown(calls))
    return _read("result", raw, Result, "status")


def read_reset_result(raw: Any) -> None:
    """Read the result of `agent/reset`, which is `true`.

    Raises:
        DecodeError: the result is not `true`.
    """
    if raw is not True:
        raise DecodeError(path="result", expected="true", got=_shown(raw))


def write_initialize_params(params: InitializeParams) -> dict[str, Any]:
    """Return the params as JSON, without an unknown version."""
    version = params.protocol_version
    written: dict[str, Any] = {} if version is None else {"protocol_version": version}
    return written | {"config": dict(params.config)}


def write_initialize_result(result: InitializeResult) -> dict[str, Any]:
    """Return the result as JSON, without an unknown version."""
    written: dict[str, Any] = {"name": result.name, "capabilities": dict(result.capabilities)}
    if result.protocol_version is not None:
        written["protocol_version"] = result.protocol_version
    return written


def write_step_params(params: StepParams) -> dict[str, Any]:
    """Return the params as JSON."""
    return {"input": params.input}


def write_step_result(result: Result) -> dict[str, Any]:
    """Return the result as JSON: the four fields of every version, the alias, and known others."""
    calls = result.tool_calls
    written: dict[str, Any] = {
        "status": result.status,
        "public_output": result.public_output,
        "evaluation_context": result.evaluation_context,
        "private_thought": result.private_thought,
        "tool_calls": None if calls is None else [write_tool_call(call) for call in calls],
    }
    if result.logs is not None:
        written["logs"] = result.logs
    if result.usage is not None:
        counted = attrs.asdict(result.usage, recurse=False)
        extra = counted.pop("extra")
        known = {name: count for name, count in counted.items() if count is not None}
        written["usage"] = known | dict(extra)
    return written


def write_tool_call(call: ToolCall) -> dict[str, Any]:
    """Return the call as JSON, with its extra members."""
    return {"name": call.name, "arguments": dict(call.arguments), **call.extra}
