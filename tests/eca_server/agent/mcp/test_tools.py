"""The tools of MCP servers for a model: their names, their calls and their results."""

import base64
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol import json
from eca_server.agent.mcp import messages as m
from eca_server.agent.mcp.names import MAX_LENGTH, tool_names
from eca_server.agent.mcp.readers import read_tool_result
from eca_server.agent.mcp.tools import MAX_PICTURES, CallTool, ServerTool, output_of
from eca_server.agent.tools.output import Cap
from eca_server.models.attachments import MAX_IMAGE_BYTES
from eca_server.models.history import ImagePart, TextPart

CAP = Cap(lines=100, size=1_000)
PNG = ImagePart(data=b"\x89PNG\r\n\x1a\n", media_type="image/png")
JPEG = b"\xff\xd8\xffa picture"


async def answer(name: str, arguments: Mapping[str, Any]) -> m.ToolResult:
    return m.ToolResult(content=(TextPart(f"{name} {sorted(arguments.items())}"),))


def tool(call: CallTool = answer, **members: Any) -> ServerTool:
    return ServerTool("git", m.MCPTool(**{"name": "log", **members}), call, CAP)


def texts(result: m.ToolResult, cap: Cap = CAP) -> list[str]:
    parts = output_of(result, cap).parts
    return [part.text for part in parts if isinstance(part, TextPart)]


async def test_a_call_reaches_the_server_under_its_own_names():
    schema = {"properties": {"a b": {"type": "string"}}}
    prepared = await tool(input_schema=schema).prepare({"a_b": "x"})
    assert prepared.summary == "Calling 'log' (MCP server 'git')"
    output = await prepared.run()
    assert output.parts == (TextPart("log [('a b', 'x')]"),)
    assert not output.is_error
    prepared = await tool(wire_name="l\u2066og").prepare({})
    assert prepared.summary == "Calling 'log' (MCP server 'git')"
    assert (await prepared.run()).parts == (TextPart("l\u2066og []"),)


def test_a_tool_always_has_a_description_of_bounded_length():
    assert tool(description="Shows it.").description == "Shows it."
    assert tool(title="The log").description == "The log"
    assert tool().description == "The tool log of git."
    assert len(tool(description="x" * 10_000).description) < 4_200


@pytest.mark.parametrize(
    ("hints", "effect", "warns"),
    [
        (m.ToolHints(), "run", False),
        (m.ToolHints(read_only=True), "run", False),
        (m.ToolHints(read_only=True, destructive=False, open_world=True), "run", False),
        (m.ToolHints(read_only=False), "write", False),
        (m.ToolHints(destructive=True), "write", True),
        (m.ToolHints(read_only=True, destructive=True), "run", True),
        (m.ToolHints(open_world=True), "run", True),
    ],
)
async def test_a_servers_hints_can_only_tighten_approvals(hints, effect, warns):
    made = tool(hints=hints)
    assert made.effect == effect
    assert ((await made.prepare({})).warning is not None) is warns


def test_every_kind_of_content_becomes_something_a_model_can_read():
    def embedded(uri: str, **members: Any) -> dict[str, Any]:
        return {"type": "resource", "resource": {"uri": uri, **members}}

    def media(kind: str, data: bytes, label: str) -> dict[str, Any]:
        return {"type": kind, "data": base64.b64encode(data).decode(), "mimeType": label}

    def blob(data: bytes) -> str:
        return base64.b64encode(data).decode()

    contents = [
        {"type": "text", "text": "one"},
        media("image", PNG.data, "image/png"),
        media("audio", b"123", "audio/wav"),
        {"type": "resource_link", "uri": "file:///a", "name": "a", "description": "A file."},
        embedded("file:///b", text="b's text"),
        embedded("x:", mimeType="image/png", blob=blob(b"p")),
        embedded("z:", mimeType="a/b", blob=blob(JPEG)),
        embedded("y:", mimeType="a/b", blob=blob(b"1234")),
        media("image", b"<svg/>", "image/svg+xml"),
        embedded("x:", mimeType="image/bmp", blob=blob(b"BM")),
    ]
    assert output_of(read_tool_result({"content": contents}), CAP).parts == (
        TextPart("one"),
        PNG,
        TextPart("(a sound of 3 bytes, audio/wav, was left out)"),
        TextPart("Resource a (file:///a): A file."),
        TextPart("file:///b:\nb's text"),
        TextPart("(a picture was left out: 1 bytes, image/png, damaged)"),
        ImagePart(media_type="image/jpeg", data=JPEG),
        TextPart("(y:: 4 bytes, a/b)"),
        TextPart(
            "(a picture was left out: 6 bytes, image/svg+xml, a type that models do not accept)"
        ),
        TextPart("(a picture was left out: 2 bytes, image/bmp, a type that models do not accept)"),
    )


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"structured": {"a": 1}}, '{"a":1}'),
        ({"structured": {"a": 1}, "content": (TextPart("a=1"),)}, "a=1"),
        ({}, "(no output)"),
        ({"content": (TextPart(""),)}, "(no output)"),
        ({"is_error": True}, "The tool failed without a message."),
    ],
)
def test_a_result_is_never_empty(result, text):
    assert texts(m.ToolResult(**result)) == [text]
    assert output_of(m.ToolResult(**result), CAP).is_error is result.get("is_error", False)


def test_pictures_are_few_and_not_too_large():
    large = ImagePart(data=PNG.data + bytes(MAX_IMAGE_BYTES), media_type="image/png")
    output = output_of(m.ToolResult(content=(large, *[PNG] * (MAX_PICTURES + 2))), CAP)
    pictures = [part for part in output.parts if isinstance(part, ImagePart)]
    assert len(pictures) == MAX_PICTURES - 1
    assert sum("left out" in part.text for part in output.parts if isinstance(part, TextPart)) == 4


@pytest.mark.requirement("W-38a")
@pytest.mark.parametrize("cap", [Cap(lines=100, size=0), Cap(lines=0, size=1_000)])
def test_a_result_beyond_the_limit_has_a_note(cap):
    content = (
        TextPart("one"),
        PNG,
        TextPart("more"),
        TextPart("still"),
    )
    (cut,) = texts(m.ToolResult(content=(TextPart("x" * 5_000),)))
    assert "bytes left out" in cut
    first, *others = texts(m.ToolResult(content=content), cap)
    assert first == "... cut, 3 bytes left out ..."
    assert not set(others) & {"one", "more", "still"}


@given(st.lists(st.text(max_size=400).map(lambda text: TextPart(text * 5)), max_size=20))
def test_all_texts_together_stay_within_the_cap(content):
    shown = texts(m.ToolResult(content=tuple(content)))
    assert sum(len(text.encode()) for text in shown) < CAP.size + 200
    json.dumps(shown)


LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
PARTS = st.text(max_size=90) | st.from_regex(r"[a-b_.]{1,4}", fullmatch=True)


@pytest.mark.requirement("W-37")
@given(st.lists(st.tuples(PARTS, PARTS), unique=True, max_size=20), st.sets(PARTS, max_size=3))
def test_every_name_is_legal_and_there_once(keys, taken):
    names = tool_names(keys, taken)
    assert list(names) == keys
    assert len(set(names.values())) == len(keys)
    assert taken.isdisjoint(names.values())
    assert all(LEGAL.fullmatch(name) for name in names.values())


@given(st.lists(st.tuples(PARTS, PARTS), unique=True, min_size=1, max_size=9))
def test_a_changed_name_does_not_depend_on_other_tools(keys):
    names = tool_names(keys)
    for key in keys:
        alone = tool_names([key])[key]
        if alone != f"{key[0]}__{key[1]}":
            assert names[key] == alone
        assert tool_names(reversed(keys))[key] == names[key]


@pytest.mark.parametrize(
    ("server", "tool", "holds"),
    [
        ("my server", "read/file", ["my_server", "read_file"]),
        ("s" * 80, "read_file", ["ssss", "read_file"]),
        ("github", "t" * 100, ["github", "tttt"]),
        ("s" * 80, "t" * 80, ["s" * 23, "t" * 30]),
        ("1st", "x", ["1st", "x"]),
        ("-", "é", ["__"]),
    ],
)
def test_an_illegal_name_keeps_its_legal_characters(server, tool, holds):
    (name,) = tool_names([(server, tool)]).values()
    assert len(name) <= MAX_LENGTH
    assert all(part in name for part in holds)
    assert re.search(r"_[0-9a-f]{8}$", name)


def test_two_that_would_have_one_name_get_two_and_a_taken_name_is_not_given():
    names = tool_names([("a", "b__c"), ("a__b", "c"), ("a", "d"), ("a", "e")], {"a__e"})
    assert names["a", "d"] == "a__d"
    assert names["a", "e"] != "a__e"
    assert names["a", "b__c"] != names["a__b", "c"]
    assert all(name.startswith("a__b__c_") for name in list(names.values())[:2])
