"""The fold of both sides' raw messages, from a connection or a transcript."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from eca_protocol import json
from eca_protocol import messages as m
from eca_protocol.draft import codec_for
from eca_protocol.fold.fold import Fold
from eca_protocol.fold.rules import Violation
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision, detect, forced_revision

_SELECTION_KEYS: Final = {
    "chat/selectedModelChanged": ("model", "model"),
    "chat/selectedAgentChanged": ("agent", "behavior"),
    "chat/selectedBehaviorChanged": ("behavior", "behavior"),
}
"""The methods of the user's selections: the member of the params, and the kind of selection."""


class Conversation:
    """A fold of the messages between a client and a server, in any edition.

    The client's `initialize` decides if the connection uses the draft.

    Args:
        revision: the edition, if it is known otherwise.
    """

    def __init__(self, revision: Revision | None = None) -> None:
        self.fold: Fold = Fold()
        self._revision = revision
        self._codec = codec_for(revision or Revision.CURRENT)
        self._deletes: dict[bytes, str] = {}
        self._prompted_after_delete: set[str] = set()

    def passed(
        self, side: Literal["client", "server"], message: Mapping[str, Any]
    ) -> tuple[Violation, ...]:
        """Take the next message that `side` wrote; return the rules that it breaks.

        Raises:
            DecodeError: a notification of the server does not fit its type.
        """
        method, params = message.get("method"), message.get("params")
        if method is not None and not isinstance(method, str):
            return ()
        if side == "client":
            self._take_client_message(method, params, message.get("id"))
            return ()
        if method is None:
            chat_id = self._deletes.pop(_key(message.get("id")), None)
            if chat_id is not None and message.get("error") is None:
                self.fold.on_deleted(chat_id)
                if chat_id in self._prompted_after_delete:
                    self.fold.on_prompt(chat_id)
            return ()
        if method not in ECA or "id" in message:
            return ()
        notifications = self._codec.incoming(method, params)
        return tuple(violation for each in notifications for violation in self.fold.take(*each))

    def _take_client_message(self, method: Any, params: Any, request_id: Any) -> None:
        raw_id = params.get("chatId") if isinstance(params, Mapping) else None
        chat_id = raw_id if isinstance(raw_id, str) and raw_id else None
        if method == "initialize" and self._revision is None:
            self._codec = codec_for(_revision_of(params))
        elif method in {"chat/prompt", "chat/inlinePrompt"}:
            self.fold.on_prompt(chat_id)
            self._prompted_after_delete |= {chat_id} if chat_id else set()
        elif method == "chat/delete" and chat_id is not None:
            self._deletes[_key(request_id)] = chat_id
            self._prompted_after_delete.discard(chat_id)
            self.fold.on_delete_request(chat_id)
        elif method in {"chat/fork", "chat/rollback"} and chat_id is not None:
            self.fold.allow_report(chat_id)
        elif method == "chat/toolCallApprove" and chat_id is not None:
            call_id = params.get("toolCallId")
            approved = m.ChatToolCallApproveParams(
                chat_id=chat_id, tool_call_id=call_id if isinstance(call_id, str) else ""
            )
            self._codec.outgoing(method, approved)  # the draft's codec records approvals
        elif method in _SELECTION_KEYS and isinstance(params, Mapping) and chat_id is None:
            name, part = _SELECTION_KEYS[method]
            if isinstance(params.get(name), str):
                self.fold.on_selection(**{part: params[name]})


def _key(request_id: Any) -> bytes:
    """Return a request's id with its JSON type: `1` and `"1"` differ."""
    return json.dumps(request_id)


def _revision_of(initialize_params: Any) -> Revision:
    try:
        return forced_revision(initialize_params) or detect(initialize_params)
    except ValueError:
        return Revision.CURRENT
