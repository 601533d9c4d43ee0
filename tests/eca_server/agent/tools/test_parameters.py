"""The names and parameters of the native tools (ruling W-33)."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from eca_server.agent.tools.background import Background
from eca_server.agent.tools.bg_job import BgJob
from eca_server.agent.tools.diagnostics import EditorDiagnostics
from eca_server.agent.tools.directory_tree import DirectoryTree
from eca_server.agent.tools.edit_file import EditFile
from eca_server.agent.tools.grep import Grep
from eca_server.agent.tools.move_file import MoveFile
from eca_server.agent.tools.preview import PreviewFileChange
from eca_server.agent.tools.read_file import ReadFile
from eca_server.agent.tools.shell_command import ShellCommand
from eca_server.agent.tools.view_image import ViewImage
from eca_server.agent.tools.write_file import WriteFile
from eca_server.workspace.boundary import Workspace

EDIT = "path original_content new_content all_occurrences"
RUN = "command working_directory timeout"
SHELL = ShellCommand(workspace=Workspace(()), environment={})
JOBS: Any = None  # nothing is started here
IN_BACKGROUND = attrs.evolve(SHELL, background=Background(jobs=JOBS, chat_id="c", reader="c"))


@pytest.mark.requirement("W-33f")
@pytest.mark.parametrize(
    ("tool", "name", "parameters", "required", "effect"),
    [
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
    ],
)
def test_names_parameters_and_effect(tool, name, parameters, required, effect):
    names = parameters.split()
    assert (tool.name, tool.effect) == (name, effect)
    assert tool.parameters["type"] == "object"
    assert list(tool.parameters["properties"]) == names
    assert list(tool.parameters.get("required", ())) == names[:required]
    assert all(each["description"] for each in tool.parameters["properties"].values())
