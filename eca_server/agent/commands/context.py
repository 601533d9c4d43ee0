"""The model's context: `/context` and `/costs` show its size, `/compact` reduces it.

`/prompt-show` and `/repo-map-show` show its texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import trio

from eca_protocol import json
from eca_protocol.messages import CommandArgument, ContextBreakdown
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.chat.breakdown import breakdown
from eca_server.agent.chat.compaction import NO_PAST, has_past
from eca_server.agent.chat.reply import limit_of
from eca_server.agent.chat.usage import money
from eca_server.agent.commands.command import CommandContext, command, fenced
from eca_server.agent.context.contexts import PromptContext
from eca_server.agent.context.disk import draw_roots
from eca_server.models.backend import Request, Tool
from eca_server.models.history import Message, Part, TextPart, ToolCallPart, ToolResultPart


@command("context", steering="between requests")
async def show_context(turn: Turn, context: CommandContext) -> None:
    """Show the use of the model's context window."""
    agent = await context.make_agent(turn, "")
    if agent is None:
        return
    history, origin = context.chat.history, agent.model.origin
    request = Request(
        system=agent.system, messages=history.model_context, tools=agent.toolbox.offered
    )
    size = breakdown(request, history.tokens(request), agent.model.capabilities.context)
    lines = [f"Context window of {origin.provider}/{origin.model}: {_summary(size)}", ""]
    lines += [f"- {each.emoji} {each.name}: {each.tokens:,}" for each in size.categories]
    if size.free_tokens is not None:
        lines.append(f"- {size.free_emoji} Free: {size.free_tokens:,}")
        lines += [
            "",
            f"The chat is compacted at {agent.compact_at:g} %. Send `/compact` to do it now.",
        ]
    lines += ["", "This is the size of the next request. `/costs` shows the sum of all requests."]
    turn.report("\n".join(lines))


def _summary(size: ContextBreakdown) -> str:
    used, limit = size.used_tokens, size.context_limit
    if not limit:
        return f"about {used:,} tokens used; the limit is unknown."
    return f"about {used:,} of {limit:,} tokens used ({100 * used / limit:.0f} %)."


_WHY = (
    "Each request sends the whole chat again, so the sum grows faster than the chat. `/context` "
    "shows the size of the next request."
)


@command("costs", steering="between requests")
async def show_costs(turn: Turn, context: CommandContext) -> None:
    """Show the tokens and costs of this chat."""
    usage = context.chat.usage
    last, session = money(usage.last_cost), money(usage.cost)
    lines = [
        f"Tokens of all requests of this chat: {usage.tokens:,}",
        f"Last message: {f'${last}' if last else 'cost unknown'}",
        f"This chat: {f'${session}' if session else 'cost unknown'}",
        "",
        _WHY,
    ]
    turn.report("\n".join(lines))


@command(
    "compact",
    CommandArgument(name="instructions", description="Instructions for the summary."),
    asks_model=True,
    steering="between requests",
)
async def compact_chat(turn: Turn, context: CommandContext) -> None:
    """Summarize this chat to free space in the model's context."""
    if not has_past(turn):
        turn.report(NO_PAST)
        return
    wish = arguments_of(context.text)
    agent = await context.make_agent(turn, wish)
    if agent is None:
        return
    turn.limit = limit_of(agent.model)
    agent.record_request(
        turn, Request(system=agent.system, messages=(), tools=agent.toolbox.offered)
    )
    summary = await agent.compactor(turn).summarize(None, wish)
    if summary is None:
        turn.failed = True
    else:
        turn.report(summary)


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
        f"Tools ({len(tools)}):\n\n" + "\n".join(map(_line_of, tools)),
        _of_contexts(await agent.gather(is_preview=True)),
        _of_history(context.chat.history.model_context),
    ]
    turn.report("\n\n".join(part for part in parts if part))


def _line_of(tool: Tool) -> str:
    size = len(tool.description) + len(json.dumps(tool.parameters))
    return f"- `{tool.name}` ({size:,} characters)"


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

    draw = partial(draw_roots, workspace, gitignore=context.gitignore)
    turn.report(fenced(await trio.to_thread.run_sync(draw)))
