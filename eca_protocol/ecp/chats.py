"""An ECA chat as an agent that can be evaluated; each step is one prompt.

Each conversation is a new chat. The assistant's text becomes the public output; its reasoning and
tool calls become the evaluation context; rejected calls and the server's messages become the logs.
A call that needs approval is rejected, unless the agent was made with `approve=True`.
"""

from __future__ import annotations

import attrs

from eca_protocol import messages as m
from eca_protocol.client import Chat, Client
from eca_protocol.ecp.authoring import Agent, Hooks
from eca_protocol.ecp.messages import Result, ToolCall, Usage


def chat_agent(
    client: Client,
    *,
    name: str = "eca",
    model: str | None = None,
    behavior: str | None = None,
    approve: bool = False,
) -> Agent:
    """Make an agent that prompts chats of `client`.

    Args:
        client: a connected client; the caller closes it.
        name: the agent's name in reports.
        model: for every prompt; the server's selection by default.
        behavior: for every prompt; the server's selection by default.
        approve: approve calls that need approval, instead of rejecting them.
    """

    def make_hooks() -> Hooks:
        chat = client.chat(model=model, behavior=behavior)
        return Hooks(step=_Steps(client, chat, approve))

    return Agent(
        name=name,
        make_hooks=make_hooks,
        capabilities={key: {} for key in ("tool_calls", "evaluation_context", "usage", "reset")},
    )


@attrs.define
class _Steps:
    _client: Client
    _chat: Chat
    _approve: bool
    _tokens: int = 0

    async def __call__(self, text: str) -> Result:
        report = _Report()
        async with self._chat.prompt(text) as turn:
            async for received in turn.contents_with_roles():
                if received.role == "user":
                    continue
                content = received.content
                if isinstance(content, m.ChatToolCallRunContent) and content.manual_approval:
                    self._decide(content)
                if isinstance(content, m.ChatUsageContent):
                    report.tokens += self._tokens_in(content)
                    report.usage = Usage(total_tokens=report.tokens)
                report.add(received.role, content)
        return report.result()

    def _tokens_in(self, usage: m.ChatUsageContent) -> int:
        if not usage.sums.holds(self._client.revision):
            return usage.session_tokens  # of one request
        before, self._tokens = self._tokens, usage.session_tokens
        return max(0, self._tokens - before)

    def _decide(self, call: m.ChatToolCallRunContent) -> None:
        if self._approve:
            self._chat.approve(call.id)
        else:
            self._chat.reject(call.id)


@attrs.define
class _Report:
    """The contents of one turn, sorted into the fields of a `Result`."""

    output: list[str] = attrs.field(factory=list)
    context: list[str] = attrs.field(factory=list)
    logs: list[str] = attrs.field(factory=list)
    calls: list[ToolCall] = attrs.field(factory=list)
    usage: Usage | None = None
    tokens: int = 0

    def add(self, role: str, content: m.ChatContent) -> None:
        if isinstance(content, m.ChatTextContent):
            (self.output if role == "assistant" else self.logs).append(content.text)
        elif isinstance(content, m.ChatReasonTextContent):
            self.context.append(content.text)
        elif isinstance(content, m.ChatReasonFinishedContent):
            self.context.append("\n")
        elif isinstance(content, m.ChatToolCalledContent):
            ending = "failed" if content.error else "done"
            self.context.append(f"tool {content.name}: {ending}\n")
            self.calls.append(_call(content))
        elif isinstance(content, m.ChatToolCallRejectedContent):
            self.logs.append(f"the call of {content.name} was rejected ({content.reason})\n")

    def result(self) -> Result:
        return Result(
            public_output="".join(self.output).lstrip("\n"),
            evaluation_context="".join(self.context).strip() or None,
            tool_calls=tuple(self.calls),
            logs="".join(self.logs).strip() or None,
            usage=self.usage,
        )


def _call(content: m.ChatToolCalledContent) -> ToolCall:
    extra = {"server": content.server, "error": content.error}
    return ToolCall(name=content.name or "unknown", arguments=content.arguments, extra=extra)
