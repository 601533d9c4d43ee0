"""What a model is to the rest of the server: a request in, a stream of events out.

The rules every backend keeps, beside those of its events: HTTP 200 and the end of the bytes prove
nothing, only the API's own mark ends an answer well; what might have been seen is never asked for
again here, a backend only says whether that makes sense.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, Self

import attrs

from eca_protocol.errors import ECAError
from eca_server.llm.events import Event
from eca_server.llm.history import Message, Origin
from eca_server.secret import Secret, mask

__all__ = [
    "Backend",
    "BackendError",
    "Capabilities",
    "ErrorKind",
    "ModelInfo",
    "Request",
    "Tool",
]

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
"""`quota` is money or a plan: waiting does not help. `protocol`: we cannot read the answer.
`configuration`: nothing was sent, since something here is missing or wrong."""


class BackendError(ECAError):
    """A request that did not end well.

    Attributes:
        kind: the class of the trouble.
        message: what the provider said, or what happened, in one readable piece, keys masked.
        status: the HTTP status, if an answer came.
        code: the provider's own code or type.
        retry_after: seconds the provider wants us to wait.
        retryable: whether the same request may succeed later.
        request_id: what the provider's support asks for.
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

    def without(self, *secrets: Secret) -> Self:
        """The same error, in whose words these secrets do not stand."""
        self.message = mask(self.message, *secrets)
        self.raw = mask(self.raw, *secrets)
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
        system: the instructions.
        messages: any history; it is repaired before it is sent.
        tools: what the model may call.
        tool_choice: whether it has to.
        max_output_tokens: how much it may answer.
        reasoning_effort: how much it thinks, in its API's words.
        cache_key: the same in all requests of a chat, so that their common beginning is found in
            the provider's cache.
        paused: an answer that is not at its end, since tools of the provider still run: it goes
            back last, as it is, and goes on.
        initiator: who wants it: the user, by a prompt; everything that comes of it (results of
            tools, a title, a summary) the agent wants. Some providers count the user's.
    """

    system: str = ""
    messages: Sequence[Message]
    tools: Sequence[Tool] = ()
    tool_choice: Literal["auto", "none", "required"] = "auto"
    max_output_tokens: int | None = None
    reasoning_effort: str | None = None
    cache_key: str | None = None
    paused: Message | None = None
    initiator: Literal["user", "agent"] = "agent"


@attrs.frozen(kw_only=True)
class Capabilities:
    """What one model can do, as far as is known; tokens.

    Attributes:
        tools: it calls tools.
        images: it reads pictures.
        reasoning: it thinks before it answers.
        context: of prompt and answer together.
        output: of the answer at most.
        thinking: the ways it can be asked to think, in its API's words; None: see its name.
        efforts: how much it can be asked to think, likewise.
        web_search: its provider's own search is offered to it.
    """

    tools: bool = True
    images: bool = True
    reasoning: bool = False
    context: int | None = None
    output: int | None = None
    thinking: frozenset[str] | None = None
    efforts: tuple[str, ...] | None = None
    web_search: bool = False


@attrs.frozen(kw_only=True)
class ModelInfo:
    """A model that an endpoint lists.

    Attributes:
        name: as it is asked for.
        capabilities: what the endpoint says of it.
        api: the API it is asked by, where an endpoint speaks several; None: the provider's.
    """

    name: str
    capabilities: Capabilities = Capabilities()
    api: str | None = None


class Backend(Protocol):
    """One model behind one API."""

    @property
    def origin(self) -> Origin:
        """Whose messages it makes."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What the model can do."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """The answer to `request`; leaving the block, or cancelling, ends it at once.

        Raises:
            BackendError: while entering or while iterating.
        """
        ...

    async def models(self) -> Sequence[ModelInfo]:
        """The models the endpoint lists.

        Raises:
            BackendError: it could not be asked.
        """
        ...

    async def count_tokens(self, request: Request) -> int | None:
        """How many tokens `request` would be; None when the API cannot tell."""
        ...
