"""A request in the words of Ollama's own API. Pure functions.

The rule it keeps: nothing is cut silently. Ollama would leave out the oldest messages of what is
too long, tools and instructions among them; it is told to refuse instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eca_server.llm.backend import Request
from eca_server.llm.written import Written

__all__ = ["LEVELS", "think_value", "write_request"]

LEVELS = ("minimal", "low", "medium", "high", "xhigh", "max")
"""How much a model can be asked to think, in anybody's words, from little to much."""


def write_request(
    request: Request,
    *,
    messages: Written,
    wire_model: str,
    think: bool | str | None,
    context: int | None,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """The JSON object to post.

    Args:
        request: what is asked; its tools are those that the model can be given.
        messages: its history, written.
        wire_model: what the endpoint calls the model.
        think: whether, or how much, the model thinks; None: as it is used to.
        context: what the model is loaded with.
        options: the user's own; a null removes ours.
    """
    ours = {"num_ctx": context, "num_predict": request.max_output_tokens}
    payload: dict[str, Any] = {
        "model": wire_model,
        "messages": messages,
        "stream": True,
        "truncate": False,
        "shift": False,
        "options": {k: v for k, v in {**ours, **options}.items() if v is not None},
    }
    if request.tools and request.tool_choice != "none":
        payload["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.tools
        ]
    if think is not None:
        payload["think"] = think
    return payload


def think_value(
    effort: str | None, *, thinks: bool | None, efforts: Sequence[str]
) -> bool | str | None:
    """How a reasoning effort is asked for; None: not.

    Args:
        effort: as it was asked for.
        thinks: whether the model thinks; None: not known.
        efforts: how much it can be asked to, from little to much; empty: only whether.
    """
    if effort is None or thinks is False:
        return None
    if not efforts:
        return effort != "none"
    if effort in efforts or effort not in ("none", *LEVELS):
        return effort
    wanted = LEVELS.index(effort) if effort in LEVELS else -1
    below = [each for each in efforts if LEVELS.index(each) <= wanted]
    return below[-1] if below else efforts[0]
