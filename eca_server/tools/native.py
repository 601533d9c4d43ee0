"""The native tools of a chat, made from the configuration and the workspace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

import attrs

from eca_server.child_process import chat_environment
from eca_server.config import Config
from eca_server.jobs import Jobs
from eca_server.sandbox import Sandbox
from eca_server.session import Session
from eca_server.tools.approval import NATIVE, Policy, spellings
from eca_server.tools.ask_user import AskUser, client_asks_questions
from eca_server.tools.background import Background
from eca_server.tools.bg_job import BgJob
from eca_server.tools.custom import custom_commands
from eca_server.tools.diagnostics import EditorDiagnostics, editor_has_diagnostics
from eca_server.tools.directory_tree import DirectoryTree
from eca_server.tools.edit_file import EditFile
from eca_server.tools.files import Files
from eca_server.tools.grep import Grep
from eca_server.tools.ledger import Ledger
from eca_server.tools.move_file import MoveFile
from eca_server.tools.navigation import EditorDefinition, EditorReferences, editor_navigates
from eca_server.tools.output import Cap
from eca_server.tools.preview import PreviewFileChange
from eca_server.tools.read_file import ReadFile
from eca_server.tools.search_tools import CallTool, SearchTools
from eca_server.tools.shell_command import ShellCommand
from eca_server.tools.tasks import TaskTool
from eca_server.tools.tool import Tool
from eca_server.tools.toolbox import ServedTool, ToolBox
from eca_server.tools.view_image import ViewImage
from eca_server.tools.write_file import WriteFile
from eca_server.workspace import Workspace

__all__ = ["NATIVE_NAMES", "NativeTools", "native_tools"]

_NATIVE_TOOLS: Final = (
    *(DirectoryTree, ReadFile, Grep, WriteFile, EditFile, PreviewFileChange, MoveFile),
    *(ShellCommand, BgJob, EditorDiagnostics, EditorDefinition, EditorReferences, AskUser),
    *(TaskTool, ViewImage, SearchTools, CallTool),
)

NATIVE_NAMES: Final = frozenset(tool.name for tool in _NATIVE_TOOLS)
"""The name of every native tool of this package, whether a client is offered it or not."""


@attrs.frozen(kw_only=True)
class NativeTools:
    """Every native tool there is, custom ones included.

    Attributes:
        tools: in the order the model sees them.
        problems: what is wrong with configured ones, for the user.
        described: what the user wants the model to be told of a tool, by its name.
    """

    tools: tuple[Tool, ...]
    problems: tuple[str, ...]
    described: Mapping[str, str] = attrs.field(factory=dict)

    def without(self, name: str) -> NativeTools:
        """These but for one, which then does not exist."""
        tools = tuple(tool for tool in self.tools if tool.name != name)
        return attrs.evolve(self, tools=tools)

    def adding(self, tools: Iterable[Tool]) -> NativeTools:
        """Return these and more tools behind them."""
        return attrs.evolve(self, tools=(*self.tools, *tools))

    def toolbox(self, policy: Policy, served: Iterable[ServedTool] = ()) -> ToolBox:
        """What is offered under a policy, and behind it what MCP servers offer."""
        withheld = {tool.name: _why(tool, policy) for tool in self.tools}
        return ToolBox(
            [tool for tool in self.tools if withheld[tool.name] is None],
            {name: why for name, why in withheld.items() if why is not None},
            served,
            self.described,
        )


def _why(tool: Tool, policy: Policy) -> str | None:
    return policy.withheld(server=NATIVE, tool=tool.name, effect=tool.effect)


def _of_client(
    config: Config, session: Session, workspace: Workspace, cap: Cap, chat_id: str
) -> list[Tool]:
    """The tools that ask the editor or its user, as far as it can be asked."""
    asked: dict[str, Any] = {
        "session": session,
        "workspace": workspace,
        "timeout": config.lsp_timeout,
        "cap": cap,
    }
    tools: list[Tool] = []
    if editor_has_diagnostics(session):
        tools.append(EditorDiagnostics(**asked))
    if editor_navigates(session, "definition"):
        tools.append(EditorDefinition(**asked))
    if editor_navigates(session, "references"):
        tools.append(EditorReferences(**asked))
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
    """The native tools of a chat.

    Args:
        config: custom tools and limits.
        session: the editor that is asked for what it knows, and its user, where it can be.
        workspace: what paths are looked up in.
        environment: that of the commands they run.
        ledger: which files the chat's model has seen.
        chat_id: the chat.
        reader: the chat whose model has them, if it works for that one.
        jobs: where its commands may go on in the background; None: nowhere.
        more: tools of other packages.
        reserved: the names of all tools of other packages, offered or not.
        sandbox: where commands run; None: as they are.
    """
    environment = chat_environment(environment, reader or chat_id)
    limits = config.tool_call.output_truncation
    cap = Cap(lines=limits.lines, size=limits.size_kb * 1024)
    files = Files(
        workspace=workspace,
        ledger=ledger,
        cap=cap,
        max_lines=config.tool_call.read_file.max_lines,
        gitignore=any(ignore.type == "gitignore" for ignore in config.ignore_files),
    )
    background = None
    if jobs is not None:
        background = Background(jobs=jobs, chat_id=chat_id, reader=reader or chat_id)
    shell = ShellCommand(
        workspace=workspace,
        environment=environment,
        summary_max_length=config.tool_call.shell_command.summary_max_length,
        cap=cap,
        background=background,
        sandbox=sandbox,
        warn=partial(session.show_once, "warning"),
    )
    customs, problems = custom_commands(
        config.custom_tools,
        workspace=workspace,
        environment=environment,
        cap=cap,
        taken={*NATIVE_NAMES, *reserved},
        sandbox=sandbox if sandbox is not None and sandbox.mode == "require" else None,
    )
    tools: list[Tool] = [
        DirectoryTree(files=files),
        ReadFile(files=files),
        ViewImage(files=files),
        Grep(files=files),
        WriteFile(files=files),
        EditFile(files=files),
        PreviewFileChange(files=files),
        MoveFile(files=files),
        shell,
        *([] if background is None else [BgJob(background=background, cap=cap)]),
        *more,
        *customs,
    ]
    tools[4:4] = _of_client(config, session, workspace, cap, chat_id)
    described = {
        tool.name: text
        for tool in tools
        for name, text in config.prompts.tools.items()
        if name in spellings(NATIVE, tool.name)
    }
    return NativeTools(tools=tuple(tools), problems=problems, described=described)
