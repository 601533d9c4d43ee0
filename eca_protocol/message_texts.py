"""Messages to JSON texts and back in one step, for programs without a connection."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from eca_protocol import json
from eca_protocol.codec import Codec, converter
from eca_protocol.codec.write import NotInRevision
from eca_protocol.errors import LocalProtocolError
from eca_protocol.messages.marks import Unknown
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision

__all__ = ["dumps", "loads"]


def loads(
    method: str,
    text: str | bytes,
    *,
    part: Literal["params", "result"] = "params",
    revision: Revision = Revision.CURRENT,
) -> Any:
    """Return the message of a method from its JSON text.

    Args:
        method: the method's name, such as `chat/prompt`.
        text: the JSON text of the `params` or of the `result`.
        part: the part of the method that the text is.
        revision: the edition of the protocol; the draft has no messages of its own here.

    Raises:
        InvalidJSON: the text is not JSON.
        DecodeError: the text does not fit the method.
        LocalProtocolError: there is no such method, or the edition is the draft.
    """
    codec = Codec(ECA, _stateless(revision))
    decode = codec.decode_params if part == "params" else codec.decode_result
    return decode(method, json.loads(text))


def dumps(message: Any, *, revision: Revision = Revision.CURRENT) -> str:
    """Return the JSON text of a message: of params, a result or a part of one.

    Raises:
        LocalProtocolError: it is no message, not one of the edition, or contains values that are
            not JSON.
    """
    cls = type(message)
    if not attrs.has(cls):
        raise LocalProtocolError(f"expected a message, got a {cls.__name__}")
    if isinstance(message, Unknown):
        return json.dumps(message.raw).decode()
    write = converter(_stateless(revision)).get_unstructure_hook(cls)
    try:
        return json.dumps(write(message)).decode()
    except (NotInRevision, AttributeError, TypeError) as error:
        raise LocalProtocolError(f"{cls.__name__}: {error}") from error


def _stateless(revision: Revision) -> Revision:
    if revision is Revision.DRAFT:
        raise LocalProtocolError(
            "the draft of June 2025 depends on earlier messages: use codec_for(Revision.DRAFT)"
        )
    return revision
