"""A chat's title: one extra request to the model, beside the turn (ruling W-25)."""

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
    "user's language, plain text without quotes or a full stop. Answer with the title alone."
)


async def make_title(model: Model, prompt: str, instruction: str | None = None) -> str | None:
    """A short plain title for a chat that begins with `prompt`; None if the model has none.

    Args:
        model: who is asked.
        prompt: the user's.
        instruction: how it is asked; None: in our words.

    Raises:
        BackendError: the model could not be asked.
    """
    message = Message(role="user", parts=(TextPart(prompt[:_READ]),))
    text = await model.text(Request(system=_system(instruction), messages=[message]))
    lines = text.strip().splitlines()
    title = lines[0].strip().strip("\"'`*#").strip() if lines else ""
    if len(title) > LONGEST:
        title = title[: LONGEST - 1].rstrip() + "…"
    return title or None


def _system(instruction: str | None) -> str:
    """How it is asked; whatever words are the user's, the word title is among them (W-25)."""
    if not instruction or "title" in instruction.lower():
        return instruction or _INSTRUCTION
    return f"{instruction}\n\nAnswer with the title alone."


def shortened_title(message: str) -> str:
    """Return the first characters of a message in one line, as a title until a model makes one."""
    return " ".join(message.split())[:LONGEST]


def title_of_fork(title: str | None, taken: Container[str]) -> str:
    """`Title` becomes `Title (2)`, that one `Title (3)`; those that are `taken` are passed over."""
    title = title or "Untitled"
    numbered = _NUMBERED.fullmatch(title)
    words, number = (numbered[1], int(numbered[2])) if numbered else (title, 1)
    counted = (f"{words} ({more})" for more in itertools.count(number + 1))
    return next(each for each in counted if each not in taken)
