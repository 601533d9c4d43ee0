"""The declaration of cases for agents, and the commands that their scripts run."""

from __future__ import annotations

import functools
from types import MappingProxyType
from typing import Final

from eca_protocol import json
from eca_protocol.testing.conformance.cases import Case, case, cases_in
from eca_protocol.testing.conformance.model import AnswersWith, bare_name, tools_in
from eca_protocol.testing.provider import ReceivedRequest
from eca_protocol.testing.script import Reply, reply, tool_call

_SHELLS: Final = frozenset({"shell_command", "bash", "shell", "run_shell_command", "execute"})
"""Names of tools that run a command, in lower case."""

agent_case: Final = functools.partial(case, seconds=60.0)
"""The declaration of a case for agents: of a function of an `AgentSession`."""


def acp_cases() -> MappingProxyType[str, Case]:
    """Return the cases for agents by name, in the order of their chapters."""
    return cases_in(__name__.rpartition(".")[0])


def runs(command: str) -> AnswersWith:
    """Return a reply that calls the agent's shell tool with a command."""

    def answer(request: ReceivedRequest) -> Reply:
        for name, members in tools_in(request.body):
            if bare_name(name).lower() in _SHELLS:
                arguments = {"command": command, "description": "A test"}
                known = {key: each for key, each in arguments.items() if key in members}
                return reply(tool_call(name, json.dumps(known).decode()))
        return reply("There is no shell.")

    return answer
