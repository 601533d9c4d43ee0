"""The reasoning efforts of well-known models, by name, for endpoints that do not list them.

They are offered as variants. Each API decides how an effort is requested.
"""

from __future__ import annotations

import re
from typing import Final

from eca_server.models.apis import APIS

DEEPSEEK_V4: Final = re.compile(r"deepseek[-._]v4[-._](?:pro|flash)")

_GPT: Final = re.compile(r"gpt[-._](\d+)(?:[-._](\d{1,2})(?!\d))?(.*)")


def efforts_of(model: str, api: str, *, is_openrouter: bool = False) -> tuple[str, ...] | None:
    """Return the efforts that a model accepts, from lowest to highest; None: unknown.

    `is_openrouter`: whether the endpoint is OpenRouter, which passes efforts on to Claude.
    """
    name = model.lower()
    if api in APIS and APIS[api].own_efforts:
        return None
    if api == "anthropic" or (is_openrouter and "claude-" in name):
        from eca_server.models.anthropic.thinking import (  # noqa: PLC0415 - only where needed
            thinking_by_name,
        )

        return thinking_by_name(name).efforts or None
    if api == "openai-chat" and DEEPSEEK_V4.search(name):
        return ("none", "high", "max")
    return _of_gpt(name)


def _of_gpt(name: str) -> tuple[str, ...] | None:
    match = _GPT.search(name)
    if match is None or re.search(r"chat|-pro\b", match[3]):
        return None  # those accept different ones
    version = int(match[1]), int(match[2] or 0)
    efforts = ("none", "low", "medium", "high", "xhigh", "max")
    if version >= (6, 0):
        return efforts[1:] if "astra" in match[3] else efforts
    if version >= (5, 6):
        return efforts
    if version in ((5, 2), (5, 4), (5, 5)) or (version == (5, 3) and "codex" in match[3]):
        return efforts[:-1]
    return None
