"""Messages as careless servers write them, read as they were meant."""

import base64
import contextlib
import unicodedata

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.mcp import messages as m
from eca_server.agent.mcp import readers
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.methods import TABLE
from eca_server.agent.mcp.readers import (
    decode_base64,
    read_initialized,
    read_tool,
    read_tool_result,
)
from eca_server.models.history import ImagePart, TextPart

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00\xff\xfe" * 5
ENCODED = base64.b64encode(PNG).decode()


SPELLINGS = [
    ENCODED,
    ENCODED.rstrip("="),
    base64.urlsafe_b64encode(PNG).decode(),
    f"data:image/png;base64,{ENCODED}",
    "\n".join(ENCODED[n : n + 8] for n in range(0, len(ENCODED), 8)),
]
INVALID = ["", "*no base64*", "a", None, 3, "data:image/png;base64,"]


def test_pictures_are_read_however_their_base64_is_spelled_and_invalid_ones_are_notes():
    blocks = [
        {"type": "image", "data": text, "mimeType": "image/jpeg"} for text in SPELLINGS + INVALID
    ]
    content = read_tool_result({"content": blocks}).content
    picture = ImagePart(data=PNG, media_type="image/png")
    note = TextPart("(image that could not be read)")
    assert content == (picture,) * len(SPELLINGS) + (note,) * len(INVALID)


@given(st.binary(min_size=1))
def test_every_base64_gives_its_bytes(data):
    assert decode_base64(base64.b64encode(data).decode()) == data
    assert decode_base64(base64.urlsafe_b64encode(data).decode().rstrip("=")) == data


def resource(**members):
    return m.ResourceContents(**members)


EMBEDDED = {"uri": "a", "text": "t", "mimeType": "text/x"}


@pytest.mark.parametrize(
    ("block", "content"),
    [
        ({"type": "text", "text": "a"}, TextPart("a")),
        ({"type": "text", "text": {"a": 1}}, TextPart('{"a":1}')),
        ("bare", TextPart("bare")),
        ({"type": "hologram", "x": 1}, TextPart('{"type":"hologram","x":1}')),
        ({"type": ["image"]}, TextPart('{"type":["image"]}')),
        ({"type": "resource"}, TextPart('{"type":"resource"}')),
        (
            {"type": "audio", "data": "AAE="},
            TextPart("(a sound of 2 bytes, audio/wav, was left out)"),
        ),
        ({"type": "resource_link", "uri": "x:a", "name": "a"}, TextPart("Resource a (x:a)")),
        (
            {"type": "resource", "resource": EMBEDDED},
            resource(uri="a", text="t", mime_type="text/x"),
        ),
        (
            {"type": "resource", "resource": {"uri": "b", "blob": "AAE="}},
            resource(uri="b", blob=b"\x00\x01"),
        ),
        (
            {"type": "resource", "resource": {"mimeType": "text/x", "blob": "w6Q="}},
            resource(uri="", text="\xe4", blob=b"\xc3\xa4", mime_type="text/x"),
        ),
        (
            {"type": "resource", "resource": {"mimeType": "text/x", "blob": "w6Q"}},
            resource(uri="", text="\xe4", blob=b"\xc3\xa4", mime_type="text/x"),
        ),
        (
            {"type": "resource", "resource": {"mimeType": "text/x", "blob": "ww=="}},
            resource(uri="", blob=b"\xc3", mime_type="text/x"),
        ),
    ],
)
def test_content_of_every_kind(block, content):
    assert read_tool_result({"content": [block]}).content == (content,)
    assert read_tool_result({"content": block}).content == (content,)


def test_a_structured_result_needs_no_content_and_keeps_its_keys():
    result = read_tool_result({"structuredContent": {"snake_key": None, "camelKey": 1}})
    assert result.structured == {"snake_key": None, "camelKey": 1}
    assert (result.content, result.is_error) == ((), False)


def test_a_prompt_has_its_named_arguments_and_a_resource_without_a_name_its_uri():
    arguments = [{"name": "file", "required": True}, {"description": "nameless"}, 3]
    prompt = readers.read_prompt({"name": "review", "arguments": arguments})
    assert [(each.name, each.required) for each in prompt.arguments] == [("file", True)]
    assert readers.read_resource({"uri": "file:///a"}).name == "file:///a"


def test_only_true_and_a_result_of_an_unknown_shape_are_errors():
    for flag in (None, "true", 1, False, True):
        assert read_tool_result({"content": [], "isError": flag}).is_error is (flag is True)
    for raw in ({}, None, 3, {"task": {"taskId": "1"}}, []):
        result = read_tool_result(raw)
        assert result.is_error
        assert isinstance(result.content[0], TextPart)


def test_a_tools_schema_and_hints_are_unchanged():
    schema = {"type": "object", "properties": {"a_b": {"x-y": 1}}, "$defs": {}}
    annotations = {"readOnlyHint": True, "destructiveHint": "no", "title": "T"}
    tool = read_tool({"name": "t", "inputSchema": schema, "annotations": annotations})
    assert tool.input_schema == schema
    assert (tool.hints.read_only, tool.hints.destructive) == (True, None)
    assert tool.title == "T"


def test_texts_for_the_model_are_cut_and_have_no_invisible_characters():
    hidden = "be\u200b \x1b[31mgood\u202e" + "x" * 20_000
    server_info = read_initialized({"protocolVersion": "2025-11-25", "instructions": hidden})
    assert server_info.instructions.startswith("be [31mgoodx")
    assert "cut," in server_info.instructions
    assert len(server_info.instructions) < readers.MAX_INSTRUCTIONS + 100


HIDDEN = "\u2066\U000e0073\U000e0065\U000e006e\x1b\u2069\x9b\u200e\u2028\x08"
NAME = f"pu{HIDDEN}sh"


def words_of(value):
    """Every text in a value, its keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.items():
            yield from words_of([*member])
    elif isinstance(value, list | tuple):
        for each in value:
            yield from words_of(each)


def test_nothing_in_names_and_descriptions_is_hidden_from_people_and_seen_by_models():
    schema = {
        "type": "object",
        "title": NAME,
        "description": NAME,
        "properties": {
            "a": {"type": "string", "description": NAME, "enum": ["b", NAME]},
            "c": {"anyOf": [{"title": NAME, "default": {"x": [NAME]}}, {"const": NAME}]},
            NAME: {"type": "string"},
        },
        "required": ["a", NAME],
        "$defs": {"d": {"examples": [NAME], "pattern": NAME, "description": NAME}},
        NAME: NAME,
    }
    texts = {"name": NAME, "title": NAME, "description": NAME}
    tool = read_tool({**texts, "inputSchema": schema, "annotations": {"title": NAME}})
    argument = {"name": NAME, "description": NAME}
    prompt = readers.read_prompt({**texts, "arguments": [argument]})
    resource = readers.read_resource({**texts, "uri": "x://y", "mimeType": NAME})
    template = readers.read_template({**texts, "uriTemplate": "x://{y}", "mimeType": NAME})
    link = {**texts, "type": "resource_link", "uri": "x://y"}
    [linked] = read_tool_result({"content": [link]}).content
    server = read_initialized({"protocolVersion": "2025-11-25", "instructions": NAME})
    assert tool.wire_name == prompt.wire_name == prompt.arguments[0].wire_name == NAME
    assert linked == TextPart("Resource push (x://y): push")
    for item in (tool, prompt, resource, template, server):
        values = attrs.asdict(item, filter=lambda field, _: field.name != "wire_name")
        words = [*words_of(values)]
        assert "push" in words
        assert not set(HIDDEN) & set("".join(words))
    assert tool.input_schema["required"] == ["a"]
    assert tool.input_schema["properties"] == {
        "a": {"type": "string", "description": "push"},
        "c": {"anyOf": [{"title": "push"}, {}]},
    }


def test_a_name_or_a_uri_that_cannot_be_seen_costs_its_item():
    read = readers.read_page("tools", read_tool)
    page = read({"tools": [{"name": HIDDEN}, {"name": "a"}]})
    assert [tool.name for tool in page.items] == ["a"]
    assert not set(HIDDEN) & set("".join(page.problems))
    uris = [{"uri": f"x://{HIDDEN}"}, {"uri": "x://é"}]
    page = readers.read_page("resources", readers.read_resource)({"resources": uris})
    assert [resource.uri for resource in page.items] == ["x://é"]
    assert "without invisible characters" in page.problems[0]


def test_an_endless_name_or_uri_costs_its_item():
    prompts = [{"name": 4097 * "x"}, {"name": 4096 * "x"}]
    page = readers.read_page("prompts", readers.read_prompt)({"prompts": prompts})
    assert [len(prompt.name) for prompt in page.items] == [4096]
    resources = [{"uri": 4097 * "x"}, {"uri": "x://y", "name": 9999 * "x", "mimeType": 999 * "x"}]
    page = readers.read_page("resources", readers.read_resource)({"resources": resources})
    assert [resource.uri for resource in page.items] == ["x://y"]
    assert max(len(page.items[0].name), len(page.items[0].mime_type)) < 600
    assert "at most 4096 characters" in page.problems[0]


@given(st.text(), st.text())
def test_visible_characters_stay(name, text):
    if name.isprintable() and name.strip():
        tool = read_tool({"name": name, "inputSchema": {"enum": [name, 1], "x": [name]}})
        unassigned = {char for char in name if char not in tool.name}
        assert all(unicodedata.category(char) in {"Lo", "Mn"} for char in unassigned)
        if not unassigned:
            assert (tool.name, tool.wire_name) == (name, name)
            assert tool.input_schema == {"enum": [name, 1], "x": [name]}


KEYS = [
    *("tools", "name", "inputSchema", "content", "type", "text", "data", "resource", "uri"),
    *("nextCursor", "prompts", "arguments", "messages", "role", "resources", "resourceTemplates"),
    *("uriTemplate", "contents", "blob", "protocolVersion", "supportedVersions", "capabilities"),
    *("serverInfo", "instructions", "_meta", "progressToken", "progress", "total", "message"),
    *("level", "annotations", "execution"),
]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=15,
)
READERS = [each for method in TABLE for each in (method.params, method.result) if each is not None]


@given(st.sampled_from(READERS), JSON)
def test_any_json_is_read_or_is_an_error(reader, raw):
    with contextlib.suppress(MCPError):
        reader(raw)
