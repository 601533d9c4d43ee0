"""The codec of a draft connection: canonical types in the program, draft messages on the wire.

It has state: the conversion of a content depends on the turn's previous contents (`TurnWriter`,
`ChatReader`), and that of a model on the offered models. One codec serves one connection, on
either side. Text deltas, the most frequent contents, are converted on a fast path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eca_protocol import messages as m
from eca_protocol.codec import Codec, converter
from eca_protocol.codec.read import Mismatch
from eca_protocol.draft import models as d
from eca_protocol.draft.chat_reader import ChatReader
from eca_protocol.draft.code_blocks import CodeBlocks
from eca_protocol.draft.methods import DRAFT
from eca_protocol.draft.requests import (
    read_initialize,
    read_prompt,
    read_response,
    write_initialize,
    write_prompt,
    write_response,
)
from eca_protocol.draft.turn_writer import TurnWriter
from eca_protocol.errors import DecodeError, LocalProtocolError
from eca_protocol.messages import ChatContentReceivedParams, ChatTextContent
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision

CONTENT = "chat/contentReceived"
DECISIONS = ("chat/toolCallApprove", "chat/toolCallReject")
OCTOBER_METHODS = ("chat/promptStop", *DECISIONS)
"""The notifications that are sent although the draft lacks them: stop, approve, reject (W-52)."""

_READ_RESULTS: Mapping[str, Callable[[Any], Any]] = {
    "initialize": lambda _: m.InitializeResponse(),
    "chat/prompt": read_response,
}
_WRITE_PARAMS: Mapping[str, Callable[[Any], Any]] = {
    "initialize": write_initialize,
    "initialized": lambda _: d.InitializedParams(),
    "chat/prompt": write_prompt,
}
_WRITE_RESULTS: Mapping[str, Callable[[Any], Any]] = {
    "initialize": lambda _: d.InitializedResult(),
    "chat/prompt": write_response,
}


def _unchanged(value: Any) -> Any:
    return value


def _convert(writes: Mapping[str, Callable[[Any], Any]], method: str, value: Any) -> Any:
    try:
        return writes.get(method, _unchanged)(value)
    except (AttributeError, TypeError, DecodeError) as error:
        raise LocalProtocolError(f"{method}: {error}") from error


class DraftCodec:
    """The conversion of canonical messages to the draft's and back, with the errors of `Codec`.

    October's requests and notifications that a draft client sends are read and answered as in
    October.
    """

    def __init__(self) -> None:
        self._draft = Codec(DRAFT, Revision.DRAFT)
        self._october = Codec(ECA, Revision.R2025_10)
        self._models: tuple[str, ...] = ()
        self._writers: dict[str, TurnWriter] = {}
        self._open_texts: dict[str, CodeBlocks] = {}
        self._readers: dict[str, ChatReader] = {}
        self._running: set[str] = set()
        october = converter(Revision.R2025_10)
        self._structure_content = october.get_structure_hook(ChatContentReceivedParams)

    def __repr__(self) -> str:
        return f"DraftCodec({self._draft.revision})"

    def decode_params(self, method: str, raw: Any) -> Any:
        """Return the typed params of `method`."""
        if method == "chat/prompt":
            return read_prompt(self._draft.decode_params(method, raw), self._models)
        if method == "initialize":
            return read_initialize(self._draft.decode_params(method, raw))
        params = self._october.decode_params(method, raw)
        if isinstance(params, m.ChatDeleteParams):
            self._writers.pop(params.chat_id or "", None)
            self._open_texts.pop(params.chat_id or "", None)
        return params

    def decode_result(self, method: str, raw: Any) -> Any:
        """Return the typed result of `method`.

        Raises:
            RequestFailed: the server cannot start the prompt's turn.
        """
        return _READ_RESULTS.get(method, _unchanged)(self._draft.decode_result(method, raw))

    def encode_params(self, method: str, params: Any) -> Any:
        """Return the raw params of `method`."""
        if method not in DRAFT:
            raise LocalProtocolError(f"{method} does not exist in revision {Revision.DRAFT.value}")
        return self._draft.encode_params(method, _convert(_WRITE_PARAMS, method, params))

    def encode_result(self, method: str, result: Any) -> Any:
        """Return the raw result of `method`."""
        if method not in _WRITE_RESULTS:
            return self._october.encode_result(method, result)
        return self._draft.encode_result(method, _convert(_WRITE_RESULTS, method, result))

    def incoming(self, method: str, raw: Any) -> Sequence[tuple[str, Any]]:
        """Return a raw notification as typed ones: a draft content may become several."""
        if method == CONTENT:
            return self._read_text_delta(raw) or self._read_content(raw)
        if method in DECISIONS:
            raw = self._with_call_id(raw)
        return ((method, self.decode_params(method, raw)),)

    def _read_text_delta(self, raw: Any) -> Sequence[tuple[str, Any]]:
        """Read a mere text delta of a running turn; return nothing for other contents."""
        try:
            chat_id, content = raw["chatId"], raw["content"]
            if (
                raw["isComplete"] is False
                and chat_id in self._running
                and content["type"] == "text"
                and len(content) == 2
                and len(raw) == 3
            ):
                delta = {"chatId": chat_id, "role": "assistant", "content": content}
                return ((CONTENT, self._structure_content(delta, None)),)
        except (KeyError, TypeError, Mismatch):
            pass
        return ()

    def _read_content(self, raw: Any) -> Sequence[tuple[str, Any]]:
        received = self._draft.decode_params(CONTENT, raw)
        chat_id = received.chat_id
        reader = self._readers.setdefault(chat_id, ChatReader())
        contents = list(reader.read(received, raw))
        (self._running.add if reader.is_running else self._running.discard)(chat_id)
        return [
            (CONTENT, ChatContentReceivedParams(chat_id=chat_id, role=role, content=content))
            for role, content in contents
        ]

    def _with_call_id(self, raw: Any) -> Any:
        """Add the id of the chat's only waiting call, since the draft has no call ids (W-52)."""
        chat_id = raw.get("chatId") if isinstance(raw, dict) else None
        writer = self._writers.get(chat_id) if isinstance(chat_id, str) else None
        if writer is None or len(writer.pending_approvals) != 1:
            return raw
        return {**raw, "toolCallId": next(iter(writer.pending_approvals))}

    def outgoing(self, method: str, params: Any) -> Sequence[tuple[str, Any]]:
        """Return a typed notification as raw ones; none if the draft has no counterpart."""
        if params.__class__ is ChatContentReceivedParams:
            content, blocks = params.content, self._open_texts.get(params.chat_id)
            if (
                blocks is not None
                and content.__class__ is ChatTextContent
                and params.role == "assistant"
                and blocks.take_plain(content.text)
            ):
                text = {"type": "text", "text": content.text}
                return (
                    (CONTENT, {"chatId": params.chat_id, "content": text, "isComplete": False}),
                )
            return self._write_content(params)
        match params:
            case m.ConfigUpdatedParams(chat=m.ChatConfig(models=models)):
                self._models = models or self._models
            case m.ChatToolCallApproveParams(chat_id=chat_id) if chat_id in self._readers:
                self._readers[chat_id].approve(params.tool_call_id)
        if method in DRAFT:
            return ((method, self.encode_params(method, params)),)
        notifications = self._october.outgoing(method, params)
        return notifications if method in OCTOBER_METHODS else ()

    def _write_content(self, params: ChatContentReceivedParams) -> Sequence[tuple[str, Any]]:
        if params.parent_chat_id is not None:
            return ()
        chat_id = params.chat_id
        writer = self._writers.setdefault(chat_id, TurnWriter(chat_id))
        contents = list(writer.write(params.role, params.content))
        self._open_texts.pop(chat_id, None)
        if contents and contents[-1].is_complete:
            del self._writers[chat_id]
        elif writer.continues_text:
            self._open_texts[chat_id] = writer.blocks
        return [(CONTENT, self._draft.encode_params(CONTENT, each)) for each in contents]
