"""The server's messages to the user outside of any chat (chapter "General features")."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from eca_protocol.messages.marks import UnknownValue

MessageType: TypeAlias = Literal["error", "warning", "info"] | UnknownValue
ProgressType: TypeAlias = Literal["start", "finish"] | UnknownValue


@attrs.frozen(kw_only=True)
class ShowMessageParams:
    """`$/showMessage`: a message for the user."""

    type: MessageType
    message: str


@attrs.frozen(kw_only=True)
class ProgressParams:
    """`$/progress`: the start or end of a task during the server's start (W-11)."""

    type: ProgressType
    task_id: str
    title: str
