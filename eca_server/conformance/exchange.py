"""The exchange of a finding as a sequence diagram: a lane for each party, an arrow a message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from eca_protocol.testing.conformance.verdicts import Exchanged, Party
from eca_protocol.transcript.splitter import header_of, message_in
from eca_server.pages import shown

__all__ = ["exchange", "label"]

_LANES: Final[tuple[Party, ...]] = ("client", "server", "model")
_LONGEST: Final = 90  # characters of a label


def exchange(passed: Sequence[Exchanged], breach: int | None) -> Iterator[str]:
    """HTML of the diagram.

    Args:
        passed: what passed, in order.
        breach: the place of what broke the row; None: nothing in particular did.
    """
    lanes = [lane for lane in _LANES if any(lane in (each.source, each.target) for each in passed)]
    names = "".join(f"<b>{lane}</b>" for lane in lanes)
    yield f'<div class="heads">{names}</div><div class="lanes of{len(lanes)}">'
    start = passed[0].at if passed else 0.0
    for place, each in enumerate(passed):
        start_lane, end_lane = lanes.index(each.source), lanes.index(each.target)
        left = min(start_lane, end_lane)
        way = "right" if start_lane < end_lane else "left"
        broken = " broken" if place == breach else ""
        yield f'<details class="arrow {way} from{left}{broken}"><summary>'
        yield f"{shown(label(each))}<small>{each.at - start:+.3f} s</small></summary>"
        yield f"<pre>{shown(_whole(each))}</pre></details>"
    yield "</div>\n"


def label(passed: Exchanged) -> str:
    """What passed, in a few words."""
    text = _label(passed)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _label(passed: Exchanged) -> str:
    if "model" in (passed.source, passed.target):
        first = passed.data.decode("utf-8", "replace").partition("\n")[0]
        return first if passed.source == "model" else "a request for an answer"
    header = header_of(passed.data)
    message = message_in(passed.data[header[0] :]) if header else None
    if message is None:
        return f"{passed.size} bytes"
    method = message.get("method")
    if not isinstance(method, str):
        error = message.get("error")
        came = f"error {_code(error)}" if "error" in message else "result"
        return f"{came} for id {message.get('id')!r}"
    about = _about(message.get("params"))
    id_ = f" (id {message['id']!r})" if "id" in message else ""
    return f"{method}{id_}{': ' if about else ''}{about}"


def _code(error: object) -> object:
    return error.get("code") if isinstance(error, Mapping) else error


def _about(params: Any) -> str:
    """What tells this message from others of its method."""
    if not isinstance(params, Mapping):
        return ""
    content = params.get("content")
    if isinstance(content, Mapping):
        words = [content.get(key) for key in ("type", "state", "name", "text", "argumentsText")]
    else:
        words = [params.get(key) for key in ("message", "query", "toolCallId", "name", "status")]
    return " ".join(str(word) for word in words if isinstance(word, str) and word)


def _whole(passed: Exchanged) -> str:
    text = passed.data.decode("utf-8", "backslashreplace")
    left_out = passed.size - len(passed.data)
    return f"{text}\n... cut, {left_out:,} bytes left out ..." if left_out else text
