"""The values that the handlers of a server take and return, and its tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs

from eca_protocol import messages as m
from eca_protocol.errors import LocalProtocolError

__all__ = [
    "ChatMessage",
    "ContextQuery",
    "ContextQueryHandler",
    "Prompt",
    "Tool",
    "ToolResult",
    "Work",
    "check_list",
]


def check_list(name: str, value: object) -> None:
    """Refuse a text in place of a list of texts.

    Raises:
        LocalProtocolError: it is a text.
    """
    if isinstance(value, str):
        raise LocalProtocolError(f"{name}: expected a list: [{value!r}], got {value!r}")


@attrs.frozen(kw_only=True)
class Prompt:
    """A prompt of the user (chapter "Chat Prompt").

    Attributes:
        text: the exact text.
        arguments: the text behind the name of a command; empty for other prompts.
        contexts: the contexts that the user has added; unknown ones are left out.
        model: the selected model, one of the server's.
        agent: the selected agent, one of the server's.
        content_id: the id of the message, in its echo and in later requests.
    """

    text: str
    arguments: str = ""
    contexts: tuple[m.ChatContext, ...] = ()
    model: str = ""
    agent: str = ""
    content_id: str = ""


@attrs.frozen
class ChatMessage:
    """A message of a chat's history.

    Attributes:
        role: the user, or the assistant, which is the server.
        text: the whole text.
    """

    role: Literal["user", "assistant"]
    text: str


@attrs.frozen(kw_only=True)
class ContextQuery:
    """A query for contexts, while the user types (chapter "Chat Query Context").

    Attributes:
        text: the text to find; a blank text matches everything (W-40).
        roots: the directories of the workspace.
        chat_id: the chat, if the client names one.
        contexts: the contexts that the user has added already.
    """

    text: str
    roots: tuple[Path, ...] = ()
    chat_id: str | None = None
    contexts: tuple[m.ChatContext, ...] = ()


@attrs.frozen
class ToolResult:
    """The end of a tool call.

    Attributes:
        verdict: `called`, `failed` (the work has raised, or the tool is unknown), or `rejected`.
        text: the output, the error, or an empty text after a rejection.
    """

    verdict: Literal["called", "failed", "rejected"]
    text: str = ""


ContextQueryHandler: TypeAlias = Callable[[ContextQuery], Awaitable[Iterable[m.ChatContext]]]
"""Finds contexts."""

Work: TypeAlias = Callable[[dict[str, Any]], Awaitable[str]]
"""The work of a tool: takes the arguments and returns the output."""


@attrs.frozen(kw_only=True)
class Tool:
    """A tool of the server.

    Attributes:
        shown: the tool as it is announced.
        work: the work.
        needs_approval: whether the user is asked before the work starts.
    """

    shown: m.ServerTool
    work: Work
    needs_approval: bool
