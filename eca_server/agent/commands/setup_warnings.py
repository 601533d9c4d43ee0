"""Warnings about settings that are valid on their own but have no effect, for `doctor`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from eca_server.agent.chat.subagents import SPAWN_TOOL
from eca_server.agent.skills.skills import SKILL_TOOL
from eca_server.agent.tools.approval_rules import spellings
from eca_server.agent.tools.custom import custom_commands
from eca_server.agent.tools.native import NATIVE_NAMES, native_arguments
from eca_server.agent.tools.output import Cap
from eca_server.client.content_formatting import NATIVE
from eca_server.config.agent_settings import AGENT_ALIASES, Behavior
from eca_server.config.hook_settings import Hook
from eca_server.config.interpolation import ResolvedText
from eca_server.config.login_settings import Network
from eca_server.config.mcp_settings import MCPServer
from eca_server.config.problems import Problem, dotted
from eca_server.config.settings import Config
from eca_server.config.tool_settings import Approval, ApprovalRule
from eca_server.system.command_line import nearest
from eca_server.workspace.boundary import Workspace

_OTHERS: Final = (SKILL_TOOL, SPAWN_TOOL)
"""The native tools of other packages."""
_VERDICTS: Final = ("allow", "ask", "deny")
_OF_UPSTREAM: Final = {
    each: name for name in ("git", "fetch_rule", "compact_chat") for each in spellings(NATIVE, name)
}
"""The selectors of upstream's tools that this server does not have."""
_OF_OTHERS: Final = {
    "bash": "shell_command",
    "edit": "edit_file",
    "glob": "directory_tree",
    "list": "directory_tree",
    "ls": "directory_tree",
    "multiedit": "edit_file",
    "read": "read_file",
    "task": "spawn_agent",
    "write": "write_file",
}
"""The tools of other programs, in lower case, and those that do the same here."""

_FOREIGN_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_]\w*)(?::-[^{}]*)?\}")
"""A variable as the `.mcp.json` of other programs names it."""


def setup_warnings(config: Config) -> list[Problem]:
    """Return the warnings about a configuration; read the disk."""
    return [
        Problem(source="configuration", key=key, message=message, level="warning")
        for key, message in (
            *default_agent_warnings(config),
            *_of_tools(config),
            *_of_rules(config),
            *_of_hooks(config),
            *_of_certificates(config.network),
            *_of_servers(config.mcp_servers),
        )
    ]


def default_agent_warnings(config: Config) -> Iterator[tuple[str, str]]:
    """Yield a warning, with its key, if chats cannot begin with the configured agent."""
    name, selectable = config.default_behavior, config.selectable_behaviors
    if AGENT_ALIASES.get(name, name) not in selectable:
        near = nearest(name, selectable) or f"; expected one of {', '.join(selectable)}"
        yield "defaultAgent", f"there is no agent {name!r} that can be selected{near}"


def _of_tools(config: Config) -> Iterator[tuple[str, str]]:
    _, problems = custom_commands(
        config.custom_tools,
        workspace=Workspace([]),
        environment={},
        cap=Cap(),
        taken={*NATIVE_NAMES, *_OTHERS},
    )
    for problem in problems:
        yield "customTools", problem


def _of_rules(config: Config) -> Iterator[tuple[str, str]]:
    """Yield mistyped tools and arguments: a rule or matcher with one applies to no call."""
    native = {each: name for name in NATIVE_NAMES for each in spellings(NATIVE, name)}
    others = {each for name in (*_OTHERS, *config.custom_tools) for each in spellings(NATIVE, name)}
    others |= config.mcp_servers.keys()
    for path, selector, rule in _rules(config):
        key = dotted([*path, selector])
        if selector in native:
            known = native_arguments(native[selector])
            for name in rule.args_matchers.keys() - set(known):
                near = nearest(name, known) or f"; expected one of {', '.join(known)}"
                yield key, f"the tool has no argument {name!r}, so the rule never applies{near}"
        elif selector in others:
            continue
        elif _OF_UPSTREAM.get(selector) == "git" and path[-1] in _VERDICTS:
            yield key, f"there is no tool {selector!r} here; git runs in `eca__shell_command`"
        elif other := _OF_OTHERS.get(selector.lower()):
            yield key, f"there is no tool {selector!r}; did you mean `{other}`?"
        elif selector not in _OF_UPSTREAM and (near := nearest(selector, native)):
            yield key, f"there is no tool {selector!r}{near}"


def _rules(config: Config) -> Iterator[tuple[Sequence[str], str, ApprovalRule]]:
    """Yield the rules for tools, and listed tools as such, each with the path of its place."""
    places: list[tuple[Sequence[str], object]] = []
    agents = config.behaviors.items()
    owners: list[tuple[tuple[str, ...], Approval, Config | Behavior]] = [
        ((), config.tool_call.approval, config),
        *((("agent", name), each.approval, each) for name, each in agents),
    ]
    for owner, approval, lists in owners:
        path = (*owner, "toolCall", "approval")
        places += [((*path, verdict), getattr(approval, verdict)) for verdict in _VERDICTS]
        for key, names in (
            (["disabledTools"], lists.disabled_tools),
            (["enabledTools"], lists.enabled_tools),
            (["prompts", "tools"], lists.prompts.tools),
        ):
            places.append(((*owner, *key), dict.fromkeys(names or (), ApprovalRule())))
    places += [(("hooks", name, "matcher"), each.matcher) for name, each in config.hooks.items()]
    for place, rules in places:
        for selector, rule in rules.items() if isinstance(rules, Mapping) else ():
            yield place, selector, rule


def _of_hooks(config: Config) -> Iterator[tuple[str, str]]:
    for name, hook in config.hooks.items():
        if hook.type is None:
            yield dotted(["hooks", name]), "it has no `type`, so that it never runs"
        for number, message in _of_actions(hook):
            yield dotted(["hooks", name, "actions", number]), message


def _of_actions(hook: Hook) -> Iterator[tuple[int, str]]:
    for number, action in enumerate(hook.actions):
        if (action.shell is None) == (action.file is None):
            yield number, "expected either `shell` or `file`"
        elif action.file is not None and not os.path.isfile(action.file):  # noqa: PTH113 - no OSError
            yield number, f"there is no file {str(action.file)!r}"


def _of_certificates(network: Network) -> Iterator[tuple[str, str]]:
    for key, file in (
        ("caCertFile", network.ca_cert_file),
        ("clientCert", network.client_cert),
        ("clientKey", network.client_key),
    ):
        if file is not None and not os.path.isfile(file):  # noqa: PTH113 - no OSError
            yield f"network.{key}", f"there is no file {file!r}, so no model can be reached"


def _of_servers(servers: Mapping[str, MCPServer]) -> Iterator[tuple[str, str]]:
    """Yield the references of other programs; a text that holds a value of ours is not shown."""
    for name, server in servers.items():
        texts = [
            (("url",), server.url),
            *((("env", key), text) for key, text in server.env.items()),
            *((("headers", key), text) for key, text in server.headers.items()),
        ]
        for path, text in texts:
            match = None if text is None else _FOREIGN_REFERENCE.search(text)
            if match is not None and not isinstance(text, ResolvedText):
                variable = match[1]
                key = dotted(["mcpServers", name, *path])
                yield key, f"`${{{variable}}}` stays text; write `${{env:{variable}}}`"
