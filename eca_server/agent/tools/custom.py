"""Custom tools: the commands of `customTools` in the configuration."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import attrs

from eca_server.agent.sandbox.sandbox import Sandbox
from eca_server.agent.tools.command_template import CommandTemplate, TemplateError
from eca_server.agent.tools.files import in_thread
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.script import Script, run_script
from eca_server.agent.tools.shell_command import default_directory, ensure_sandbox_works
from eca_server.agent.tools.tool import Effect, PreparedCall, ToolOutput
from eca_server.client.content_formatting import PREFIX
from eca_server.config.problems import kind_of
from eca_server.config.tool_settings import CustomTool
from eca_server.workspace.boundary import Workspace

_TIMEOUT = 600.0  # seconds
_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")  # valid for every provider, with our prefix
_UPSTREAM = frozenset({"compact_chat", "fetch_rule"})  # native tools of upstream's server


class _InvalidTool(Exception):
    """A configured tool that cannot be offered; the message says why."""


@attrs.frozen(kw_only=True)
class CustomCommand:
    """A command of the configuration as a tool.

    Attributes:
        environment: the whole environment of the command, without the server's keys.
        sandbox: the sandbox of the command; None: no sandbox. The user wrote the command and knows
            the network and keys it needs, so only `require` puts it into the sandbox.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    template: CommandTemplate
    workspace: Workspace
    environment: Mapping[str, str] = attrs.field(repr=False)
    cap: Cap = attrs.field(factory=Cap)
    sandbox: Sandbox | None = None

    effect: ClassVar[Effect] = "run"

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return `Running NAME`."""
        return f"Running {self.name}"

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Prepare the script and its variables.

        Raises:
            ToolError: the sandbox is required and cannot be used.
        """
        if self.sandbox is not None:
            await ensure_sandbox_works(self.sandbox)
        directory = await in_thread(default_directory, self.workspace)
        script = Script(
            text=self.template.script,
            directory=directory,
            environment={**self.environment, **self.template.variables(arguments)},
            timeout=_TIMEOUT,
            cap=self.cap,
            sandbox=self.sandbox,
        )

        async def run() -> ToolOutput:
            return await run_script(script)

        return PreparedCall(
            run=run,
            summary=self.summary(arguments),
            command=self.template.command(arguments),
            folder=str(directory),
        )


def custom_commands(
    configured: Mapping[str, CustomTool],
    *,
    workspace: Workspace,
    environment: Mapping[str, str],
    cap: Cap,
    taken: Collection[str],
    sandbox: Sandbox | None = None,
) -> tuple[tuple[CustomCommand, ...], tuple[str, ...]]:
    """Return the configured tools that can be offered, and a sentence for each other one.

    Args:
        configured: the tools, by name.
        workspace: the commands run in its first root.
        environment: the environment of the commands.
        cap: the limit of their output.
        taken: the names of all native tools, offered or not.
        sandbox: the sandbox of the commands; None: no sandbox.
    """
    tools: list[CustomCommand] = []
    problems: list[str] = []
    taken = _UPSTREAM | {name.casefold() for name in taken}
    for name, tool in configured.items():
        try:
            template, properties = _checked(name, tool, taken)
        except (_InvalidTool, TemplateError) as error:
            problems.append(f"The custom tool {name!r} was left out: {error}.")
            continue
        tools.append(
            CustomCommand(
                name=name,
                description=tool.description or f"Run: {tool.command}",
                parameters={**tool.parameters, "type": "object", "properties": properties},
                template=template,
                workspace=workspace,
                environment=environment,
                cap=cap,
                sandbox=sandbox,
            )
        )
    return tuple(tools), tuple(problems)


def _checked(
    name: str, tool: CustomTool, taken: Collection[str]
) -> tuple[CommandTemplate, Mapping[str, Any]]:
    """Return the command and the properties of a valid tool.

    A native tool's name is refused: a rule that allows that tool would allow the command.
    """
    folded = name.casefold()
    if folded in taken or folded.startswith(PREFIX):
        raise _InvalidTool("a native tool has this name; choose a different one")
    if not _NAME.fullmatch(name):
        raise _InvalidTool("expected a name of up to 60 letters, digits, `_` and `-`")
    if tool.command is None:
        raise _InvalidTool("it has no `command`")
    properties = tool.parameters.get("properties") or {}
    if not isinstance(properties, Mapping):
        raise _InvalidTool(
            f"expected an object as its schema's properties, got {kind_of(properties)}"
        )
    return CommandTemplate(tool.command, properties), properties
