"""The approval of calls by the behaviour's policy and the approvals for the session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import trio

from eca_protocol.messages import ShellCommandDetails, ToolCallDetails
from eca_server.agent.tools.approval import Decision, Memo, Policy
from eca_server.agent.tools.approval_rules import Call
from eca_server.agent.tools.shell_words import touched_paths
from eca_server.agent.tools.tool import PreparedCall, Tool
from eca_server.client.content_formatting import NATIVE
from eca_server.workspace.boundary import Workspace


@attrs.frozen(kw_only=True)
class Permissions:
    """The decisions about the calls of a turn.

    Attributes:
        policy: the policy of the turn's behaviour.
        memos: the approvals for the session, shared by all chats of the connection.
        variables: the environment of commands.
        trusts: returns True if the user trusts the chat now.
    """

    _policy: Policy
    workspace: Workspace
    _memos: set[Memo]
    _variables: Mapping[str, str]
    _trusts: Callable[[], bool] = lambda: False

    async def decide(
        self,
        tool: Tool,
        prepared: PreparedCall,
        arguments: Mapping[str, Any],
        *,
        server: str = NATIVE,
    ) -> Decision:
        """Decide on a prepared call; `server` is the server of the tool.

        A call that wraps a call of a second tool is judged as a call of both.
        """
        decide, inner = trio.to_thread.run_sync, prepared.inner
        outer = await decide(self._decide, tool, prepared, arguments, server)
        if inner is None or outer.verdict == "deny":
            return outer
        decision = await decide(self._decide, inner.tool, prepared, inner.arguments, inner.server)
        asks = outer.verdict == "ask" and decision.verdict == "allow"
        return outer if asks else decision

    def details(self, prepared: PreparedCall, decision: Decision) -> ToolCallDetails | None:
        """Return the details of a call, with the approvals that would be stored."""
        details = prepared.details
        if not isinstance(details, ShellCommandDetails):
            return details
        memos = {(memo.command, memo.folder): memo for memo in decision.memos}
        keyed = [memos.get((part.key, part.folder)) for part in prepared.parts]
        commands = (
            command
            if memo is None
            else attrs.evolve(command, approval_key=memo.command, remembered=memo in self._memos)
            for command, memo in zip(details.commands, keyed, strict=True)
        )
        return attrs.evolve(details, commands=tuple(commands))

    def _decide(
        self, tool: Tool, prepared: PreparedCall, arguments: Mapping[str, Any], server: str
    ) -> Decision:
        touched = touched_paths(
            self.workspace,
            prepared.places,
            command=prepared.command,
            folder=prepared.folder,
            variables=self._variables,
        )
        call = Call(
            server=server,
            tool=tool.name,
            arguments=arguments,
            effect=tool.effect,
            command=prepared.command,
            parts=prepared.parts,
            outside=touched.outside,
            guarded=() if tool.effect == "read" else touched.guarded,
            programs=touched.programs,
            warning=prepared.warning,
            is_sandboxed=prepared.is_sandboxed,
        )
        return self._policy.decide(call, self._memos, is_trusted=self._trusts())
