"""Custom tools: commands of the configuration with the model's arguments, never pasted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eca_protocol.messages import WorkspaceFolder
from eca_protocol.server.roots import parse_roots, uri_of
from eca_server.agent.tools.custom import CustomCommand, custom_commands
from eca_server.agent.tools.native import NATIVE_NAMES
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.tool import Tool, ToolError, ToolOutput
from eca_server.config.tool_settings import CustomTool
from eca_server.models.history import TextPart
from eca_server.workspace.boundary import Workspace

SCHEMA = {
    "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["name"],
}
GREET = CustomTool(
    description="Greet somebody.",
    command="printf 'Hello {{name}}%.0s\\n' $(seq {{count}})",
    parameters=SCHEMA,
)


def offered(
    configured: Mapping[str, CustomTool], root: Path, *, cap: Cap | None = None
) -> tuple[tuple[CustomCommand, ...], tuple[str, ...]]:
    roots, _ = parse_roots([WorkspaceFolder(uri=uri_of(root))])
    return custom_commands(
        configured,
        workspace=Workspace(roots),
        environment={"PATH": os.environ["PATH"]},
        cap=cap or Cap(),
        taken=NATIVE_NAMES,
    )


async def run(tool: Tool, arguments: Mapping[str, Any]) -> ToolOutput:
    return await (await tool.prepare(arguments)).run()


async def test_a_configured_command_is_offered_as_a_tool(tmp_path):
    [tool], problems = offered({"greet": GREET}, tmp_path)
    assert not problems
    assert (tool.name, tool.description, tool.effect) == ("greet", "Greet somebody.", "run")
    assert tool.parameters == {"type": "object", **SCHEMA}
    assert tool.summary({}) == "Running greet"


async def test_it_runs_in_the_workspace_with_its_arguments(tmp_path):
    tools, _ = offered({"greet": GREET, "where": CustomTool(command="pwd; cat; exit 2")}, tmp_path)
    greet, where = tools
    assert (await run(greet, {"name": "Ann", "count": 2})).parts == (
        TextPart("Hello Ann\nHello Ann\n"),
    )
    assert where.description == "Run: pwd; cat; exit 2"
    assert where.parameters == {"type": "object", "properties": {}}
    output = await run(where, {})
    assert output.parts == (TextPart("Exit code 2"), TextPart(f"Stdout:\n{tmp_path}\n"))
    assert output.is_error


async def test_a_hostile_argument_is_a_word_and_the_rules_see_it(tmp_path):
    [tool], _ = offered(
        {"show": CustomTool(command="echo {{name}} '{{name}}'", parameters=SCHEMA)}, tmp_path
    )
    hostile = "'; touch owned; echo $(touch owned) '"
    call = await tool.prepare({"name": hostile})
    assert (await call.run()).parts == (TextPart(f"{hostile} {hostile}\n"),)
    assert list(tmp_path.iterdir()) == []
    assert call.command == (
        "echo ''\"'\"'; touch owned; echo $(touch owned) '\"'\"'' "
        "''''\"'\"'; touch owned; echo $(touch owned) '\"'\"''''"
    )


async def test_a_value_that_cannot_be_given_is_reported(tmp_path):
    [tool], _ = offered({"show": CustomTool(command="echo {{name}}", parameters=SCHEMA)}, tmp_path)
    with pytest.raises(ToolError, match="null byte"):
        await run(tool, {"name": "a\0b"})
    with pytest.raises(ToolError, match="too long"):
        await run(tool, {"name": "x" * 200_000})


async def test_a_custom_tools_output_is_cut(tmp_path):
    [tool], _ = offered({"many": CustomTool(command="seq 100")}, tmp_path, cap=Cap(lines=4))
    [part] = (await run(tool, {})).parts
    assert isinstance(part, TextPart)
    assert part.text.startswith("1\n2\n... cut, 281 bytes left out ...")


@pytest.mark.requirement("W-35b")
@pytest.mark.parametrize(
    ("name", "tool", "reason"),
    [
        ("two words", GREET, "expected a name of up to 60 letters"),
        ("x" * 61, GREET, "expected a name of up to 60 letters"),
        ("read_file", GREET, "a native tool has this name"),
        ("eca_read_file", GREET, "a native tool has this name"),
        ("eca__greet", GREET, "a native tool has this name"),
        ("task", GREET, "a native tool has this name"),
        *((name, GREET, "a native tool has this name") for name in sorted(NATIVE_NAMES)),
        ("Read_File", GREET, "a native tool has this name"),
        ("ECA__greet", GREET, "a native tool has this name"),
        ("compact_chat", GREET, "a native tool has this name"),
        ("greet", CustomTool(), "it has no `command`"),
        (
            "greet",
            CustomTool(command="true", parameters={"properties": ["name"]}),
            "expected an object as its schema's properties, got a list",
        ),
        (
            "greet",
            CustomTool(command="echo $(( {{name}} ))", parameters=SCHEMA),
            "{{name}} is in ((...))",
        ),
    ],
)
async def test_what_cannot_be_offered_is_left_out_with_a_sentence(tmp_path, name, tool, reason):
    tools, [problem] = offered({name: tool, "other": CustomTool(command="true")}, tmp_path)
    assert [each.name for each in tools] == ["other"]
    assert problem.startswith(f"The custom tool {name!r} was left out: ")
    assert reason in problem
