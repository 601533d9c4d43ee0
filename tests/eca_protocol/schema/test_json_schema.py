"""The JSON Schema against two independent sources: the inventory, and `explain`."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.codec import Codec, Departure, explain
from eca_protocol.draft import DRAFT
from eca_protocol.endpoint import Table
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_protocol.schema import json_schema
from eca_protocol.testing import strategies
from eca_protocol.testing.requirements.interfaces import aliases_of, interfaces_of
from tests.eca_protocol.draft import letter
from tests.eca_protocol.messages.inventory import NAMED, spelled_fields
from tests.lazy import LazyModule

jsonschema = LazyModule("jsonschema", without="rfc3987_syntax")

LETTERED = [Revision.R2025_09, Revision.R2025_10, Revision.CURRENT]
UNIONS = {
    "ChatContent",
    "ChatContext",
    "RewriteContent",
    "ToolCallDetails",
    "ToolCallOutput",
    "ToolServerUpdatedParams",
}
BEYOND = {
    "EditorDiagnostic.code": {"number"},
    "ChatToolCallRejectedContent.reason": {"'user-choice'", "'user-config'"},
}
"""The alternatives that a ruling adds to those of the text (W-42, W-32)."""
OURS_IN_CURRENT = ("InitializationOptions.protocolRevision", "ChatUsageContent.messageCost")
"""Optional members of CURRENT that no text has (W-12, W-27)."""
WIDENED_BY = {"W-10", "W-11", "W-12", "W-20", "W-27", "W-30"}
"""The rulings by which a member is written in editions that do not have it."""

Types: TypeAlias = frozenset[Any]
"""The alternatives of a type; a list is `("[]", alternatives)`."""
Interface: TypeAlias = dict[str, tuple[bool, Types]]
"""By the member's name: True if it is required, and its type."""


@functools.cache
def document(revision: Revision) -> dict[str, Any]:
    return json_schema(revision)


@functools.cache
def validator(revision: Revision, name: str) -> Any:
    """Return the validator of one definition; without a name, of the document."""
    whole = document(revision)
    if not name:
        return jsonschema.Draft202012Validator(whole)
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": whole["$defs"]})


def types_in(schema: Mapping[str, Any]) -> Types:
    match schema:
        case {"$ref": str(reference)}:
            return frozenset({reference.removeprefix("#/$defs/")})
        case {"const": value}:
            return frozenset({f"'{value}'"})
        case {"enum": values}:
            return frozenset(f"'{value}'" for value in values)
        case {"oneOf": members}:
            return frozenset().union(*map(types_in, members))
        case {"type": "array", "items": items}:
            return frozenset({("[]", types_in(items))})
        case {"type": "object"}:
            return frozenset({"map"})
        case {"type": str(name)}:
            return frozenset({name.replace("integer", "number")})
        case {"type": list(names)}:
            return frozenset(name.replace("integer", "number") for name in names)
        case _:
            assert not schema.keys() - {"$comment"}
            return frozenset({"any"})


def interfaces_in(revision: Revision) -> Iterator[tuple[str, Interface]]:
    """Yield the schema's interfaces without the additions of rulings."""
    whole = document(revision)
    for name, schema in whole["$defs"].items():
        if name in UNIONS:
            yield name, {"": (True, types_in(schema))}
        elif name not in whole["x-methods"]:
            required = set(schema.get("required", ()))
            members = {
                key: (key in required, types_in(member))
                for key, member in schema["properties"].items()
                if "$comment" not in member
            }
            yield name, members
            assert required <= members.keys()


def inventory_types(type_: str, path: str, revision: Revision) -> Types:
    """Return the inventory's types, with aliases of strings resolved."""
    aliases = aliases_of(revision)
    actual: set[Any] = set()
    for alternative in (spelled.strip("*") for spelled in type_.split("|")):
        if alternative.endswith("[]"):
            actual.add(("[]", inventory_types(alternative.removesuffix("[]"), path, revision)))
        elif alternative in aliases and alternative not in UNIONS:
            actual |= inventory_types("|".join(aliases[alternative]), path, revision)
        else:
            name = path if alternative == "object" else alternative
            actual.add(NAMED.get(name, name).replace("integer", "number"))
    return frozenset(actual)


@pytest.mark.requirement("FIELD:*", "VALUE:*")
@pytest.mark.parametrize("revision", LETTERED)
def test_the_definitions_are_the_interfaces_of_the_edition(revision: Revision) -> None:
    expected: dict[str, Interface] = {}
    for interface, fields in interfaces_of(revision).items():
        expected[NAMED.get(interface, interface)] = {
            name: (required, inventory_types(type_, f"{interface}.{name}", revision))
            for name, required, type_ in spelled_fields(fields)
        }
    for alias in aliases_of(revision).keys() & UNIONS:
        alternatives = "|".join(aliases_of(revision)[alias])
        expected[alias] = {"": (True, inventory_types(alternatives, alias, revision))}
    actual = dict(interfaces_in(revision))
    for path, beyond in BEYOND.items():
        interface, _, name = path.partition(".")
        required, types = expected[interface][name]
        assert beyond & actual[interface][name][1]
        expected[interface][name] = (required, types | beyond)
    for path in OURS_IN_CURRENT if revision is Revision.CURRENT else ():
        interface, _, name = path.partition(".")
        expected[interface][name] = (False, frozenset({"string"}))
    outputs, items = expected["ChatToolCalledContent"]["outputs"], frozenset({"ToolCallOutput"})
    expected["ChatToolCalledContent"]["outputs"] = (outputs[0], frozenset({("[]", items)}))
    expected["ToolCallOutput"] = {"": (True, frozenset({"ToolCallTextOutput"}))}
    if revision < Revision.CURRENT:
        del actual["ProgressParams"]  # belongs to a method of W-11
    assert actual == expected


OUR_NAMES = {"CodeAssistant": "CodeAssistantCapabilities", "Lines": "LineRange"}


def draft_types(kind: Any) -> Types:
    if isinstance(kind, list):
        return frozenset({("[]", draft_types(kind[0]))})
    if isinstance(kind, tuple):
        return frozenset(f"'{value}'" for value in kind)
    return frozenset(
        OUR_NAMES.get(name, name) for name in kind.replace("integer", "number").split("|")
    )


def test_the_draft_s_definitions_are_its_letter_s() -> None:
    tags = {name: tag for union in letter.UNIONS for tag, name in letter.LETTER[union].items()}
    expected: dict[str, Interface] = {}
    for name, members in letter.LETTER.items():
        if name in letter.UNIONS:
            expected[name] = {"": (True, frozenset(members.values()))}
            continue
        interface = expected[OUR_NAMES.get(name, name)] = {}
        if name in tags:
            interface["type"] = (True, frozenset({f"'{tags[name]}'"}))
        for member, kind in members.items():
            required = not member.endswith("?")
            interface[member.removesuffix("?")] = (required, draft_types(kind))
    assert dict(interfaces_in(Revision.DRAFT)) == expected


Part: TypeAlias = Literal["params", "result"]


def table_of(revision: Revision) -> Table:
    return DRAFT if revision is Revision.DRAFT else ECA


def is_of_the_letter(departures: tuple[Departure, ...], part: str) -> bool:
    """Return True if the schema allows all departures, or a ruling does."""
    not_listed: list[str] = []
    for departure in departures:
        path = departure.path
        if departure.kind == "unknown key" or f"{path}.".startswith(tuple(not_listed)):
            continue
        is_member = departure.expected.startswith("nothing in") and not path.endswith(".type")
        if departure.kind != "other revision" or not (is_member or path == part):
            return False
        if is_member and departure.ruling not in WIDENED_BY:
            not_listed += [f"{path}.", f"{path}["]
    return True


@st.composite
def raw_messages(draw: st.DrawFn) -> tuple[Revision, str, Part, Any]:
    revision = draw(st.sampled_from(Revision))
    table = table_of(revision)
    rows = [row for row in table if row.window.written_in(revision)]
    row = draw(st.sampled_from([row for row in rows if row.params or row.result]))
    part: Part = draw(st.sampled_from(["params", "result"] if row.result else ["params"]))
    codec = Codec(table, revision)
    if part == "params":
        typed, encode = strategies.params, codec.encode_params
        noisy = strategies.raw_params(row.name, revision=revision, table=table)
    else:
        typed, encode = strategies.results, codec.encode_result
        noisy = strategies.raw_results(row.name, revision=revision, table=table)
    written = typed(row.name, revision=revision, unknown=False, table=table).map(
        functools.partial(encode, row.name)
    )
    return revision, row.name, part, draw(written | noisy | strategies.broken(written))


@given(message=raw_messages())
def test_what_validates_is_what_departs_from_no_letter(
    message: tuple[Revision, str, Part, Any],
) -> None:
    revision, method, part, raw = message
    schema = document(revision)["x-methods"][method][part]
    departures = explain(method, raw, revision, part=part, table=table_of(revision))
    is_valid = validator(revision, schema["$ref"].removeprefix("#/$defs/")).is_valid(raw)
    assert is_valid == is_of_the_letter(departures, part), departures


PROMPT = {"jsonrpc": "2.0", "id": 1, "method": "chat/prompt", "params": {"message": "hi"}}
TEXT = {"chatId": "1", "role": "system", "content": {"type": "text", "text": "hi"}}


@pytest.mark.parametrize(
    ("message", "is_valid"),
    [
        (PROMPT, True),
        ({**PROMPT, "id": "a"}, True),
        ({**PROMPT, "id": 1.5}, False),
        ({**PROMPT, "method": "chat/promp"}, False),
        ({**PROMPT, "params": {}}, False),
        ({key: PROMPT[key] for key in ("jsonrpc", "method", "params")}, False),
        ({"jsonrpc": "2.0", "id": 2, "method": "shutdown"}, True),
        ({"jsonrpc": "2.0", "method": "exit"}, True),
        ({"jsonrpc": "2.0", "method": "chat/contentReceived", "params": TEXT}, True),
        ({"jsonrpc": "2.0", "id": 3, "method": "chat/contentReceived", "params": TEXT}, False),
        ({"jsonrpc": "2.0", "method": "chat/deleted", "params": {"chatId": "1"}}, False),
        ({"method": "exit"}, False),
    ],
)
def test_the_document_describes_a_whole_message(message: Any, is_valid: bool) -> None:
    assert validator(Revision.R2025_10, "").is_valid(message) is is_valid


def test_it_is_a_schema_and_its_names_are_those_of_the_wire() -> None:
    jsonschema.Draft202012Validator.check_schema(document(Revision.R2025_10))
    for revision in Revision:
        for name, schema in document(revision)["$defs"].items():
            words = schema.get("description", "")
            assert not re.search(r"`\w+_\w+`|\bNone\b", words), (name, words)
            assert words or name in UNIONS


RECORDED = Path(__file__).parents[2] / "data" / "transcripts" / "real_job.jsonl"


def test_each_message_of_a_recorded_session_is_described() -> None:
    _, *entries = map(json.loads, RECORDED.read_text("utf-8").splitlines())
    methods = document(Revision.R2025_10)["x-methods"]
    requests: dict[tuple[str, int], str] = {}
    responses = 0
    for entry in entries:
        message, side = entry["message"], entry["from"]
        if "method" in message:
            validator(Revision.R2025_10, message["method"].replace("/", "~1")).validate(message)
            requests[side, message.get("id")] = message["method"]
            continue
        other = "server" if side == "client" else "client"
        result = methods[requests[other, message["id"]]]["result"]
        if "$ref" in result:
            name = result["$ref"].removeprefix("#/$defs/")
            validator(Revision.R2025_10, name).validate(message["result"])
            responses += 1
    assert responses > 2
