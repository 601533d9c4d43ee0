"""A request in the format of Ollama's own API. Pure functions.

Input is never truncated silently: by default Ollama drops the oldest messages, tools and
instructions included; the request tells it to refuse instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eca_server.models.backend import Request
from eca_server.models.calls import function_tool
from eca_server.models.encoding import EncodedJSON

LEVELS = ("minimal", "low", "medium", "high", "xhigh", "max")
"""The reasoning efforts of all APIs, from lowest to highest."""


def write_request(
    request: Request,
    *,
    messages: EncodedJSON,
    wire_model: str,
    think: bool | str | None,
    context: int | None,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the JSON object to post.

    Args:
        request: the request, with tools only if the model supports them.
        messages: its encoded history.
        wire_model: the endpoint's name of the model.
        think: the value of `think`; None: the field is omitted.
        context: the context size.
        options: the user's options; a null removes ours.
    """
    defaults = {"num_ctx": context, "num_predict": request.max_output_tokens}
    payload: dict[str, Any] = {
        "model": wire_model,
        "messages": messages,
        "stream": True,
        "truncate": False,
        "shift": False,
        "options": {k: v for k, v in {**defaults, **options}.items() if v is not None},
    }
    if request.tools and request.tool_choice != "none":
        payload["tools"] = [function_tool(tool) for tool in request.tools]
    if think is not None:
        payload["think"] = think
    return payload


def think_value(
    effort: str | None, *, thinks: bool | None, efforts: Sequence[str]
) -> bool | str | None:
    """Return the value of `think` for a reasoning effort; None: the field is omitted.

    Args:
        effort: the requested effort.
        thinks: whether the model reasons; None: unknown.
        efforts: its efforts, from lowest to highest; empty: reasoning is on or off.
    """
    if effort is None or thinks is False:
        return None
    if not efforts:
        return effort != "none"
    if effort in efforts or effort not in ("none", *LEVELS):
        return effort
    requested = LEVELS.index(effort) if effort in LEVELS else -1
    below = [each for each in efforts if LEVELS.index(each) <= requested]
    return below[-1] if below else efforts[0]
