"""The registry of models: names, missing settings, and nothing started before its use."""

import attrs
import pytest

from eca_protocol.http import HTTPClient
from eca_protocol.testing.provider import Provider, Reply, reply
from eca_server.config.settings import Config, Limit, Model
from eca_server.config.settings import Provider as Settings
from eca_server.models.backend import BackendError, Request
from eca_server.models.backends import deadlines_of
from eca_server.models.history import Origin
from eca_server.models.known_providers import KNOWN_PROVIDERS, server_of
from eca_server.models.openai_chat.backend import OpenAIChat
from eca_server.models.openai_chat.profiles import PROFILES
from eca_server.models.openai_responses.profiles import PROFILES as RESPONSES_PROFILES
from eca_server.models.provider import is_local
from eca_server.models.simulator import Simulator
from eca_server.secret import Secret
from tests.eca_server.models.reading import ask, failure, models_of
from tests.lazy import imported_by

KEYED = Settings(key=Secret("k"))
M = {"m": Model()}
EMBEDDED = ("simulator/echo", "simulator/script")


def test_the_embedded_models_are_always_there():
    assert models_of({}).names == EMBEDDED
    assert isinstance(models_of({}).backend("simulator/script"), Simulator)
    unusable = models_of({"groq": Settings(models=M)})
    assert unusable.names == EMBEDDED, "a model that cannot be asked is not offered"


def test_a_configured_model_is_named_by_provider_and_model_and_made_once():
    models = {"m": Model(limit=Limit(context=5)), "org/m": Model()}
    made = models_of({"corp": Settings(url="http://corp/v1", models=models)})
    assert made.names[:-2] == ("corp/m", "corp/org/m")
    backend = made.backend("corp/m")
    assert isinstance(backend, OpenAIChat)
    assert backend is made.backend("corp/m")
    assert backend.origin == Origin(api="openai-chat", provider="corp", model="m")
    assert backend.capabilities.context == 5
    assert made.backend("corp/org/m").origin.model == "org/m"


def test_a_known_provider_needs_only_its_key():
    made = models_of({"openrouter": attrs.evolve(KEYED, models={"a/b": Model()})})
    assert made.names[0] == "openrouter/a/b"
    assert made.backend("openrouter/a/b").origin.provider == "openrouter"
    assert models_of({}).backend("lmstudio/any").origin.model == "any"


@pytest.mark.requirement("W-21")
@pytest.mark.parametrize(
    ("name", "settings", "kind", "words"),
    [
        ("corp/n", Settings(url="http://u", models=M), "model_not_found", "corp/m"),
        ("nobody/m", Settings(), "model_not_found", "simulator/echo"),
        ("plain", Settings(), "model_not_found", "no model of this name"),
        ("corp/m", Settings(), "configuration", "providers.corp.url"),
        ("corp/m", Settings(api="telepathy", url="u"), "configuration", "telepathy"),
        ("groq/m", None, "configuration", "GROQ_API_KEY"),
    ],
)
def test_what_is_missing_is_reported_with_the_place_to_set_it(name, settings, kind, words):
    with pytest.raises(BackendError) as caught:
        models_of({} if settings is None else {"corp": settings}).backend(name)
    assert (caught.value.kind, caught.value.retryable) == (kind, False)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("settings", "offered"),
    [
        (Settings(url="https://api.openai.com"), False),
        (Settings(url="https://api.openai.com/v1", key=Secret("k")), True),
        (Settings(url="https://api.openai.com", extra_headers={"Authorization": "b"}), True),
        (Settings(url="https://proxy.invalid/openai"), True),
    ],
)
def test_a_url_waives_no_key_where_it_is_the_providers_own(settings, offered):
    made = models_of({"openai": attrs.evolve(settings, models=M)})
    assert ("openai/m" in made.names) is offered


@pytest.mark.parametrize(
    ("url", "api"),
    [
        ("https://generativelanguage.googleapis.com/v1beta/openai", "openai-chat"),
        ("https://generativelanguage.googleapis.com/v1beta/openai/", "openai-chat"),
        ("https://generativelanguage.googleapis.com/v1beta", "google"),
        ("https://generativelanguage.googleapis.com", "google"),
        (None, "google"),
    ],
)
def test_googles_base_for_chat_completions_is_asked_by_them(url, api):
    made = models_of({"google": Settings(url=url, key=Secret("k"))})
    assert made.backend("google/m").origin.api == api


def test_a_variant_is_a_model_of_its_own_with_another_payload():
    chosen = Model(
        extra_payload={"thinking": {"type": "enabled", "budget": 1}, "seed": 1},
        variants={"high": {"thinking": {"budget": 9}, "seed": None}, "off": {}, "free": {"a": 1}},
    )
    models = {"m": chosen, "m:free": Model(), "n": Model()}
    made = models_of({"corp": Settings(url="http://corp", models=models)})
    names = ("corp/m", "corp/m:high", "corp/m:free", "corp/n")
    assert made.names[:-2] == names
    high = made.backend("corp/m:high")
    assert high.origin.model == high.wire_model == "m"
    payload = high.payload(Request(messages=()))
    assert payload["thinking"] == {"type": "enabled", "budget": 9}
    assert "seed" not in payload
    assert made.backend("corp/m:free").wire_model == "m:free"
    for wrong in ("corp/m:off", "corp/m:low", "corp/n:high"):
        with pytest.raises(BackendError, match="there is no model of this name"):
            made.backend(wrong)


def test_what_an_endpoint_lists_is_offered_behind_what_is_configured():
    settings = Settings(url="http://corp", models={"b": Model()})
    made = models_of({"corp": settings}, listed={"corp": ["a", "b", "c"]})
    assert made.names[:-2] == ("corp/b", "corp/a", "corp/c")
    assert made.backend("corp/c").origin.model == "c"


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("qwen3-coder", "; did you mean corp/qwen3-coder? Available models: corp/qwen3-coder, "),
        ("Corp/Qwen3-Codr", "; did you mean corp/qwen3-coder? Available models: "),
        ("other/b", "name; available models: corp/qwen3-coder, simulator/echo"),
    ],
)
def test_a_wrong_name_gets_the_model_that_was_meant(wrong, meant):
    settings = Settings(url="http://corp", models={"qwen3-coder": Model()}, fetch_models=False)
    with pytest.raises(BackendError) as raised:
        models_of({"corp": settings}).find(wrong)
    assert meant in str(raised.value)


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ((), ["claude-sonnet-5-5"]),
        (("claude-x", "claude-sonnet-5-5"), ["claude-sonnet-5-5", "claude-x"]),
        (("claude-x",), ["claude-x"]),
    ],
)
def test_a_known_provider_offers_its_default_first_unless_it_does_not_list_it(listed, names):
    listing = {"anthropic": listed}
    made = models_of({"anthropic": KEYED}, listed=listing)
    assert made.names[:-2] == tuple(f"anthropic/{name}" for name in names)
    own = {"anthropic": Settings(key=Secret("k"), models={"mine": Model()})}
    assert models_of(own, listed=listing).names[0] == "anthropic/mine"


def test_who_has_no_key_but_needs_one_is_not_asked_for_a_list():
    settings = {
        "openai": Settings(),
        "groq": KEYED,
        "mistral": attrs.evolve(KEYED, fetch_models=False),
        "corp": Settings(url="https://corp.example/v1"),
        "house": Settings(url="http://192.168.0.9/v1"),
        "ollama": Settings(url="https://ollama.example"),
        "vllm": Settings(),
        "odd": Settings(url="http://localhost", api="telepathy"),
        "azure": KEYED,
        "work": attrs.evolve(KEYED, url="https://w.openai.azure.com"),
    }
    endpoints = models_of(settings).endpoints
    assert {endpoint.provider: endpoint.url for endpoint in endpoints} == {
        "groq": "https://api.groq.com/openai/v1",
        "house": "http://192.168.0.9/v1",
        "ollama": "https://ollama.example",
        "vllm": "http://localhost:8000/v1",
    }


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:1234/v1", True),
        ("http://127.0.0.1", True),
        ("http://[::1]:8080", True),
        ("http://192.168.1.5", True),
        ("http://100.101.102.103:8080", True),  # of Tailscale
        ("http://box.local", True),
        ("http://gpu-box:8080/v1", True),
        ("http://gpu.lan", True),
        ("https://api.openai.com/v1", False),
        ("https://8.8.8.8", False),
        ("nonsense", False),
        ("http://[::1:8080", False),
    ],
)
def test_a_local_model_has_ten_minutes_for_each_step(url, local):
    assert is_local(url) == local
    configured = Config(first_byte_timeout=5, stream_idle_timeout=6)
    ours, limits = deadlines_of(Config(), url), deadlines_of(configured, url)
    assert (ours.first_byte, ours.idle) == ((600, 600) if local else (60, 120))
    assert (limits.first_byte, limits.idle) == (5, 6)


def test_every_profile_and_base_is_a_known_provider_s():
    assert {*PROFILES, *RESPONSES_PROFILES} <= {*KNOWN_PROVIDERS}
    for name, known in KNOWN_PROVIDERS.items():
        if known.url is not None:
            is_here = is_local(known.url)
            assert server_of("mine", known.url) == ("mine" if is_here else name)
            assert is_here or known.key_variable


@pytest.mark.parametrize(
    ("name", "url", "server"),
    [
        ("work", "https://api.openai.com/v1", "openai"),
        ("work", " https://API.OpenAI.com ", "openai"),
        ("work", "https://corp.openai.azure.com/openai/v1", "azure"),
        ("work", "https://openai.azure.com", "work"),
        ("work", "https://api.openai.com.evil.example/v1", "work"),
        ("work", "http://localhost:1234/v1", "work"),
        ("work", "https://[half", "work"),
        ("work", None, "work"),
        ("deepseek", "https://api.openai.com/v1", "deepseek"),
    ],
)
def test_a_provider_of_any_name_is_known_by_where_it_is(name, url, server):
    assert server_of(name, url) == server


def test_two_keys_of_one_provider_are_two_providers_with_its_ways():
    url = "https://api.mistral.ai/v1"
    keys = {name: Settings(url=url, key=Secret(name)) for name in ("work", "home")}
    made = models_of(keys)
    for name in keys:
        backend = made.backend(f"{name}/devstral")
        assert isinstance(backend, OpenAIChat)
        assert backend.origin.provider == name
        assert backend._profile == PROFILES["mistral"]


VERTEX = "https://h/v1/projects/p/locations/l/publishers"


@pytest.mark.parametrize(
    ("api", "base", "expected"),
    [
        ("openai-chat", "https://h", "https://h/chat/completions"),
        ("openai-chat", "https://h/v1/", "https://h/v1/chat/completions"),
        ("openai-responses", "https://h", "https://h/v1/responses"),
        ("openai", "https://h", "https://h/v1/responses"),
        ("openai-responses", "https://h/v1", "https://h/v1/responses"),
        ("openai-responses", "https://h/openai/v1", "https://h/openai/v1/responses"),
        ("openai-responses", "https://h/gateway/", "https://h/gateway/v1/responses"),
        ("openai-responses", "https://h/api/v3", "https://h/api/v3/responses"),
        ("anthropic", "https://h", "https://h/v1/messages"),
        ("anthropic", "https://h/v1", "https://h/v1/messages"),
        ("anthropic", "https://h/api/anthropic", "https://h/api/anthropic/v1/messages"),
        ("google", "https://h", "https://h/v1beta/models/m:streamGenerateContent?alt=sse"),
        ("google", "https://h/v1", "https://h/v1/models/m:streamGenerateContent?alt=sse"),
        ("google", f"{VERTEX}/google", f"{VERTEX}/google/models/m:streamGenerateContent?alt=sse"),
        ("ollama", "http://h:11434", "http://h:11434/api/chat"),
    ],
)
async def test_each_api_adds_its_path_to_the_base(api, base, expected):
    async def target(**fields):
        made = models_of({"p": attrs.evolve(KEYED, api=api, url=base, **fields)})
        backend = made.backend("p/m")
        return (await backend.client.access.target(backend._path, Request(messages=()))).url

    assert await target() == expected
    own = await target(completion_url_relative_path="/own/path?v=1")
    assert own == f"{base.rstrip('/')}/own/path?v=1"


DATED = "?api-version=2025-04-01"
DEPLOYED = f"/openai/deployments/d/chat/completions{DATED}"


@pytest.mark.parametrize(
    ("api", "url", "path", "expected"),
    [
        (None, "", None, "/openai/v1/responses"),
        (None, "/openai/v1/", None, "/openai/v1/responses"),
        (None, f"/openai{DATED}", None, f"/openai/responses{DATED}"),
        (None, "", f"/openai/responses{DATED}", f"/openai/responses{DATED}"),
        ("openai-chat", "", None, "/openai/v1/chat/completions"),
        ("openai-chat", f"/openai/deployments/d{DATED}", None, DEPLOYED),
        ("openai-chat", "", DEPLOYED, DEPLOYED),
    ],
)
async def test_azure_has_addresses_without_and_with_a_date_and_a_header_of_its_own(
    api, url, path, expected
):
    fields = {"api": api, "url": f"https://h{url}", "completion_url_relative_path": path}
    backend = models_of({"azure": attrs.evolve(KEYED, **fields)}).backend("azure/d")
    target = await backend.client.access.target(backend._path, Request(messages=()))
    assert (target.url, target.headers) == (f"https://h{expected}", {"api-key": "k"})
    with pytest.raises(BackendError, match=r"providers\.azure\.url is not set"):
        models_of({"azure": KEYED}).backend("azure/d")


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        (Settings(), "configuration"),
        (Settings(key=Secret("k")), "auth"),
        (Settings(extra_headers={"X-Own-Token": "k"}), "auth"),
    ],
)
async def test_a_key_that_was_not_sent_was_not_refused(settings, kind):
    async with Provider(otherwise=Reply(status=401, body="")) as provider, HTTPClient() as http:
        made = models_of({"p": attrs.evolve(settings, url=provider.url)}, http=http)
        error = await failure(made.backend("p/m"))
    assert error.kind == kind
    assert ("no key was sent (set providers.p.key" in error.message) is (kind != "auth")


async def test_settings_reach_the_wire():
    payload = {"seed": 1, "stream_options": None}
    async with Provider(otherwise=reply("Hi")) as provider, HTTPClient() as http:
        settings = attrs.evolve(
            KEYED,
            url=provider.url,
            completion_url_relative_path="/alt/chat/completions?v=1",
            extra_headers={"X-A": "1", "Accept": "*/*"},
            models={
                "m": Model(model_name="wire", extra_payload=payload),
                "n": Model(extra_headers={"x-a": "2"}),
            },
        )
        made = models_of({"corp": settings}, http=http)
        for name in ("corp/m", "corp/n"):
            answer, _ = await ask(made.backend(name))
            assert (answer.text, answer.finished.reason, answer.usage.input) == ("Hi", "stop", 10)
        assert provider.open_connections == 1, "the connection is used again"
        first, second = provider.requests
    assert first.target == "/v1/alt/chat/completions?v=1"
    messages = [{"role": "user", "content": "Hello"}]
    assert first.body == {"model": "wire", "messages": messages, "stream": True, "seed": 1}
    assert second.body["model"] == "n"
    assert (first.headers["x-a"], second.headers["x-a"]) == ("1", "2")
    assert (first.headers["accept"], first.headers["authorization"]) == ("*/*", "Bearer k")


@pytest.mark.long
def test_nothing_of_http_is_loaded_before_its_use():
    modules = imported_by(
        "from eca_protocol.http import HTTPClient;"
        "from eca_server.config.settings import Config;"
        "from eca_server.models.models import Models;"
        "Models(Config(), environ={}, http=HTTPClient()).backend('lmstudio/x')"
    )
    assert not modules & {"httpx", "certifi"}
