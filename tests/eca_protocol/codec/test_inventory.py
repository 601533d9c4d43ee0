"""The codec against the requirements' inventory, which was made without a look at the models.

From the inventory alone each method gets samples: every optional member there and away, every
literal, every alternative of a union. Each must be read without a departure and come back as
it was; with one required member taken away, at whatever depth, it must be a departure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from eca_protocol.codec import Codec, explain
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_protocol.testing.requirements.interfaces import ALIASES, INTERFACES

pytestmark = pytest.mark.requirement("FIELD:*", "VALUE:*")

Part = Literal["params", "result"]

MESSAGES: dict[tuple[str, Part], str] = {
    ("initialize", "params"): "InitializeParams",
    ("initialize", "result"): "InitializeResponse",
    ("initialized", "params"): "InitializedParams",
    ("chat/prompt", "params"): "ChatPromptParams",
    ("chat/prompt", "result"): "ChatPromptResponse",
    ("chat/contentReceived", "params"): "ChatContentReceivedParams",
    ("chat/toolCallApprove", "params"): "ChatToolCallApproveParams",
    ("chat/toolCallReject", "params"): "ChatToolCallRejectParams",
    ("chat/queryContext", "params"): "ChatQueryContextParams",
    ("chat/queryContext", "result"): "ChatQueryContextResponse",
    ("chat/queryCommands", "params"): "ChatQueryCommandsParams",
    ("chat/queryCommands", "result"): "ChatQueryCommandsResponse",
    ("chat/promptStop", "params"): "ChatPromptStopParams",
    ("chat/delete", "params"): "ChatDeleteParams",
    ("chat/delete", "result"): "ChatDeleteResponse",
    ("chat/selectedBehaviorChanged", "params"): "ChatSelectedBehaviorChanged",
    ("editor/getDiagnostics", "params"): "EditorGetDiagnosticsParams",
    ("editor/getDiagnostics", "result"): "EditorGetDiagnosticsResponse",
    ("config/updated", "params"): "ConfigUpdatedParams",
    ("tool/serverUpdated", "params"): "ToolServerUpdatedParams",
    ("mcp/stopServer", "params"): "MCPStopServerParams",
    ("mcp/startServer", "params"): "MCPStartServerParams",
    ("$/showMessage", "params"): "ShowMessageParams",
}
WITHOUT_PARAMS = {"shutdown", "exit"}
OURS = {"$/progress", "chat/selectedAgentChanged"}
SCALARS: dict[str, Any] = {
    "string": "é",
    "number": 3,
    "integer": 4,
    "boolean": False,
    "null": None,
    "map": {"some key": [1, None, {"an-other": "x"}]},
    "any": {"type": "object", "properties": {"snake_case": {}}},
}
"""One value of each built-in type; inside the last two every key is the user's own."""

EMPTY_IS_ABSENT = {"ChatPromptParams.contexts"}
"""Optional arrays that are left out when empty: no contexts and none given are the same (W-3)."""


def values_of(type_: str, path: str) -> Iterator[Any]:
    """JSON values of a type as the inventory spells it, at least one per alternative."""
    for spelled in type_.split("|"):
        alternative = spelled.strip("*")
        if alternative.endswith("[]"):
            items = list(values_of(alternative.removesuffix("[]"), path))
            yield items
            if path not in EMPTY_IS_ABSENT:
                yield []
        elif alternative.startswith("'"):
            yield alternative.strip("'")
        elif alternative in ALIASES:
            yield from values_of("|".join(ALIASES[alternative]), path)
        elif alternative in SCALARS:
            yield SCALARS[alternative]
        else:
            yield from samples_of(path if alternative == "object" else alternative)


def fields_of(interface: str) -> Iterator[tuple[str, bool, str]]:
    for spelled in INTERFACES[interface]:
        match = re.fullmatch(r"\*?(\w+)(\??):(.+)", spelled)
        assert match
        yield match[1], not match[2], match[3]


def samples_of(interface: str) -> Iterator[dict[str, Any]]:
    """A full one, one with nothing optional, and one per further value of each field."""
    choices = {
        name: list(values_of(type_, f"{interface}.{name}"))
        for name, _, type_ in fields_of(interface)
    }
    full = {name: values[0] for name, values in choices.items()}
    yield full
    yield {name: full[name] for name, required, _ in fields_of(interface) if required}
    for name, values in choices.items():
        for value in values[1:]:
            yield {**full, name: value}


def lacking(type_: str, path: str) -> Iterator[tuple[str, Any]]:
    """Values of a type that lack one required member, and that member's name."""
    for spelled in type_.split("|"):
        alternative = spelled.strip("*")
        if alternative.endswith("[]"):
            for name, item in lacking(alternative.removesuffix("[]"), path):
                yield name, [item]
        elif alternative in ALIASES:
            yield from lacking("|".join(ALIASES[alternative]), path)
        elif alternative == "object" or alternative in INTERFACES:
            interface = path if alternative == "object" else alternative
            full = next(samples_of(interface))
            for name, required, field_type in fields_of(interface):
                if required:
                    yield name, {key: value for key, value in full.items() if key != name}
                for inner, value in lacking(field_type, f"{interface}.{name}"):
                    yield inner, {**full, name: value}


def reached_from(type_: str, path: str) -> Iterator[str]:
    for spelled in type_.split("|"):
        alternative = spelled.strip("*").removesuffix("[]")
        if alternative in ALIASES:
            yield alternative
            yield from reached_from("|".join(ALIASES[alternative]), path)
        elif alternative == "object" or alternative in INTERFACES:
            interface = path if alternative == "object" else alternative
            yield interface
            for name, _, field_type in fields_of(interface):
                yield from reached_from(field_type, f"{interface}.{name}")


def decode_and_encode(method: str, part: Part, raw: Any) -> Any:
    codec = Codec(ECA, Revision.R2025_10)
    if part == "params":
        return codec.encode_params(method, codec.decode_params(method, raw))
    return codec.encode_result(method, codec.decode_result(method, raw))


def test_the_messages_are_those_of_the_method_table() -> None:
    assert {method for method, _ in MESSAGES} | WITHOUT_PARAMS | OURS == {row.name for row in ECA}
    for method, part in MESSAGES:
        assert getattr(ECA[method], part) is not None


def test_every_interface_and_alias_is_reached_from_a_message() -> None:
    reached = {name for root in MESSAGES.values() for name in reached_from(root, root)}
    assert reached == INTERFACES.keys() | ALIASES.keys()


@pytest.mark.requirement("CTX-8")
@pytest.mark.parametrize(("method", "part"), MESSAGES)
def test_every_field_and_value_is_read_and_written_as_it_came(method: str, part: Part) -> None:
    for raw in values_of(MESSAGES[method, part], MESSAGES[method, part]):
        assert decode_and_encode(method, part, raw) == raw
        assert explain(method, raw, Revision.R2025_10, part=part) == ()


@pytest.mark.parametrize(("method", "part"), MESSAGES)
def test_a_required_member_that_is_missing_is_a_departure(method: str, part: Part) -> None:
    for name, raw in lacking(MESSAGES[method, part], MESSAGES[method, part]):
        departures = explain(method, raw, Revision.R2025_10, part=part)
        assert any(departure.path.endswith(f".{name}") for departure in departures), (name, raw)
