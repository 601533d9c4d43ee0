"""The backend for Chat Completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from eca_server.models.backend import Request
from eca_server.models.corrections import CorrectingBackend
from eca_server.models.encoding import HistoryEncoder
from eca_server.models.openai_chat.decoder import ChatDecoder
from eca_server.models.openai_chat.messages import ChatWriter
from eca_server.models.openai_chat.profiles import PROFILES, Profile
from eca_server.models.openai_chat.request import DROPPABLE, write_request


class OpenAIChat(CorrectingBackend):
    """A model behind an endpoint that speaks Chat Completions.

    Args:
        profile: the server's options; None: those of its provider.
        settings: the arguments of `HTTPBackend`.
    """

    path = "/chat/completions"
    droppable = DROPPABLE
    server_wide = frozenset({"stream_options"})
    model_error_codes = frozenset({"tool_use_failed"})

    def __init__(self, *, profile: Profile | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self._profile = profile or PROFILES.get(self.server, Profile())
        images = self.capabilities.images
        self._encoder = HistoryEncoder(ChatWriter(self.origin, self._profile, images=images))

    @override
    def write(self, request: Request) -> dict[str, Any]:
        return write_request(
            request,
            wire_model=self.wire_model,
            profile=self._profile,
            histories=self._encoder,
        )

    @override
    def decoder(self, request: Request, headers: Mapping[str, str]) -> ChatDecoder:
        return ChatDecoder(
            think_tags=self._profile.think_tags,
            tags=self.think_tags,
            may_be_empty=request.ends_with_results,
            request_id=headers.get("x-request-id"),
        )

    @override
    def headers_for(self, request: Request | None) -> Mapping[str, str]:
        """Add the profile's headers."""
        extra = {name.lower(): value for name, value in self._profile.headers.items()}
        return {**self.headers, **extra}
