"""The exchange of a finding as a sequence diagram: a lane a party, an arrow a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from eca_protocol.testing.conformance.verdicts import Party, Transmission
from eca_protocol.transcript.splitter import header_of, message_in

_LANES: Final[tuple[Party, ...]] = ("client", "server", "model")
_LONGEST: Final = 90  # characters of a label


Arrow: TypeAlias = tuple[str, str, float, str]
"""A message's style, its label, its time in seconds since the first one, and its full text."""


def draw_exchange(
    passed: Sequence[Transmission], breach: int | None
) -> tuple[Sequence[Party], Sequence[Arrow]]:
    """Return the lanes and the arrows of the diagram.

    `breach` is the index of the message that breaks the requirement.
    """
    lanes = [lane for lane in _LANES if any(lane in (each.source, each.target) for each in passed)]
    arrows = []
    for place, each in enumerate(passed):
        start, end = lanes.index(each.source), lanes.index(each.target)
        style = f"{'right' if start < end else 'left'} from{min(start, end)}"
        broken = " broken" if place == breach else ""
        delay = each.at - passed[0].at
        arrows.append((f"{style}{broken}", message_label(each), delay, _full_text(each)))
    return lanes, arrows


def message_label(passed: Transmission) -> str:
    """Return a short label of a message."""
    text = _label(passed)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _label(passed: Transmission) -> str:
    if "model" in (passed.source, passed.target):
        first = passed.data.decode("utf-8", "replace").partition("\n")[0]
        return first if passed.source == "model" else "model request"
    header = header_of(passed.data)
    message = message_in(passed.data[header[0] if header else 0 :])
    if message is None:
        return f"{passed.size} bytes"
    method = message.get("method")
    if not isinstance(method, str):
        error = message.get("error")
        outcome = f"error {_code(error)}" if "error" in message else "result"
        return f"{outcome} for id {message.get('id')!r}"
    summary = _summary(message.get("params"))
    id_ = f" (id {message['id']!r})" if "id" in message else ""
    return f"{method}{id_}{': ' if summary else ''}{summary}"


def _code(error: object) -> object:
    return error.get("code") if isinstance(error, Mapping) else error


def _summary(params: Any) -> str:
    """Return the content that distinguishes this message from others of its method."""
    if not isinstance(params, Mapping):
        return ""
    content = params.get("content")
    if isinstance(content, Mapping):
        words = [content.get(key) for key in ("type", "state", "name", "text", "argumentsText")]
    else:
        words = [params.get(key) for key in ("message", "query", "toolCallId", "name", "status")]
    return " ".join(str(word) for word in words if isinstance(word, str) and word)


def _full_text(passed: Transmission) -> str:
    text = passed.data.decode("utf-8", "backslashreplace")
    omitted = passed.size - len(passed.data)
    return f"{text}\n... cut, {omitted:,} bytes left out ..." if omitted else text
