"""The decoder of one answer of a wire API: values in, events out. No I/O.

Only the API's own mark ends an answer; the end of the bytes does not. Events come in the order of
`events`.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypedDict

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_protocol.sse import SSEvent
from eca_server.models.backend import BackendError
from eca_server.models.calls import new_call_key
from eca_server.models.events import Event, Finished, FinishReason, Started, Usage
from eca_server.models.history import CitationPart, ImagePart

_MOST: Final = 2**53  # what every reader of JSON holds exactly

_END_MARK = "[DONE]"
"""The end mark of Chat Completions; gateways also send it in the streams of other APIs."""

_EMPTY = "the model answered nothing; the prompt may be longer than its context"


def token_count(value: Any) -> int | None:
    """Return the count; None if it is invalid, negative, or implausibly large."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
    return value if is_count else None


def count_at(counts: Any, *path: str) -> int | None:
    """Return the token count at a path of nested objects; None as in `token_count`."""
    for name in path:
        counts = counts.get(name) if isinstance(counts, dict) else None
    return token_count(counts)


def cost(value: Any) -> float | None:
    """Return the cost; None if it is no number."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def decoded_image(media_type: str, data: str) -> ImagePart:
    """Return the event for an image in base64; raise BackendError if it is damaged."""
    try:
        decoded = base64.b64decode("".join(data.split()), validate=True)
    except ValueError:
        raise BackendError("protocol", "an image is not valid base64") from None
    return ImagePart(media_type=media_type, data=decoded)


class Citations:
    """The sources of one answer, each of which is emitted once."""

    def __init__(self) -> None:
        self._urls: set[str] = set()

    def cite(self, url: Any, title: Any) -> list[Event]:
        """Emit a source, unless it has no address or was emitted before."""
        if not isinstance(url, str) or not url or url in self._urls:
            return []
        self._urls.add(url)
        return [CitationPart(url=url, title=title if isinstance(title, str) else "")]


class DecoderOptions(TypedDict, total=False):
    """The arguments of `StreamDecoder`."""

    may_be_empty: bool
    new_key: Callable[[], str]


class StreamDecoder(ABC):
    """The common part of all APIs.

    Args:
        may_be_empty: accept an answer without content (after tool results it means that the model
            has nothing to add).
        new_key: makes the keys of tool calls.

    Attributes:
        finish_seen: the end is near: only usage, sources and the API's own end mark may follow.
        done: `Finished` was emitted; nothing follows.
    """

    def __init__(
        self,
        *,
        may_be_empty: bool = False,
        new_key: Callable[[], str] = new_call_key,
    ) -> None:
        self.started = False
        self.finish_seen = False
        self.done = False
        self._may_be_empty = may_be_empty
        self._new_key = new_key
        self._has_content = False

    def feed(self, event: SSEvent) -> Iterable[Event]:
        """Decode the next event of the stream.

        Raises:
            BackendError: the stream carries an error, or is unreadable.
        """
        if self.done:
            return []
        try:
            value = json.loads(event.data)
        except InvalidJSON as fault:
            if event.data.strip() == _END_MARK:
                return self._end_mark()
            raise _unreadable(event.data, fault) from None
        events = self._text_delta(value)
        return self._decode(value, event.event) if events is None else events

    def feed_object(self, value: Any) -> Iterable[Event]:
        """Decode a JSON value: a line of the stream, or a whole answer that was not streamed.

        Raises:
            BackendError: as `feed`.
        """
        if self.done:
            return []
        events = self._text_delta(value)
        return self._decode(value, "") if events is None else events

    def close(self) -> list[Event]:
        """Handle the end of the bytes.

        Raises:
            BackendError: `premature_stop`, the answer is incomplete; or as `feed`.
        """
        if self.done:
            return []
        if not self.finish_seen:
            message = "the answer broke off before its end"
            raise BackendError("premature_stop", message, retryable=True)
        return self._finish()

    @abstractmethod
    def _text_delta(self, value: Any) -> list[Event] | None:
        """Decode a plain delta, which is nearly all of a stream; None for every other value."""

    @abstractmethod
    def _decode(self, value: Any, name: str) -> Iterable[Event]:
        """Decode a value; `name` is its event's, empty if it came in no event."""

    def _finish(self) -> list[Event]:
        """End an answer whose finish reason came."""
        return []

    def _end_mark(self) -> list[Event]:
        """Handle the end mark of Chat Completions."""
        return self.close()

    def _start(self, names: Mapping[str, Any]) -> list[Event]:
        """Return `Started` if it was not emitted yet."""
        if self.started:
            return []
        self.started = True
        response_id, model = names.get("id"), names.get("model")
        return [
            Started(
                response_id=response_id if isinstance(response_id, str) else None,
                model=model if isinstance(model, str) else None,
            )
        ]

    def _check_content(self, reason: FinishReason, message: str = _EMPTY) -> None:
        """Raise `empty_response` if the model answered nothing, and must not."""
        if reason in ("stop", "other") and not (self._has_content or self._may_be_empty):
            raise BackendError("empty_response", message, retryable=True)

    def _end(self, reason: FinishReason, *, calls: int, usage: Usage | None) -> list[Event]:
        """Return the last events; whether tools are called depends on the calls that came."""
        if calls and reason in ("stop", "other", "pause"):
            reason = "tool_calls"
        elif not calls and reason == "tool_calls":
            reason = "other"
        self.finish_seen = self.done = True
        finished = Finished(reason=reason)
        return [finished] if usage is None else [usage, finished]


def parse(data: str | bytes) -> Any:
    """Return the JSON value in a piece of a stream.

    Raises:
        BackendError: it is no JSON.
    """
    try:
        return json.loads(data)
    except InvalidJSON as fault:
        raise _unreadable(data, fault) from None


def _unreadable(data: str | bytes, fault: InvalidJSON) -> BackendError:
    excerpt = data[:200]
    words = excerpt if isinstance(excerpt, str) else excerpt.decode("utf-8", "replace")
    return BackendError("protocol", f"not JSON in the stream ({fault}): {words}")
