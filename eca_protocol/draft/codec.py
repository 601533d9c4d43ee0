"""The codec of a draft connection: the canonical types above, the draft's messages on the wire.

It has memory: what a turn's contents come to depends on those before (`telling`, `hearing`), and
which model a client means on those it could choose from. One codec serves one connection, on
either side of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eca_protocol import messages as m
from eca_protocol.codec import Codec
from eca_protocol.draft import models as d
from eca_protocol.draft.handshake import read_initialize, write_initialize
from eca_protocol.draft.hearing import Hearing
from eca_protocol.draft.methods import DRAFT
from eca_protocol.draft.prompts import (
    read_prompt,
    read_response,
    write_prompt,
    write_response,
)
from eca_protocol.draft.telling import Telling
from eca_protocol.errors import LocalProtocolError
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision

__all__ = ["DraftCodec"]

_NAME = Revision.DRAFT.value

CONTENT = "chat/contentReceived"
DECISIONS = ("chat/toolCallApprove", "chat/toolCallReject")
OCTOBERS = ("chat/promptStop", *DECISIONS)
"""Notifications that the draft lacks and we write all the same: stop, approve, reject (W-52)."""


class DraftCodec:
    """Canonical messages to the draft's and back; see `Codec` for what its methods raise.

    Requests and notifications of October's that a draft client sends are read and answered as in
    October: it asked for them.
    """

    def __init__(self) -> None:
        self._draft = Codec(DRAFT, Revision.DRAFT)
        self._october = Codec(ECA, Revision.R2025_10)
        self._models: tuple[str, ...] = ()
        self._told: dict[str, Telling] = {}
        self._heard: dict[str, Hearing] = {}

    def __repr__(self) -> str:
        return f"DraftCodec({self._draft.revision})"

    def decode_params(self, method: str, raw: Any) -> Any:
        """The typed params of `method`."""
        if method not in DRAFT:
            return self._decode_october(method, raw)
        params = self._draft.decode_params(method, raw)
        match params:
            case d.InitializeParams():
                return read_initialize(params)
            case d.InitializedParams():
                return m.InitializedParams()
            case d.ChatPromptParams():
                return read_prompt(params, self._models)
            case _:
                return params

    def _decode_october(self, method: str, raw: Any) -> Any:
        params = self._october.decode_params(method, raw)
        if isinstance(params, m.ChatDeleteParams):
            self._told.pop(params.chat_id or "", None)
        return params

    def decode_result(self, method: str, raw: Any) -> Any:
        """The typed result of `method`.

        Raises:
            RequestFailed: the server says that the prompt's turn cannot start.
        """
        result = self._draft.decode_result(method, raw)
        match result:
            case d.InitializedResult():
                return m.InitializeResponse()
            case d.ChatPromptResponse():
                return read_response(result)
            case _:
                return result

    def encode_params(self, method: str, params: Any) -> Any:
        """The raw params of `method`."""
        if method not in DRAFT:
            raise LocalProtocolError(f"{method} does not exist in revision {_NAME}")
        match params:
            case m.InitializeParams():
                params = write_initialize(params)
            case m.InitializedParams():
                params = d.InitializedParams()
            case m.ChatPromptParams():
                params = write_prompt(params)
        return self._draft.encode_params(method, params)

    def encode_result(self, method: str, result: Any) -> Any:
        """The raw result of `method`."""
        match result:
            case m.InitializeResponse():
                return self._draft.encode_result(method, d.InitializedResult())
            case m.ChatPromptResponse():
                return self._draft.encode_result(method, write_response(result))
            case _:
                return self._october.encode_result(method, result)

    def incoming(self, method: str, raw: Any) -> Sequence[tuple[str, Any]]:
        """A raw notification as typed ones: a content of the draft's may be several."""
        if method == CONTENT:
            return self._hear(raw)
        if method in DECISIONS:
            raw = self._of_the_only_call(raw)
        return ((method, self.decode_params(method, raw)),)

    def _hear(self, raw: Any) -> Sequence[tuple[str, Any]]:
        if _is_delta(raw):
            hearing = self._heard.get(raw["chatId"])
            if hearing is not None and hearing.runs:  # what most of a turn is made of
                delta = {"chatId": raw["chatId"], "role": "assistant", "content": raw["content"]}
                return self._october.incoming(CONTENT, delta)
        received = self._draft.decode_params(CONTENT, raw)
        chat_id = received.chat_id
        hearing = self._heard.setdefault(chat_id, Hearing())
        return [
            (CONTENT, m.ChatContentReceivedParams(chat_id=chat_id, role=role, content=content))
            for role, content in hearing.hear(received, raw)
        ]

    def _of_the_only_call(self, raw: Any) -> Any:
        """A decision that names no waiting call means the chat's only one: the draft has no ids."""
        chat_id = raw.get("chatId") if isinstance(raw, dict) else None
        told = self._told.get(chat_id) if isinstance(chat_id, str) else None
        if told is None or len(told.asked) != 1:
            return raw
        return {**raw, "toolCallId": next(iter(told.asked))}

    def outgoing(self, method: str, params: Any) -> Sequence[tuple[str, Any]]:
        """A typed notification as raw ones; none at all where the draft has nothing like it."""
        if params.__class__ is m.ChatContentReceivedParams:
            return self._tell(params)
        match params:
            case m.ConfigUpdatedParams(chat=m.ChatConfig(models=models)):
                self._models = models or self._models
            case m.ChatToolCallApproveParams(chat_id=chat_id) if chat_id in self._heard:
                self._heard[chat_id].approved.add(params.tool_call_id)
        if method in DRAFT:
            return ((method, self.encode_params(method, params)),)
        written = self._october.outgoing(method, params)
        return written if method in OCTOBERS else ()

    def _tell(self, params: m.ChatContentReceivedParams) -> Sequence[tuple[str, Any]]:
        if params.parent_chat_id is not None:
            return ()
        chat_id, role, content = params.chat_id, params.role, params.content
        telling = self._told.get(chat_id) or self._told.setdefault(chat_id, Telling(chat_id))
        if (
            content.__class__ is m.ChatTextContent
            and role == "assistant"
            and telling.goes_on(content.text)
        ):  # what most of a turn is made of
            text = {"type": "text", "text": content.text}
            return ((CONTENT, {"chatId": chat_id, "content": text, "isComplete": False}),)
        told = list(telling.tell(role, content))
        if told and told[-1].is_complete:
            del self._told[chat_id]
        return [(CONTENT, self._draft.encode_params(CONTENT, each)) for each in told]


def _is_delta(raw: Any) -> bool:
    """Whether a content is a piece of text, with nothing beside it that is to be read."""
    if raw.__class__ is not dict or len(raw) != 3 or raw.get("isComplete") is not False:
        return False
    content, chat_id = raw.get("content"), raw.get("chatId")
    return (
        content.__class__ is dict
        and chat_id.__class__ is str
        and len(content) == 2
        and content.get("type") == "text"
        and bool(content.get("text"))
    )
