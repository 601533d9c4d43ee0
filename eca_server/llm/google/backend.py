"""The backend for Gemini.

The rule it keeps, beside those of all backends: signatures that are not taken back are left out of
one more try, and the user is told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import attrs

from eca_server.llm.backend import BackendError, Capabilities, ModelInfo, Request
from eca_server.llm.corrections import CorrectingBackend
from eca_server.llm.google.decoder import MISTAKES, GeminiDecoder
from eca_server.llm.google.generations import generation_of
from eca_server.llm.google.messages import ContentWriter, legal_name
from eca_server.llm.google.request import refused_thing, write_request
from eca_server.llm.history import Message
from eca_server.llm.http_backend import Amended
from eca_server.llm.written import Histories, Written, encoded

__all__ = ["Google"]

MOST_PAGES = 20
"""Of a listing of models."""

_ANSWER = ":streamGenerateContent"
_COUNT = ":countTokens"

_SIGNATURE = re.compile(r"thought.?signature", re.IGNORECASE)
_LEFT_OUT = "The provider did not take back what the model thought before; it goes on without."


class Google(CorrectingBackend):
    """A model behind an endpoint that speaks Gemini's own API.

    Args:
        settings: as for every `HTTPBackend`.
    """

    path = f"/models/{{model}}{_ANSWER}?alt=sse"
    models_path = "/models?pageSize=1000"
    mistakes = MISTAKES

    def __init__(self, **settings: Any) -> None:
        model = (settings.pop("wire_model", None) or settings["origin"].model).rpartition("models/")
        super().__init__(**{**settings, "wire_model": model[2]})
        self._known = generation_of(self.wire_model, self.capabilities)
        images = self.capabilities.images
        self._histories = Histories(ContentWriter(self.origin, self._known, images=images))
        self._told: set[str | None] = set()

    def write(self, request: Request) -> dict[str, Any]:
        """As `HTTPBackend.write`."""
        return write_request(
            request,
            known=self._known,
            capabilities=self.capabilities,
            histories=self._histories,
            without=self._refused,
        )

    def decoder(self, request: Request, headers: Mapping[str, str]) -> GeminiDecoder:
        """As `HTTPBackend.decoder`."""
        last = request.messages[-1] if request.messages else None
        return GeminiDecoder(
            names={legal_name(tool.name): tool.name for tool in request.tools},
            may_be_empty=last is not None and last.role == "tool",
        )

    def refused_field(self, error: BackendError, payload: Mapping[str, Any]) -> str | None:
        """As `HTTPBackend.refused_field`; what is optional stands deeper in a request."""
        return refused_thing(error.message, payload) if error.status == 400 else None

    def amended(self, request: Request, error: BackendError) -> Amended | None:
        """As `HTTPBackend.amended`: a history without signatures, or a word on the mistake."""
        if error.code == "MISSING_THOUGHT_SIGNATURE" or (
            error.status == 400 and _SIGNATURE.search(error.message)
        ):
            unsigned = [self._unsigned(message) for message in request.messages]
            if unsigned == list(request.messages):
                return None
            note = None if request.cache_key in self._told else _LEFT_OUT
            self._told.add(request.cache_key)
            return Amended(request=attrs.evolve(request, messages=unsigned), note=note)
        return super().amended(request, error)

    async def models(self) -> Sequence[ModelInfo]:
        """As `Backend.models`; the listing may have several pages."""
        found: list[ModelInfo] = []
        path = self.models_path
        for _ in range(MOST_PAGES):
            listed = await self.get(path)
            found += self.models_of(listed)
            following = listed.get("nextPageToken")
            if not isinstance(following, str) or not following:
                break
            path = f"{self.models_path}&pageToken={quote(following, safe='')}"
        return found

    def read_models(self, listed: Any) -> Sequence[ModelInfo]:
        """As `HTTPBackend.read_models`: those that answer."""
        methods = "supportedGenerationMethods"
        return [
            _model(each)
            for each in listed["models" if "models" in listed else "publisherModels"]
            if methods not in each or "generateContent" in each[methods]
        ]

    async def count_tokens(self, request: Request) -> int | None:
        """As `Backend.count_tokens`; not every server of this API can."""
        asked = encoded({"model": f"models/{self.wire_model}", **self.payload(request)})
        path, found, _ = self._path.partition(_ANSWER)
        if not found:
            return None
        try:
            counted = await self.post(
                f"{path}{_COUNT}", {"generateContentRequest": Written([asked])}
            )
        except BackendError as error:
            if error.status in (400, 404, 405, 501):
                return None
            raise
        count = counted.get("totalTokens") if isinstance(counted, dict) else None
        return count if isinstance(count, int) else None

    def _unsigned(self, message: Message) -> Message:
        """The message as if another model had made it."""
        return attrs.evolve(message, origin=None) if message.origin == self.origin else message


def _model(listed: Mapping[str, Any]) -> ModelInfo:
    """One model of a listing.

    Raises:
        KeyError: it has no name.
    """
    return ModelInfo(
        name=str(listed["name"]).rpartition("models/")[2],
        capabilities=Capabilities(
            reasoning=listed.get("thinking") is True,
            context=_number(listed, "inputTokenLimit"),
            output=_number(listed, "outputTokenLimit"),
        ),
    )


def _number(holder: Mapping[str, Any], name: str) -> int | None:
    value = holder.get(name)
    return value if isinstance(value, int) and value > 0 else None
