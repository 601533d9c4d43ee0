"""The system prompt, built once per chat and behavior."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from functools import partial

import attrs
import trio

from eca_protocol.server.roots import Root
from eca_server.agent.context.block import NOTICE
from eca_server.agent.context.instructions_files import has_template
from eca_server.agent.tools.files import printable
from eca_server.config.agent_settings import Behavior
from eca_server.config.files import Unreadable
from eca_server.config.settings import Config, agent_key
from eca_server.config.workspace_files import read_named
from eca_server.models.history import Message, TextPart

LARGEST_PROMPT = 256 * 1024
"""Bytes of the largest file with a prompt."""

_COMMON = (
    "You are ECA, a coding assistant inside the user's editor. Answer in Markdown. Be concise and "
    "exact. Put code in fenced blocks with the language named. Say so when you do not know."
)
_AGENT = (
    "Help the user reach the goal of the conversation. Continue until the task is done, and stop "
    "early only for a question that the user alone can answer.\n\n"
    "- Read the relevant code before you change it or describe it. Do not guess what a tool can "
    "show.\n"
    "- Change files with the tools. Do not print the changes in the answer instead.\n"
    "- Request independent tool calls together in one answer.\n"
    "- Follow the style of the surrounding code. Change only what the task needs.\n"
    "- Check the result with the project's tests, linters or diagnostics where there are any, and "
    "say what you did not check.\n"
    "- Do not commit, publish or delete anything unless the user asks for it.\n"
    "- End with a short summary of the changes."
)
_SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_SHOWN = 10  # names in one note
_DATE_NOTE = "The date is now "
_BEHAVIORS = {
    "plan": (
        "Plan before anything is changed: read the relevant code, then list the steps, the files "
        "they touch and the risks. Do not make the final change until the user asks for it."
    ),
}


def _today() -> str:
    return time.strftime("%Y-%m-%d")


@attrs.frozen(kw_only=True)
class System:
    """The system prompt of a chat's behavior.

    Attributes:
        text: the prompt without the MCP servers' instructions.
        model: the model that it was built for; None: it is the same for all.
        lists_skills: it lists skills that can be loaded.
        date: the date in it.
    """

    text: str
    model: str | None = None
    lists_skills: bool = False
    date: str = attrs.field(factory=_today)


def instructions(behavior: str, roots: Sequence[Root], own: str = "") -> str:
    """Return the system prompt for a behavior and a workspace; it has the present date.

    Args:
        behavior: a built-in behavior; for the user's own, its base (`Config.built_in`).
        roots: the roots of the workspace.
        own: the user's text, which replaces the built-in one.
    """
    parts = [own] if own else [_COMMON, _BEHAVIORS.get(behavior, _AGENT)]
    system = _SYSTEMS.get(sys.platform, sys.platform)
    parts.append(f"Operating system: {system}. Date: {_today()}.")
    if roots:
        folders = "\n".join(f"- {printable(root.path)}" for root in roots)
        parts.append(f"The user's workspace:\n{folders}\n\n{NOTICE}")
    return "\n\n".join(parts)


def date_note(system: System, messages: Sequence[Message]) -> str:
    """Return a note with the date for the next prompt; empty if the model was sent that date.

    Only the messages since the latest note are read, and none on the day of the instructions.
    """
    today = _today()
    if today == system.date:
        return ""
    note = f"{_DATE_NOTE}{today}."
    for message in reversed(messages):
        for part in message.parts:
            if isinstance(part, TextPart) and part.text.startswith(_DATE_NOTE):
                return "" if part.text == note else note
    return note


def template_note(files: Sequence[str], prompt: str, behavior: str) -> str:
    """Return a note about templates of upstream's, which are not rendered; empty if there are none.

    Args:
        files: the rules with templates.
        prompt: the agent's own prompt.
        behavior: the name of the agent.
    """
    names = [*files, *([f"the prompt of the agent {behavior}"] if has_template(prompt) else ())]
    shown = ", ".join(printable(name) for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    text = f"Templates are not rendered here, the model reads them as text: {shown}{more}."
    return text if names else ""


class UnreadablePrompt(Exception):
    """A file with a prompt that cannot be read; the message is for the user."""


async def own_prompt(config: Config, behavior: str) -> str:
    """Return the configured text that replaces the built-in instructions; empty if none.

    Raises:
        UnreadablePrompt: its file cannot be read.
    """
    own = config.behaviors.get(behavior, Behavior())
    if own.system_prompt or own.system_prompt_file is None:
        return own.system_prompt or config.prompts.chat or ""
    key = agent_key(behavior, "systemPromptFile")
    return await _text_of(own.system_prompt_file, key, "this chat uses ECA's built-in instructions")


async def compact_prompt(config: Config) -> str:
    """Return the configured instruction for summaries; empty if none.

    Raises:
        UnreadablePrompt: as in `own_prompt`.
    """
    if config.prompts.compact or config.compact_prompt_file is None:
        return config.prompts.compact or ""
    return await _text_of(
        config.compact_prompt_file, "compactPromptFile", "summaries use ECA's built-in instruction"
    )


async def _text_of(file: str, key: str, instead: str) -> str:
    try:
        read = partial(read_named, file, LARGEST_PROMPT)
        return (await trio.to_thread.run_sync(read, abandon_on_cancel=True)).strip()
    except Unreadable as fault:
        raise UnreadablePrompt(f"{key}: {file}: {fault.message}; {instead}.") from None
