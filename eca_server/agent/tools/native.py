"""The native tools of a chat, created from the configuration and the workspace."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final

import attrs

from eca_server.agent.jobs.jobs import Jobs
from eca_server.agent.sandbox.sandbox import Sandbox
from eca_server.agent.tools.approval import Policy
from eca_server.agent.tools.approval_rules import spellings
from eca_server.agent.tools.ask_user import AskUser, client_asks_questions
from eca_server.agent.tools.background import Background, BgJob
from eca_server.agent.tools.custom import custom_commands
from eca_server.agent.tools.directory_tree import DirectoryTree
from eca_server.agent.tools.edit_file import EditFile, PreviewFileChange
from eca_server.agent.tools.editor_tools import (
    EditorDefinition,
    EditorDiagnostics,
    EditorReferences,
    editor_answers,
)
from eca_server.agent.tools.files import Files, Ledger
from eca_server.agent.tools.grep import Grep
from eca_server.agent.tools.move_file import MoveFile
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.read_file import ReadFile, ViewImage
from eca_server.agent.tools.search_tools import CallTool, SearchTools
from eca_server.agent.tools.shell_command import SHELL_ARGUMENTS, ShellCommand
from eca_server.agent.tools.tasks import TaskTool
from eca_server.agent.tools.tool import Tool
from eca_server.agent.tools.toolbox import ServedTool, ToolBox
from eca_server.agent.tools.write_file import WriteFile
from eca_server.client.content_formatting import NATIVE
from eca_server.client.session import Session
from eca_server.config.settings import Config
from eca_server.system.child_process import chat_environment
from eca_server.workspace.boundary import Workspace

_READING_TOOLS: Final = (DirectoryTree, ReadFile, ViewImage, Grep)
_WRITING_TOOLS: Final = (WriteFile, EditFile, PreviewFileChange, MoveFile)
_EDITOR_TOOLS: Final[Mapping[str, Callable[..., Tool]]] = {
    "diagnostics": EditorDiagnostics,
    "definition": EditorDefinition,
    "references": EditorReferences,
}
"""The tools that ask the user's editor, by the capability they need."""

_NATIVE_TOOLS: Final[tuple[Any, ...]] = (
    *(*_READING_TOOLS, *_WRITING_TOOLS, ShellCommand, BgJob),
    *(*_EDITOR_TOOLS.values(), AskUser, TaskTool, SearchTools, CallTool),
)

NATIVE_NAMES: Final = frozenset(tool.name for tool in _NATIVE_TOOLS)
"""The name of every native tool of this package, offered or not."""


def native_arguments(name: str) -> Collection[str]:
    """Return the names of the arguments of a native tool."""
    tool = next(each for each in _NATIVE_TOOLS if each.name == name)
    return SHELL_ARGUMENTS if tool is ShellCommand else tool.parameters["properties"]


@attrs.frozen(kw_only=True)
class NativeTools:
    """The native tools, custom ones included.

    Attributes:
        tools: in the order of the model's list.
        problems: sentences for the user about invalid custom tools.
        described: configured descriptions by tool name.
    """

    tools: tuple[Tool, ...]
    problems: tuple[str, ...]
    described: Mapping[str, str] = attrs.field(factory=dict)

    def without(self, name: str) -> NativeTools:
        """Return these tools without one."""
        return attrs.evolve(self, tools=tuple(tool for tool in self.tools if tool.name != name))

    def adding(self, tools: Iterable[Tool]) -> NativeTools:
        """Return these tools and more behind them."""
        return attrs.evolve(self, tools=(*self.tools, *tools))

    def toolbox(self, policy: Policy, served: Iterable[ServedTool] = ()) -> ToolBox:
        """Return the tools of a turn under a policy, with those of MCP servers behind them."""
        withheld = {
            tool.name: policy.withheld(server=NATIVE, tool=tool.name, effect=tool.effect)
            for tool in self.tools
        }
        return ToolBox(
            [tool for tool in self.tools if withheld[tool.name] is None],
            {name: reason for name, reason in withheld.items() if reason is not None},
            served,
            self.described,
        )


def _client_tools(
    config: Config, session: Session, workspace: Workspace, cap: Cap, chat_id: str
) -> list[Tool]:
    """Return the tools that call the client, as far as it has the capabilities."""
    tools: list[Tool] = [
        make(session=session, workspace=workspace, timeout=config.lsp_timeout, cap=cap)
        for request, make in _EDITOR_TOOLS.items()
        if editor_answers(session, request)
    ]
    if client_asks_questions(session):
        tools.append(AskUser(session=session, chat_id=chat_id))
    return tools


def native_tools(
    config: Config,
    *,
    session: Session,
    workspace: Workspace,
    environment: Mapping[str, str],
    ledger: Ledger,
    chat_id: str = "",
    reader: str = "",
    jobs: Jobs | None = None,
    more: Iterable[Tool] = (),
    reserved: Iterable[str] = (),
    sandbox: Sandbox | None = None,
) -> NativeTools:
    """Create the native tools of a chat.

    Args:
        config: custom tools and limits.
        session: the client, for tools that call it.
        workspace: resolves paths.
        environment: the environment of commands.
        ledger: the file contents that the chat's model knows.
        chat_id: the chat.
        reader: the chat whose model has the tools, if it is a subagent of `chat_id`.
        jobs: runs commands in the background; None: no background.
        more: tools of other packages.
        reserved: the names of all tools of other packages, offered or not.
        sandbox: the sandbox of commands; None: no sandbox.
    """
    reader = reader or chat_id
    environment = chat_environment(environment, reader)
    files = _files(config, workspace, ledger)
    background = None if jobs is None else Background(jobs=jobs, chat_id=chat_id, reader=reader)
    shell = ShellCommand(
        workspace=workspace,
        environment=environment,
        summary_max_length=config.tool_call.shell_command.summary_max_length,
        cap=files.cap,
        background=background,
        sandbox=sandbox,
        warn=partial(session.show_once, "warning"),
    )
    customs, problems = custom_commands(
        config.custom_tools,
        workspace=workspace,
        environment=environment,
        cap=files.cap,
        taken={*NATIVE_NAMES, *reserved},
        sandbox=sandbox if sandbox is not None and sandbox.settings.mode == "require" else None,
    )
    tools: tuple[Tool, ...] = (
        *(make(files=files) for make in _READING_TOOLS),
        *_client_tools(config, session, workspace, files.cap, chat_id),
        *(make(files=files) for make in _WRITING_TOOLS),
        shell,
        *([] if background is None else [BgJob(background=background, cap=files.cap)]),
        *more,
        *customs,
    )
    return NativeTools(tools=tools, problems=problems, described=_descriptions(config, tools))


def _files(config: Config, workspace: Workspace, ledger: Ledger) -> Files:
    return Files(
        workspace=workspace,
        ledger=ledger,
        cap=Cap.of(config.tool_call.output_truncation),
        max_lines=config.tool_call.read_file.max_lines,
        gitignore=any(ignore.type == "gitignore" for ignore in config.ignore_files),
    )


def _descriptions(config: Config, tools: Iterable[Tool]) -> dict[str, str]:
    return {
        tool.name: text
        for tool in tools
        for name, text in config.prompts.tools.items()
        if name in spellings(NATIVE, tool.name)
    }
