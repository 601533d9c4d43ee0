"""The backend for Chat Completions.

A field that a server may not accept is at the top level of a request, under the name by which the
server refuses it, so that it can be dropped.

A gateway may pass on the reasoning of earlier answers to a provider that refuses it. Then the
request is repeated once without the reasoning, and the user is notified.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from eca_server.models.backend import BackendError, Request
from eca_server.models.calls import function_tool
from eca_server.models.corrections import CorrectingBackend
from eca_server.models.efforts import DEEPSEEK_V4
from eca_server.models.encoding import HistoryEncoder
from eca_server.models.http_backend import AmendedRequest
from eca_server.models.openai_chat.decoder import UNREADABLE_CALL, ChatDecoder
from eca_server.models.openai_chat.messages import ChatWriter
from eca_server.models.openai_chat.profiles import PROFILES, Profile, profile_after
from eca_server.models.reasoning import unsigned

_SIGNATURE_REFUSED = re.compile(
    r"thought.?signature|signature.{0,20}thinking|thinking.{0,60}cannot be modified"
    r"|encrypted.content|reasoning_details",
    re.IGNORECASE,
)


class OpenAIChat(CorrectingBackend):
    """A model behind an endpoint that speaks Chat Completions.

    Args:
        settings: the arguments of `HTTPBackend`.
    """

    path = "/chat/completions"
    droppable = (
        "stream_options",
        "max_completion_tokens",
        "max_tokens",
        "parallel_tool_calls",
        "reasoning_effort",
        "reasoning",
        "temperature",
        "thinking",
        "tool_choice",
        "tool_stream",
        "top_p",
        "verbosity",
    )
    server_wide = frozenset({"stream_options"})
    model_error_codes = frozenset({"tool_use_failed", UNREADABLE_CALL})

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        profile = PROFILES.get(self.server, Profile())
        self.headers = {**self.headers, **profile.headers}
        self._use(profile)

    @override
    def write(self, request: Request) -> dict[str, Any]:
        profile = self._profile
        instructions = [{"role": "system", "content": request.system}]
        payload: dict[str, Any] = {
            "model": self.wire_model,
            "messages": self._encoder.written(
                request.messages, before=instructions if request.system.strip() else ()
            ),
            "stream": True,
        }
        if profile.stream_options is not None:
            payload["stream_options"] = dict(profile.stream_options)
        if request.tools:
            payload["tools"] = [function_tool(tool) for tool in request.tools]
        if request.max_output_tokens is not None:
            payload[profile.max_tokens_field] = request.max_output_tokens
        if request.reasoning_effort:
            payload |= _reasoning_fields(request.reasoning_effort, self.wire_model.lower(), profile)
        return {**payload, **profile.extra}

    @override
    def decoder(self, request: Request) -> ChatDecoder:
        return ChatDecoder(
            think_tags=self._profile.think_tags,
            tags=self.think_tags,
            may_be_empty=request.ends_with_results,
        )

    @override
    def leave_out(self, request: Request, error: BackendError, payload: Mapping[str, Any]) -> bool:
        """Also add to further requests what a refusal demands."""
        demanded = profile_after(error, self._profile)
        if demanded is None:
            return super().leave_out(request, error, payload)
        self._use(demanded)
        return True

    @override
    def amend(self, request: Request, error: BackendError) -> AmendedRequest | None:
        """Also retry without what the provider has signed or encrypted."""
        amended = None
        if error.status == 400 and _SIGNATURE_REFUSED.search(error.message):
            amended = self.with_messages(request, unsigned(request.messages, self.origin))
        return amended or super().amend(request, error)

    def _use(self, profile: Profile) -> None:
        self._profile = profile
        writer = ChatWriter(profile, images=self.capabilities.images)
        self._encoder = HistoryEncoder(writer, self.origin)


def _reasoning_fields(effort: str, wire_model: str, profile: Profile) -> dict[str, Any]:
    if profile.effort == "reasoning":
        if "claude-" in wire_model and effort != "none":  # OpenRouter passes it on to Claude
            return {"reasoning": {"enabled": True}, "verbosity": effort}
        return {"reasoning": {"effort": effort}}
    if effort == "none" and DEEPSEEK_V4.search(wire_model):
        return {"thinking": {"type": "disabled"}}
    return {"reasoning_effort": effort} if profile.effort == "reasoning_effort" else {}
