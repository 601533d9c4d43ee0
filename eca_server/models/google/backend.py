"""The backend for Gemini.

If the provider refuses the signatures of earlier answers, the request is repeated once without
them, and the user is notified.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from typing_extensions import override

from eca_server.json_members import count_in
from eca_server.models.backend import BackendError, ModelInfo, Request
from eca_server.models.corrections import CorrectingBackend
from eca_server.models.encoding import HistoryEncoder
from eca_server.models.facts import ModelFacts
from eca_server.models.google.decoder import MODEL_ERRORS, GeminiDecoder
from eca_server.models.google.generations import generation_of
from eca_server.models.google.messages import ContentWriter, legal_name
from eca_server.models.google.request import refused_option, write_request
from eca_server.models.http_backend import AmendedRequest
from eca_server.models.reasoning import unsigned

_SIGNATURE = re.compile(r"thought.?signature", re.IGNORECASE)


class Google(CorrectingBackend):
    """A model behind an endpoint that speaks Gemini's own API.

    Args:
        settings: the arguments of `HTTPBackend`.
    """

    path = "/models/{model}:streamGenerateContent?alt=sse"
    models_path = "/models?pageSize=1000"
    model_error_codes = MODEL_ERRORS

    def __init__(self, **settings: Any) -> None:
        model = (settings.pop("wire_model", None) or settings["origin"].model).rpartition("models/")
        super().__init__(**{**settings, "wire_model": model[2]})
        self._generation = generation_of(self.wire_model, self.capabilities)
        images = self.capabilities.images
        self._encoder = HistoryEncoder(ContentWriter(self.origin, self._generation, images=images))

    @override
    def write(self, request: Request) -> dict[str, Any]:
        return write_request(
            request,
            generation=self._generation,
            capabilities=self.capabilities,
            histories=self._encoder,
            without=self._refused,
        )

    @override
    def decoder(self, request: Request) -> GeminiDecoder:
        return GeminiDecoder(
            names={legal_name(tool.name): tool.name for tool in request.tools},
            may_be_empty=request.ends_with_results,
        )

    @override
    def refused_field(self, error: BackendError, payload: Mapping[str, Any]) -> str | None:
        """Recognize a refused option, which is nested in the request."""
        return refused_option(error.message, payload) if error.status == 400 else None

    @override
    def amend(self, request: Request, error: BackendError) -> AmendedRequest | None:
        """Retry without signatures, or with a correction for the model."""
        if error.code == "MISSING_THOUGHT_SIGNATURE" or (
            error.status == 400 and _SIGNATURE.search(error.message)
        ):
            return self.with_messages(request, unsigned(request.messages, self.origin))
        return super().amend(request, error)

    @override
    def next_page(self, listed: Any) -> str | None:
        token = listed.get("nextPageToken")
        return f"pageToken={quote(token, safe='')}" if token and isinstance(token, str) else None

    @override
    def read_models(self, listed: Any) -> Sequence[ModelInfo]:
        """Read the models that generate content."""
        methods = "supportedGenerationMethods"
        return [
            _model(each)
            for each in listed["models" if "models" in listed else "publisherModels"]
            if methods not in each or "generateContent" in each[methods]
        ]


def _model(listed: Mapping[str, Any]) -> ModelInfo:
    """Read one model of a listing.

    Raises:
        KeyError: the model has no name.
    """
    return ModelInfo(
        name=str(listed["name"]).rpartition("models/")[2],
        facts=ModelFacts(
            reasoning=listed.get("thinking") is True or None,
            context=count_in(listed, "inputTokenLimit"),
            output=count_in(listed, "outputTokenLimit"),
        ),
    )
