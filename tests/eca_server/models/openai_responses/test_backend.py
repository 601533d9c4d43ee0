"""Responses over real HTTP on loopback, against the scripted provider."""

from functools import partial

import pytest

from eca_protocol.http import HTTPClient
from eca_protocol.testing.provider import Provider, Reply, chunk
from eca_server.config import settings as config
from eca_server.models.backend import BackendError
from eca_server.models.facts import Capabilities
from eca_server.models.history import Origin
from eca_server.models.openai_responses import OpenAIResponses
from eca_server.secret import Secret
from tests.eca_server.models.openai_responses.scripted import (
    message,
    reply,
)
from tests.eca_server.models.providers import models_of
from tests.eca_server.models.reading import (
    KEY,
    ask,
    talking,
)

ORIGIN = Origin(api="openai-responses", provider="openai", model="m")
HI = reply(message("Hi"))
talking = partial(talking, OpenAIResponses, origin=ORIGIN)


def refused(status: int, text: str, **fields) -> Reply:
    return Reply(status=status, body={"error": {"message": text, **fields}})


@pytest.mark.parametrize(
    "field", [{"reasoning": {"summary": "x"}}, {"reasoning": "summary"}, {"include": ["a"]}]
)
async def test_a_refused_field_of_the_configuration_is_dropped_too(field):
    [name] = field

    def script(request):
        is_sent = request.body.get(name)
        return refused(400, f"Unsupported parameter: {name} summary") if is_sent else HI

    async with talking(script, extra_payload=field) as (server, backend):
        await ask(backend)
    assert len(server.requests) == 2


async def test_tools_of_the_configuration_are_added_to_ours():
    extra = {"tools": [{"type": "web_search", "search_context_size": "low"}], "seed": 1}
    searching = Capabilities(web_search=True)
    async with talking([HI], extra_payload=extra, capabilities=searching) as (server, backend):
        await ask(backend)
        assert [each.name for each in await backend.models()] == ["scripted"]
    assert server.other_requests[0].target == "/v1/models"
    body = server.requests[0].body
    assert body["tools"] == [{"type": "web_search"}, *extra["tools"]]
    assert body["seed"] == 1


DATED = "?api-version=2025-04-01"
DEPLOYED = f"/openai/deployments/d/chat/completions{DATED}"
FILTERED = Reply(
    steps=[
        chunk({"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}),
        chunk({"choices": [{"index": 0, "finish_reason": None, "content_filter_results": {}}]}),
        chunk({"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}),
    ]
)


@pytest.mark.parametrize(
    ("name", "api", "url", "path", "target"),
    [
        ("mine", "openai-responses", "", None, "/v1/responses"),
        ("mine", "openai-responses", "?a=b", None, "/v1/responses?a=b"),
        ("mine", "openai-responses", "", "/x/responses", "/x/responses"),
        ("azure", None, "", None, "/openai/v1/responses"),
        ("azure", None, "/openai/v1/", None, "/openai/v1/responses"),
        ("azure", None, f"/openai{DATED}", None, f"/openai/responses{DATED}"),
        ("azure", None, "", f"/openai/responses{DATED}", f"/openai/responses{DATED}"),
        ("azure", "openai-chat", "", None, "/openai/v1/chat/completions"),
        ("azure", "openai-chat", f"/openai/deployments/d{DATED}", None, DEPLOYED),
        ("azure", "openai-chat", "", DEPLOYED, DEPLOYED),
    ],
)
async def test_azure_has_addresses_without_and_with_a_date_and_a_header_of_its_own(
    name, api, url, path, target
):
    result = FILTERED if api == "openai-chat" else HI
    request = await requested(name, result, url, api=api, completion_url_relative_path=path)
    assert request.target == target
    header, value = ("api-key", KEY) if name == "azure" else ("authorization", f"Bearer {KEY}")
    assert request.headers[header] == value
    assert ("authorization" in request.headers) == (name == "mine")


async def requested(name: str, answered: Reply, url: str, **settings):
    """Return the request to a configured provider; `url` is relative to the host."""
    async with Provider([answered]) as server, HTTPClient() as http:
        base = server.url.removesuffix("/v1") + url
        configured = config.Provider(url=base, key=Secret(KEY), **settings)
        await ask(models_of({name: configured}, http=http).backend(f"{name}/d"))
    return server.requests[0]


async def test_azure_without_a_url_says_what_to_set():
    models = models_of({"azure": config.Provider(key=Secret("key"))})
    with pytest.raises(BackendError, match=r"providers\.azure\.url is not set"):
        models.backend("azure/d")


async def test_a_prompt_that_azure_filtered_is_reported_as_filtered():
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {}}
    words = "The response was filtered"
    with pytest.raises(BackendError) as caught:
        await requested("azure", refused(400, words, code="content_filter", innererror=inner), "")
    assert caught.value.kind == "content_filter"
