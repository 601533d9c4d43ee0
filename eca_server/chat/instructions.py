"""What a model is told about its part, once per chat and behaviour (design decision 20)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import trio

from eca_server.config import Behavior, Config
from eca_server.config.files import Unreadable, read_text
from eca_server.workspace import Root

__all__ = ["UnreadablePrompt", "instructions", "own_prompt"]

LARGEST_PROMPT = 256 * 1024
"""Bytes of a `systemPromptFile`."""

_COMMON = (
    "You are ECA, a coding assistant inside the user's editor. Answer in Markdown. Be concise and "
    "exact; show code in fenced blocks with the language named. Say so when you do not know."
)
_AGENT = "Help the user reach the goal of the conversation."
_BEHAVIORS = {
    "plan": (
        "Make a plan before anything is changed: name the steps, the files they touch and what "
        "could go wrong. Do not write the final change until the user asks for it."
    ),
}


def instructions(behavior: str, roots: Sequence[Root], own: str = "") -> str:
    """The system prompt of a chat with that behaviour in that workspace.

    Args:
        behavior: its name; one of the user's own is told what an agent is told.
        roots: the workspace.
        own: the user's text, which stands in place of ours.
    """
    parts = [own] if own else [_COMMON, _BEHAVIORS.get(behavior, _AGENT)]
    if roots:
        folders = "\n".join(f"- {root.path}" for root in roots)
        parts.append(f"The user's workspace:\n{folders}")
    return "\n\n".join(parts)


class UnreadablePrompt(Exception):
    """A `systemPromptFile` that cannot be read; the message is for the user."""


async def own_prompt(config: Config, behavior: str) -> str:
    """What the user configured in place of our instructions; empty if nothing.

    Raises:
        UnreadablePrompt: it stands in a file that cannot be read.
    """
    own = config.behaviors.get(behavior, Behavior())
    if own.system_prompt or own.system_prompt_file is None:
        return own.system_prompt or config.system_prompt or ""
    path = Path(own.system_prompt_file)
    try:
        read = partial(read_text, path, most=LARGEST_PROMPT)
        return (await trio.to_thread.run_sync(read, abandon_on_cancel=True)).strip()
    except Unreadable as fault:
        raise UnreadablePrompt(
            f"behavior.{behavior}.systemPromptFile: {path}: {fault.message}; "
            "this chat has ECA's own instructions."
        ) from None
