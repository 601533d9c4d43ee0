"""The interface to a model: a request in, a stream of events out.

Every backend keeps these rules, besides those of the events:

* Only the API's own mark ends an answer; HTTP 200 and the end of the bytes prove nothing.
* A backend never repeats a request whose answer may have been shown; it only says whether a retry
  makes sense.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, Self

import attrs

from eca_protocol.errors import ECAError
from eca_server.models.events import Event
from eca_server.models.facts import Capabilities, ModelFacts
from eca_server.models.history import Message, Origin
from eca_server.secret import Secret, mask, mask_cut

ErrorKind = Literal[
    "auth",
    "configuration",
    "content_filter",
    "context_overflow",
    "empty_response",
    "invalid_image",
    "invalid_request",
    "model_not_found",
    "network",
    "overloaded",
    "permission",
    "premature_stop",
    "protocol",
    "quota",
    "rate_limit",
    "request_too_large",
    "resources",
    "timeout",
    "tls",
    "unknown",
    "unsupported_feature",
]
"""`quota`: money or a plan, waiting does not help. `protocol`: the answer is unreadable.
`configuration`: a setting is missing or wrong, nothing was sent."""


class BackendError(ECAError):
    """A request that failed.

    Attributes:
        message: the provider's message, or a description, as one paragraph; keys masked.
        status: the HTTP status, if an answer came.
        code: the provider's own code or type.
        retry_after: seconds that the provider asks to wait.
        retryable: whether the same request may succeed later.
        raw: the beginning of the body, keys masked.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        retryable: bool = False,
        request_id: str | None = None,
        raw: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        self.code = code
        self.retry_after = retry_after
        self.retryable = retryable
        self.request_id = request_id
        self.raw = raw[:2000]

    def mask_secrets(self, *secrets: Secret) -> Self:
        """Mask these secrets in all texts of the error, which may be cut; return the error."""
        self.message = mask_cut(self.message, *secrets)
        self.raw = mask_cut(self.raw, *secrets)
        self.code = self.code and mask(self.code, *secrets)
        self.request_id = self.request_id and mask(self.request_id, *secrets)
        self.args = (self.message,)
        return self


@attrs.frozen(kw_only=True)
class Tool:
    """A tool offered to the model; `parameters` is a JSON Schema, passed untouched."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class Request:
    """One request to a model.

    Attributes:
        messages: any history; it is repaired before it is sent.
        tools: the tools that the model may call.
        reasoning_effort: the amount of reasoning, as a value of the API.
        cache_key: the same in all requests of a chat, so that the provider's cache finds their
            common prefix.
        paused: an unfinished answer, while tools of the provider run: it is sent back as it is, as
            the last message, and the model continues it.
        initiator: `user` for a prompt; `agent` for all requests that follow from it (results of
            tools, a title, a summary). Some providers charge for the user's.
    """

    system: str = ""
    messages: Sequence[Message]
    tools: Sequence[Tool] = ()
    max_output_tokens: int | None = None
    reasoning_effort: str | None = None
    cache_key: str | None = None
    paused: Message | None = None
    initiator: Literal["user", "agent"] = "agent"

    @property
    def ends_with_results(self) -> bool:
        """True if results of tools come last; the model may have nothing to add."""
        return bool(self.messages) and self.messages[-1].role == "tool"


@attrs.frozen(kw_only=True)
class ModelInfo:
    """A model listed by an endpoint.

    Attributes:
        api: the API of the model, if the endpoint has several; None: the provider's.
    """

    name: str
    facts: ModelFacts = attrs.field(factory=ModelFacts)
    api: str | None = None


class Backend(Protocol):
    """A model behind an API."""

    @property
    def origin(self) -> Origin:
        """The model, as its messages name it."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """The model's capabilities."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Stream the answer to `request`; leaving the block, or cancellation, ends it at once.

        Raises:
            BackendError: while entering or while iterating.
        """
        ...
