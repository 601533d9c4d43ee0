"""The wire APIs by their configuration names; each is imported at its first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from eca_server.models.access import Access, LoginAccessConfig
from eca_server.models.http_backend import HTTPBackend

DEFAULT_API = "openai-chat"
"""The API of an unknown provider."""


@attrs.frozen(kw_only=True)
class API:
    """One wire API.

    Attributes:
        load: imports its backend.
        key_header: the header of the key; `authorization` carries a Bearer token.
        root: the path of a base that has none.
        roots_paths: also append `root` to a base whose path has no version.
        access: makes the access, where a key in a header is not enough.
        reasoning_optional: its models accept a history without their reasoning.
    """

    load: Callable[[], type[HTTPBackend]]
    key_header: str = "authorization"
    root: str = ""
    roots_paths: bool = False
    access: Callable[[LoginAccessConfig], Access] | None = None
    reasoning_optional: bool = False


def _openai_chat() -> type[HTTPBackend]:
    from eca_server.models.openai_chat import OpenAIChat  # noqa: PLC0415 - see the module's docstring

    return OpenAIChat


def _openai_responses() -> type[HTTPBackend]:
    from eca_server.models.openai_responses import OpenAIResponses  # noqa: PLC0415 - as above

    return OpenAIResponses


def _anthropic() -> type[HTTPBackend]:
    from eca_server.models.anthropic import Anthropic  # noqa: PLC0415 - see the module's docstring

    return Anthropic


def _google() -> type[HTTPBackend]:
    from eca_server.models.google import Google  # noqa: PLC0415 - see the module's docstring

    return Google


def _ollama() -> type[HTTPBackend]:
    from eca_server.models.ollama import Ollama  # noqa: PLC0415 - see the module's docstring

    return Ollama


def _github_copilot() -> type[HTTPBackend]:
    from eca_server.models.github_copilot import GitHubCopilot  # noqa: PLC0415 - as above

    return GitHubCopilot


def _to_github_copilot(config: LoginAccessConfig) -> Access:
    from eca_server.models.github_copilot import CopilotAccess  # noqa: PLC0415 - as above

    return CopilotAccess(config)


APIS: Mapping[str, API] = {
    DEFAULT_API: API(load=_openai_chat, reasoning_optional=True),
    "anthropic": API(load=_anthropic, key_header="x-api-key"),
    "github-copilot": API(load=_github_copilot, access=_to_github_copilot, reasoning_optional=True),
    "google": API(load=_google, key_header="x-goog-api-key", root="/v1beta"),
    "ollama": API(load=_ollama, reasoning_optional=True),
    "openai-responses": API(load=_openai_responses, root="/v1", roots_paths=True),
}
