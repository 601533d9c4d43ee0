"""The texts that a model receives: `/prompt-show`, `/repo-map-show`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import trio

from eca_protocol import json
from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import CommandContext, command, fenced
from eca_server.agent.context.contexts import PromptContext
from eca_server.agent.context.disk import draw_roots
from eca_server.models.backend import Tool
from eca_server.models.history import Message, Part, TextPart, ToolCallPart, ToolResultPart


@command(
    "prompt-show",
    CommandArgument(name="prompt", description="Prompt whose mentions are resolved."),
    steering="between requests",
)
async def show_prompt(turn: Turn, context: CommandContext) -> None:
    """Show the next request to the model: system prompt, tools, contexts, history."""
    agent = await context.make_agent(turn, arguments_of(context.text))
    if agent is None:
        return
    origin = agent.model.origin
    behavior = turn.session.profile.agent_name(context.behavior)
    tools = agent.toolbox.offered
    parts = [
        f"Model: {origin.provider}/{origin.model}\n\nAgent: {behavior}",
        f"System prompt ({len(agent.system):,} characters):\n\n{fenced(agent.system)}",
        f"Tools ({len(tools)}):\n\n{_listed(tools)}",
        _of_contexts(await agent.gather(is_preview=True)),
        _of_history(context.chat.history.model_context),
    ]
    turn.report("\n\n".join(part for part in parts if part))


def _listed(tools: Iterable[Tool]) -> str:
    return "\n".join(f"- `{tool.name}` ({_size_of_tool(tool):,} characters)" for tool in tools)


def _size_of_tool(tool: Tool) -> int:
    return len(tool.description) + len(json.dumps(tool.parameters))


def _of_contexts(built: PromptContext) -> str:
    texts = [part.text for part in built.parts if isinstance(part, TextPart)]
    attached = len(built.parts) - len(texts)
    lines = [fenced("\n".join(texts))] if texts else []
    lines += [f"Pictures and documents: {attached}"] if attached else []
    return "\n\n".join(["Contexts:", *lines, *built.notes]) if lines or built.notes else ""


def _of_history(history: Iterable[Message]) -> str:
    messages = list(history)
    size = sum(sum(_sizes(message.parts)) for message in messages)
    return f"History: {len(messages)} messages, {size:,} characters"


def _sizes(parts: Iterable[Part]) -> Iterator[int]:
    """Yield the numbers of characters of the parts that the model reads as text."""
    for part in parts:
        match part:
            case ToolCallPart(raw=raw):
                yield len(raw)
            case ToolResultPart(parts=results):
                yield from _sizes(results)
            case _:
                yield len(getattr(part, "text", ""))


@command("repo-map-show", steering="between requests")
async def show_repo_map(turn: Turn, context: CommandContext) -> None:
    """Show the repository map that the model receives."""
    workspace = context.workspace
    if not workspace.roots:
        turn.fail("No folder is open.")
        return

    def draw() -> str:
        return draw_roots(
            workspace, gitignore=context.gitignore, checkpoint=trio.from_thread.check_cancelled
        )

    turn.report(fenced(await trio.to_thread.run_sync(draw)))
