"""The wire APIs by their configuration names; each is imported at its first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import attrs

from eca_server.models.access import Access
from eca_server.models.http_backend import HTTPBackend

DEFAULT_API = "openai-chat"
"""The API of an unknown provider."""


@attrs.frozen(kw_only=True)
class API:
    """One wire API.

    Attributes:
        backend: the module below this package, and the class, of its backend.
        key_header: the header of the key; `authorization` carries a Bearer token.
        root: the path of a base that has none.
        roots_paths: also append `root` to a base whose path has no version.
        access: the same for its access, where a key in a header is not enough.
        reasoning_optional: its models accept a history without their reasoning.
        own_efforts: it lists the efforts of each model, or has values of its own.
    """

    backend: str
    key_header: str = "authorization"
    root: str = ""
    roots_paths: bool = False
    access: str | None = None
    reasoning_optional: bool = False
    own_efforts: bool = False

    def load(self) -> type[HTTPBackend]:
        """Import the backend."""
        backend: type[HTTPBackend] = _imported(self.backend)
        return backend

    def load_access(self) -> Callable[..., Access]:
        """Import the access of its own; `access` must be set."""
        access: Callable[..., Access] = _imported(self.access or "")
        return access


def _imported(name: str) -> Any:
    module, _, member = name.rpartition(".")
    return getattr(import_module(f"eca_server.models.{module}"), member)


APIS: Mapping[str, API] = {
    DEFAULT_API: API(backend="openai_chat.backend.OpenAIChat", reasoning_optional=True),
    "anthropic": API(backend="anthropic.backend.Anthropic", key_header="x-api-key"),
    "github-copilot": API(
        backend="github_copilot.backend.GitHubCopilot",
        access="github_copilot.access.CopilotAccess",
        reasoning_optional=True,
        own_efforts=True,
    ),
    "google": API(
        backend="google.backend.Google",
        key_header="x-goog-api-key",
        root="/v1beta",
        own_efforts=True,
    ),
    "ollama": API(backend="ollama.backend.Ollama", reasoning_optional=True, own_efforts=True),
    "openai-responses": API(
        backend="openai_responses.backend.OpenAIResponses", root="/v1", roots_paths=True
    ),
}
