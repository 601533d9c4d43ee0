"""Known providers: the settings that need no configuration, and their lookup. Data.

Only certain values are listed: a wrong address or variable would send a key to a stranger.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import attrs

from eca_server.models.apis import DEFAULT_API


@attrs.frozen(kw_only=True)
class KnownProvider:
    """The default settings of a provider.

    Attributes:
        url: its base; None: each customer has one.
        key_variable: the environment variable of its key; None: it needs no key.
        host_variable: the variable of its address, in Ollama's form.
        key_header: the header of the key; None: its API's.
        root: the path of a base that has none; None: its API's.
        hosts: hosts of this provider, whatever the configured name; with a leading dot: any host
            below it.
        chat_root: the end of a base that speaks Chat Completions whatever `api` is.
        lists: the models that it lists are those that requests can name.
        list_is_public: its list is public, so it proves no key.
        probed: it is looked for on this machine even if it is not configured.
        default_model: the model of a new chat until the user selects one.
    """

    api: str = DEFAULT_API
    url: str | None
    key_variable: str | None
    host_variable: str | None = None
    key_header: str | None = None
    root: str | None = None
    hosts: tuple[str, ...] = ()
    chat_root: str | None = None
    lists: bool = True
    list_is_public: bool = False
    probed: bool = False
    default_model: str | None = None


KNOWN_PROVIDERS: Mapping[str, KnownProvider] = {
    "anthropic": KnownProvider(
        api="anthropic",
        url="https://api.anthropic.com",
        key_variable="ANTHROPIC_API_KEY",
        hosts=("api.anthropic.com",),
        default_model="claude-sonnet-5-5",
    ),
    "openai": KnownProvider(
        api="openai-responses",
        url="https://api.openai.com/v1",
        key_variable="OPENAI_API_KEY",
        hosts=("api.openai.com",),
        default_model="gpt-6.1-sol",
    ),
    "google": KnownProvider(
        api="google",
        url="https://generativelanguage.googleapis.com/v1beta",
        key_variable="GEMINI_API_KEY",
        hosts=("generativelanguage.googleapis.com",),
        chat_root="/openai",
        default_model="gemini-3.1-pro-preview",
    ),
    "github-copilot": KnownProvider(
        api="github-copilot",
        url="https://api.githubcopilot.com",
        key_variable="GITHUB_COPILOT_API_KEY",
        hosts=(".githubcopilot.com",),
    ),
    "azure": KnownProvider(
        api="openai-responses",
        url=None,
        key_variable="AZURE_OPENAI_API_KEY",
        key_header="api-key",
        root="/openai/v1",
        hosts=(".openai.azure.com", ".services.ai.azure.com"),
        lists=False,  # requests name its deployments, whose names the user chooses
    ),
    "openrouter": KnownProvider(
        url="https://openrouter.ai/api/v1",
        key_variable="OPENROUTER_API_KEY",
        hosts=("openrouter.ai",),
        list_is_public=True,
    ),
    "ollama": KnownProvider(
        api="ollama",
        url="http://localhost:11434",
        key_variable=None,
        host_variable="OLLAMA_HOST",
        probed=True,
    ),
} | {
    name: KnownProvider(
        url=url,
        key_variable=variable,
        hosts=() if variable is None else (urlsplit(url).netloc, *more),
    )
    for name, url, variable, *more in (
        ("deepseek", "https://api.deepseek.com", "DEEPSEEK_API_KEY"),
        ("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        ("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
        ("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", "api.moonshot.cn"),
        ("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
        ("z-ai", "https://api.z.ai/api/paas/v4", "Z_AI_API_KEY"),
        ("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
        ("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
        ("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
        ("litellm", "http://localhost:4000/v1", None),
        ("llama-cpp", "http://localhost:8080/v1", None),
        ("lmstudio", "http://localhost:1234/v1", None),
        ("vllm", "http://localhost:8000/v1", None),
    )
}
"""By name. The first unconfigured provider with a key is the default."""


def server_of(provider: str, url: str | None) -> str:
    """Return the known provider of this name, else the one at this base, else the name.

    So a user can configure two names for one provider, with one base and two keys.
    """
    if provider in KNOWN_PROVIDERS:
        return provider
    try:
        host = urlsplit((url or "").strip()).hostname or ""
    except ValueError:
        return provider
    return next(
        (name for name, known in KNOWN_PROVIDERS.items() if _is_on(host, known.hosts)), provider
    )


def api_of(provider: str, url: str | None) -> str:
    """Return the API that a provider speaks if none is configured."""
    known = KNOWN_PROVIDERS.get(server_of(provider, url))
    if known is None:
        return DEFAULT_API
    try:
        path = urlsplit((url or "").strip()).path.rstrip("/")
    except ValueError:
        path = ""
    return DEFAULT_API if known.chat_root and path.endswith(known.chat_root) else known.api


def is_own_endpoint(provider: str, url: str | None) -> bool:
    """Return whether a base is the known provider's own, not a proxy."""
    return url is None or server_of("", url) == server_of(provider, url)


def _is_on(host: str, hosts: tuple[str, ...]) -> bool:
    return any(host == each or (each[0] == "." and host.endswith(each)) for each in hosts)
