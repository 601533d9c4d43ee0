"""A chat's title: one extra request to the model, in the background (ruling W-25)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Container

from eca_server.llm.backend import Request
from eca_server.llm.history import Message, TextPart
from eca_server.llm.models import Model

__all__ = ["make_title", "shortened_title", "title_of_fork"]

LONGEST = 60
_READ = 2000
_NUMBERED = re.compile(r"(.*?) \((\d{1,4})\)", re.DOTALL)
_INSTRUCTION = (
    "Write a title for a chat that begins with the user's message: at most six words, in the "
    "user's language, as plain text without quotes or a full stop. Output only the title."
)


async def make_title(model: Model, prompt: str, instruction: str | None = None) -> str | None:
    """Return a short plain title for a chat that begins with `prompt`; None for an empty one.

    Args:
        model: the model that writes the title.
        prompt: the first prompt.
        instruction: the instruction; None: the built-in one.

    Raises:
        BackendError: the request failed.
    """
    message = Message(role="user", parts=(TextPart(prompt[:_READ]),))
    text = await model.text(Request(system=_system(instruction), messages=[message]))
    lines = text.strip().splitlines()
    title = lines[0].strip().strip("\"'`*#").strip() if lines else ""
    if len(title) > LONGEST:
        title = title[: LONGEST - 1].rstrip() + "…"
    return title or None


def _system(instruction: str | None) -> str:
    """Return the instruction; make sure that it contains the word title (W-25)."""
    if not instruction or "title" in instruction.lower():
        return instruction or _INSTRUCTION
    return f"{instruction}\n\nOutput only the title."


def shortened_title(message: str) -> str:
    """Return the first characters of a message in one line, as a title until a model makes one."""
    return " ".join(message.split())[:LONGEST]


def title_of_fork(title: str | None, taken: Container[str]) -> str:
    """Return `Title (2)` for `Title`, and so on; skip titles that are `taken`."""
    title = title or "Untitled"
    numbered = _NUMBERED.fullmatch(title)
    words, number = (numbered[1], int(numbered[2])) if numbered else (title, 1)
    counted = (f"{words} ({more})" for more in itertools.count(number + 1))
    return next(each for each in counted if each not in taken)
