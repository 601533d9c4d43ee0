"""Results, checked against their requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eca_protocol.codec import Codec
from eca_protocol.errors import METHOD_NOT_FOUND, REQUEST_CANCELLED, DecodeError
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_protocol.testing.members import at
from eca_protocol.testing.watching.announcements import is_model
from eca_protocol.testing.watching.observation import ObservationLog
from eca_protocol.testing.watching.requests import PROMPTS, PendingRequest

_MOST: Final = 200


def check_result(log: ObservationLog, request: PendingRequest, message: Mapping[str, Any]) -> None:
    """Check a response to `initialize`, `shutdown`, a prompt or a query that had to be served."""
    params = request.params if isinstance(request.params, Mapping) else {}
    result = message.get("result")
    if request.method == "initialize":
        _check_welcome(log, result)
    elif request.method == "shutdown" and result is not None:
        log.report("LIFE-18", "null as the result of `shutdown`", repr(result)[:60])
    elif message.get("error") is not None:
        if request.method in PROMPTS and not request.is_second:
            _check_refusal(log, request.method, request.params, message["error"])
    elif not isinstance(result, Mapping):
        return
    elif request.method in PROMPTS:
        model = result.get("model")
        if not is_model(model) and model != params.get("model"):
            log.report("W-21b", "a model named provider/model", repr(model))
    elif request.method in {"chat/queryContext", "chat/queryFiles"}:
        _check_chat_id(log, params, result)
        contexts = result.get("contexts", result.get("files"))
        if isinstance(contexts, list) and len(contexts) > _MOST:
            log.report("W-40a", f"at most {_MOST} contexts", str(len(contexts)))
    elif request.method == "chat/queryCommands":
        _check_chat_id(log, params, result)


def _check_welcome(log: ObservationLog, result: Any) -> None:
    if not isinstance(result, Mapping) or log.revision is Revision.DRAFT:
        return
    if not isinstance(result.get("chatWelcomeMessage"), str):
        log.report(
            "W-10a", "a string as `chatWelcomeMessage`", repr(result.get("chatWelcomeMessage"))
        )


def _check_refusal(log: ObservationLog, method: str, params: Any, error: Any) -> None:
    code = at(error, "code")
    is_unknown = code == METHOD_NOT_FOUND and method != "chat/prompt"
    if code == REQUEST_CANCELLED or is_unknown:
        return
    try:
        Codec(ECA, Revision.CURRENT).decode_params(method, params)
    except DecodeError:
        return
    log.report("W-21d", "a result for a well-formed prompt", f"the error {code}")


def _check_chat_id(
    log: ObservationLog, params: Mapping[str, Any], result: Mapping[str, Any]
) -> None:
    queried, returned = params.get("chatId"), result.get("chatId")
    if returned != queried:
        row = "W-40e" if queried is None else "CHAT-29"
        expected = f"the `chatId` of the query, {queried!r}"
        log.note(row, expected, repr(returned), paths=("result.chatId",))
