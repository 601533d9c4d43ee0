"""The parameters of the native tools (W-33), and arguments against a tool's JSON Schema."""

from typing import Any

import attrs
import pytest

from eca_server.agent.tools.ask_user import AskUser
from eca_server.agent.tools.background import Background, BgJob
from eca_server.agent.tools.directory_tree import DirectoryTree
from eca_server.agent.tools.edit_file import EditFile, PreviewFileChange
from eca_server.agent.tools.editor_tools import (
    EditorDefinition,
    EditorDiagnostics,
    EditorReferences,
)
from eca_server.agent.tools.grep import Grep
from eca_server.agent.tools.move_file import MoveFile
from eca_server.agent.tools.native import NATIVE_NAMES
from eca_server.agent.tools.read_file import ReadFile, ViewImage
from eca_server.agent.tools.schemas import check_arguments
from eca_server.agent.tools.search_tools import CallTool, SearchTools
from eca_server.agent.tools.shell_command import ShellCommand
from eca_server.agent.tools.tasks import TaskTool
from eca_server.agent.tools.tool import ToolError
from eca_server.agent.tools.write_file import WriteFile
from eca_server.workspace.boundary import Workspace

OBJECT = {"type": "object"}
SCHEMA = {
    **OBJECT,
    "properties": {
        "path": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 10},
        "ratio": {"type": "number"},
        "all": {"type": "boolean"},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
        "lines": {"type": "array", "items": {"type": "integer"}},
        "range": {"properties": {"start": {"type": "integer"}}, "required": ["start"], **OBJECT},
        "maybe": {"type": ["string", "null"]},
        "version": {"enum": [1, None]},
    },
    "required": ["path"],
}


def wrong(schema: Any = SCHEMA, *, is_closed: bool = False, **arguments: Any) -> str:
    with pytest.raises(ToolError) as raised:
        check_arguments(arguments, schema, is_closed=is_closed)
    return str(raised.value)


def test_what_fits_is_given_on_unchanged():
    arguments = {"path": "", "limit": 10, "ratio": 1, "all": False, "mode": "slow", "maybe": None}
    arguments |= {"lines": [1, 2], "range": {"start": 0, "more": []}, "unknown": [{"a": None}]}
    assert check_arguments(arguments, SCHEMA) == arguments
    assert check_arguments({"path": "a", "ratio": 0.5}, SCHEMA) == {"path": "a", "ratio": 0.5}
    scale = {"type": "string", "default": "css"}
    defaulted = {"properties": {"scale": scale}, "required": ["scale"]}
    assert check_arguments({}, defaulted) == check_arguments({"scale": None}, defaulted) == {}
    # An optional null is the same as nothing.
    assert check_arguments({"path": "a", "limit": None, "range": None}, SCHEMA) == {"path": "a"}


def test_an_integer_may_be_written_with_a_zero_behind_the_point():
    written = {"path": "a", "limit": 5.0, "lines": [1.0], "range": {"start": 2.0}, "ratio": 2.0}
    arguments = check_arguments(written, SCHEMA)
    assert str(arguments) == (
        "{'path': 'a', 'limit': 5, 'lines': [1], 'range': {'start': 2}, 'ratio': 2.0}"
    )


def test_everything_that_is_missing_or_wrong_is_reported_at_once_but_not_without_end():
    assert wrong(limit="5", range={}, lines=[1, "x", True]) == (
        "Invalid arguments: path is missing; "
        'limit: expected integer, got "5"; '
        "range.start is missing; "
        'lines[1]: expected integer, got "x"; lines[2]: expected integer, got true.'
    )
    message = wrong(path="a", lines=["x"] * 1000)
    assert message.count("expected") == 20
    assert message.endswith("; and more.")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"path": None}, "path: expected string, got null"),
        ({"path": ["a"]}, "path: expected string, got a list"),
        ({"limit": 5.5}, "limit: expected integer, got 5.5"),
        ({"limit": 11.0}, "limit: expected 10 or less, got 11.0"),
        ({"limit": True}, "limit: expected integer, got true"),
        ({"limit": 0}, "limit: expected 1 or more, got 0"),
        ({"limit": 11}, "limit: expected 10 or less, got 11"),
        ({"all": 1}, "all: expected boolean, got 1"),
        ({"mode": "odd"}, 'mode: expected one of "fast", "slow", got "odd"'),
        ({"version": True}, "version: expected one of 1, null, got true"),
        ({"lines": {}}, "lines: expected array, got an object"),
        ({"maybe": 1}, "maybe: expected string or null, got 1"),
        ({"mode": "x" * 61}, "got a string of 61 characters"),
    ],
)
def test_a_misfit_is_reported_with_what_was_expected(arguments, sentence):
    assert f"{sentence}" in wrong(**{"path": "a", **arguments})


def test_unknown_keywords_of_a_schema_are_passed_over():
    arguments = {"a": 1, "b": [2]}
    for schema in (
        {},
        {"type": "object"},
        {"properties": {"a": {"type": "date"}}},
        {"properties": {"a": True}, "required": "b", "oneOf": [False]},
        {"properties": [], "required": [1, None]},
        {"properties": {"a": {"enum": "x", "minimum": "2", "items": 3}}},
    ):
        assert check_arguments(arguments, schema) == arguments


def test_unknown_arguments_of_a_closed_object_are_named_with_those_it_supports():
    message = wrong(is_closed=True, path="a", lines=[], depth=1, x=None)
    assert 'unknown: "depth", "x" (supported: path, limit, ratio' in message
    assert check_arguments({"path": "a", "depth": 1}, SCHEMA) == {"path": "a", "depth": 1}
    inner = {**OBJECT, "properties": {"a": {}}, "additionalProperties": False}
    arguments = {"in": {"a": 1, "b": 2}, "more": 1}
    message = wrong({**OBJECT, "properties": {"in": inner}}, **arguments)
    assert 'unknown in in: "b" (supported: a)' in message
    patterns = {**inner, "patternProperties": {"^x": {}}}
    assert check_arguments({"xb": 1}, patterns) == {"xb": 1}
    message = wrong(OBJECT, is_closed=True, **{f"a{n}": 1 for n in range(50)})
    assert '"a19" and 30 more (supported: none)' in message


EDIT = "path original_content new_content all_occurrences"
RUN = "command working_directory timeout"
SHELL = ShellCommand(workspace=Workspace(()), environment={})
JOBS: Any = None  # nothing is started here
IN_BACKGROUND = attrs.evolve(SHELL, background=Background(jobs=JOBS, chat_id="c", reader="c"))


SYMBOL = "path line symbol character"
TOOLS: list[tuple[Any, str, str, int, str]] = [
    (DirectoryTree, "directory_tree", "path max_depth", 1, "read"),
    (ReadFile, "read_file", "path line_offset limit", 1, "read"),
    (ViewImage, "view_image", "path", 1, "read"),
    (WriteFile, "write_file", "path content", 2, "write"),
    (EditFile, "edit_file", EDIT, 3, "write"),
    (PreviewFileChange, "preview_file_change", EDIT, 3, "read"),
    (MoveFile, "move_file", "source destination", 2, "write"),
    (Grep, "grep", "path pattern include max_results", 2, "read"),
    (SHELL, "shell_command", RUN, 1, "run"),
    (IN_BACKGROUND, "shell_command", f"{RUN} background", 1, "run"),
    (BgJob, "bg_job", "action job_id", 1, "run"),
    (EditorDiagnostics, "editor_diagnostics", "path", 0, "read"),
    (EditorDefinition, "editor_definition", SYMBOL, 3, "read"),
    (EditorReferences, "editor_references", f"{SYMBOL} include_declaration", 3, "read"),
    (AskUser, "ask_user", "question options allowFreeform", 1, "read"),
    (TaskTool, "task", "op id ids active_summary task tasks", 1, "read"),
    (SearchTools, "search_tools", "query", 1, "read"),
    (CallTool, "call_tool", "name arguments", 1, "read"),
]


def test_the_table_has_every_native_tool() -> None:
    assert {name for _, name, *_ in TOOLS} == NATIVE_NAMES, "give each a row in TOOLS"


@pytest.mark.requirement("W-33f")
@pytest.mark.parametrize(("tool", "name", "parameters", "required", "effect"), TOOLS)
def test_names_parameters_and_effect(tool, name, parameters, required, effect):
    names = parameters.split()
    assert (tool.name, tool.effect) == (name, effect)
    assert tool.parameters["type"] == "object"
    assert list(tool.parameters["properties"]) == names
    assert list(tool.parameters.get("required", ())) == names[:required]
    assert all(each["description"] for each in tool.parameters["properties"].values())
