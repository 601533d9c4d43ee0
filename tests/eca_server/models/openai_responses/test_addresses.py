"""The addresses of requests: bases with and without a path, and Azure's forms."""

import pytest

from eca_protocol.http import HTTPClient
from eca_protocol.testing.provider import Provider, Reply, chunk
from eca_server.config import settings as config
from eca_server.models.backend import BackendError, Request
from eca_server.models.history import Message, TextPart
from eca_server.secret import Secret
from tests.eca_server.models.openai_responses.scripted import message, reply
from tests.eca_server.models.providers import models_of

HELLO = Request(messages=[Message(role="user", parts=(TextPart("Hello"),))])
DATED = "?api-version=2025-04-01"


async def target_and_headers(name: str, answer: Reply, **settings) -> tuple[str, dict]:
    """Return the target and the headers of a request; `url` is relative to the host."""
    async with Provider([answer]) as server, HTTPClient() as http:
        host = server.url.removesuffix("/v1")
        base = host + settings.pop("url", "")
        settings["completion_url_relative_path"] = settings.pop("path", None)
        configured = config.Provider(url=base, key=Secret("key"), **settings)
        backend = models_of({name: configured}, http=http).backend(f"{name}/d")
        async with backend.stream(HELLO) as events:
            async for _ in events:
                pass
    [request] = server.requests
    return request.target, dict(request.headers)


@pytest.mark.parametrize(
    ("url", "path", "target"),
    [
        ("", None, "/v1/responses"),
        ("/", None, "/v1/responses"),
        ("/v1", None, "/v1/responses"),
        ("/api/v3/", None, "/api/v3/responses"),
        ("?a=b", None, "/v1/responses?a=b"),
        ("", "/x/responses", "/x/responses"),
    ],
)
async def test_a_base_without_a_path_is_followed_by_v1(url, path, target):
    answer = reply(message("Hi"))
    result, headers = await target_and_headers(
        "mine", answer, api="openai-responses", url=url, path=path
    )
    assert result == target
    assert headers["authorization"] == "Bearer key"


@pytest.mark.parametrize(
    ("url", "path", "target"),
    [
        ("", None, "/openai/v1/responses"),
        ("/openai/v1/", None, "/openai/v1/responses"),
        (f"/openai{DATED}", None, f"/openai/responses{DATED}"),
        ("", f"/openai/responses{DATED}", f"/openai/responses{DATED}"),
    ],
)
async def test_azure_has_a_form_without_and_one_with_a_date(url, path, target):
    result, headers = await target_and_headers("azure", reply(message("Hi")), url=url, path=path)
    assert result == target
    assert headers["api-key"] == "key"
    assert "authorization" not in headers


@pytest.mark.parametrize(
    ("url", "path", "target"),
    [
        ("", None, "/openai/v1/chat/completions"),
        (f"/openai/deployments/d{DATED}", None, f"/openai/deployments/d/chat/completions{DATED}"),
        (
            "",
            f"/openai/deployments/d/chat/completions{DATED}",
            f"/openai/deployments/d/chat/completions{DATED}",
        ),
    ],
)
async def test_azure_speaks_chat_completions_too(url, path, target):
    filtered = {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}
    late = {"choices": [{"index": 0, "finish_reason": None, "content_filter_results": {}}]}
    hi = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
    answer = Reply(steps=[chunk(filtered), chunk(late), chunk(hi)])
    result, headers = await target_and_headers(
        "azure", answer, api="openai-chat", url=url, path=path
    )
    assert result == target
    assert headers["api-key"] == "key"


async def test_azure_without_a_url_says_what_to_set():
    models = models_of({"azure": config.Provider(key=Secret("key"))})
    with pytest.raises(BackendError, match=r"providers\.azure\.url is not set"):
        models.backend("azure/d")


async def test_a_prompt_that_azure_filtered_is_reported_as_filtered():
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {}}
    error = {"code": "content_filter", "message": "The response was filtered", "innererror": inner}
    with pytest.raises(BackendError) as caught:
        await target_and_headers("azure", Reply(status=400, body={"error": error}))
    assert caught.value.kind == "content_filter"
