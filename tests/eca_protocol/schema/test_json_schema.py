"""The JSON Schema against the inventory and `explain`, and the TypeScript made of it."""

import functools
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.acp import ACP
from eca_protocol.codec import Codec, Departure, explain
from eca_protocol.draft import DRAFT
from eca_protocol.endpoint import Table
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_protocol.schema import json_schema, typescript
from eca_protocol.testing import strategies
from tests.eca_protocol.codec.test_inventory import REVISIONS, Inventory, Part
from tests.eca_protocol.messages.inventory import NAMED, spelled_fields
from tests.lazy import LazyModule
from tests.node import node, node_modules

jsonschema = LazyModule("jsonschema", without="rfc3987_syntax")

WIDENED_BY = {"W-10", "W-11", "W-12", "W-20", "W-27", "W-30"}
"""The rulings by which a member is written in editions that do not have it."""


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


@pytest.mark.long(but=1)
@pytest.mark.requirement("FIELD:*", "VALUE:*")
@pytest.mark.parametrize("revision", REVISIONS)
def test_samples_of_the_inventory_are_valid_unless_they_lack_a_required_member(revision):
    inventory = Inventory(revision)
    for interface, fields in inventory.interfaces.items():
        if interface == "ChatHistoryResponse":
            continue  # a sample holds all samples of contents, which are validated on their own
        check = validator(revision, NAMED.get(interface, interface)).is_valid
        full, *others = inventory.samples_of(interface)
        for raw in (full, *others):
            assert check(raw), (interface, raw)
        for name, required, _ in spelled_fields(fields):
            lacking = {key: value for key, value in full.items() if key != name}
            assert check(lacking) is not required, (interface, name)


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
def test_what_validates_is_what_departs_from_no_letter(message) -> None:
    revision, method, part, raw = message
    departures = explain(method, raw, revision, part=part, table=table_of(revision))
    reference = document(revision)["x-methods"][method][part]["$ref"]
    is_valid = validator(revision, reference.removeprefix("#/$defs/")).is_valid(raw)
    assert is_valid == is_of_the_letter(departures, part), departures


PROMPT = {"jsonrpc": "2.0", "id": 1, "method": "chat/prompt", "params": {"message": "hi"}}
TEXT = {"chatId": "1", "role": "system", "content": {"type": "text", "text": "hi"}}


@pytest.mark.parametrize(
    ("message", "expected"),
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
def test_the_document_describes_a_whole_message(message: Any, expected: bool) -> None:
    assert validator(Revision.R2025_10, "").is_valid(message) is expected


def test_it_is_a_schema_and_its_names_are_those_of_the_wire() -> None:
    jsonschema.Draft202012Validator.check_schema(document(Revision.R2025_10))
    for revision in Revision:
        for name, schema in document(revision)["$defs"].items():
            words = schema.get("description", "")
            assert not re.search(r"`\w+_\w+`|\bNone\b", words), (name, words)
            assert words or "oneOf" in schema


@pytest.mark.parametrize("table", [None, ACP], ids=["ECA", "ACP"])
@pytest.mark.parametrize("revision", Revision)
def test_generators_and_strict_validators_of_others_take_it(revision, table) -> None:
    schema = json_schema(revision, table)
    names = [message["$ref"].removeprefix("#/$defs/") for message in schema["oneOf"]]
    methods = [schema["$defs"][name]["properties"]["method"]["const"] for name in names]
    assert methods == list(schema["x-methods"])  # no two definitions have the same name
    assert all(name.isalnum() for name in schema["$defs"])  # a pointer needs no escapes
    for value in walk(schema):
        assert value is not False, "quicktype: Schema false is not supported"
        if isinstance(value, dict) and "$ref" not in value:
            is_union = isinstance(value.get("type"), list)
            assert not is_union, "ajv: use allowUnionTypes to allow union type keyword"
            if isinstance(required := value.get("required"), list):
                assert set(required) <= value["properties"].keys(), "ajv: strictRequired"


def walk(value: Any) -> Iterator[Any]:
    yield value
    children = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list):
        for child in children:
            yield from walk(child)


RECORDED = Path(__file__).parents[2] / "data" / "transcripts" / "real_job.jsonl"


def test_each_message_of_a_recorded_session_is_described() -> None:
    _, *entries = map(json.loads, RECORDED.read_text("utf-8").splitlines())
    methods = document(Revision.R2025_10)["x-methods"]
    requests: dict[tuple[str, int], str] = {}
    responses = 0
    for entry in entries:
        message, side = entry["message"], entry["from"]
        if "method" in message:
            name = methods[message["method"]]["message"]["$ref"].removeprefix("#/$defs/")
            validator(Revision.R2025_10, name).validate(message)
            requests[side, message.get("id")] = message["method"]
            continue
        other = "server" if side == "client" else "client"
        result = methods[requests[other, message["id"]]]["result"]
        if "$ref" in result:
            name = result["$ref"].removeprefix("#/$defs/")
            validator(Revision.R2025_10, name).validate(message["result"])
            responses += 1
    assert responses > 2


OPTIONS = {
    "exactOptionalPropertyTypes": True,
    "module": "es2022",
    "moduleResolution": "bundler",
    "noEmit": True,
    "strict": True,
    "target": "es2022",
    "types": [],
}
SAMPLE = Path(__file__).with_name("sample.ts")

EXCERPTS = [
    """
/** A root of the user's project, as a URI, and the name shown for it. */
export interface WorkspaceFolder {
  uri: string;
  name: string;
}
""",
    """
export interface InitializationOptions {
  chatBehavior?: "agent" | "plan";
  /** W-12: written although the edition's text does not have it. */
  protocolRevision?: string;
  [key: string]: unknown;
}
""",
    """
export interface InitializedParams {}
""",
    """
export type ToolServerUpdatedParams =
  | EcaServerUpdatedParams
  | MCPServerUpdatedParams;
""",
    """
  "shutdown": {
    kind: "request";
    direction: "client_to_server";
    result: null;
  };
""",
]


def test_it_has_a_type_for_each_definition_and_a_row_for_each_method() -> None:
    text = typescript(Revision.R2025_10)
    for excerpt in EXCERPTS:
        assert excerpt in text
    schema = json_schema(Revision.R2025_10)
    for name in schema["x-methods"]:
        assert f'\n  "{name}": {{\n' in text
    for name in schema["$defs"]:
        is_message = {"$ref": f"#/$defs/{name}"} in schema["oneOf"]
        assert (f" {name} {{" in text or f" {name} =\n" in text) is not is_message


@pytest.mark.long
def test_the_compiler_takes_it_and_refuses_what_the_protocol_does(tmp_path: Path) -> None:
    for revision in Revision:
        (tmp_path / f"{revision.value}.ts").write_text(typescript(revision), "utf-8")
    (tmp_path / "eca.ts").write_text(typescript(Revision.R2025_10), "utf-8")
    (tmp_path / "sample.ts").write_text(SAMPLE.read_text("utf-8"), "utf-8")
    settings = {"compilerOptions": OPTIONS, "include": ["*.ts"]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(settings), "utf-8")
    compiler = node_modules() / "typescript" / "lib" / "tsc.js"
    done = subprocess.run(
        [node(), str(compiler), "-p", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
