"""Gemini over real HTTP on loopback, against the scripted provider."""

from functools import partial

from eca_server.models.backend import Request, Tool
from eca_server.models.google import Google
from eca_server.models.history import Origin
from tests.eca_server.models.google.scripted import (
    call,
    refused,
    reply,
    text_part,
)
from tests.eca_server.models.histories import user
from tests.eca_server.models.reading import (
    TOOL,
    ask,
    talking,
)

ORIGIN = Origin(api="google", provider="google", model="gemini-3.1-pro")
talking = partial(talking, Google, origin=ORIGIN, header="x-goog-api-key")


def invalid(message: str):
    return refused(400, "INVALID_ARGUMENT", message)


async def test_a_configured_path_and_payload_are_used():
    extra = {
        "generationConfig": {"temperature": 0.5, "thinkingConfig": None},
        "tools": [{"urlContext": {}}],
    }
    path = "/x/{model}:streamGenerateContent?a=b"
    options = {"path": path, "extra_payload": extra, "wire_model": "models/wire"}
    async with talking([reply(text_part("x"))], **options) as (provider, backend):
        await ask(backend, Request(messages=[user()], tools=[TOOL], max_output_tokens=5))
        [request] = provider.requests
    assert request.target == "/v1/x/wire:streamGenerateContent?a=b"
    assert request.body["generationConfig"] == {"maxOutputTokens": 5, "temperature": 0.5}
    assert [*map(list, request.body["tools"])] == [["functionDeclarations"], ["urlContext"]]


async def test_a_tool_whose_name_is_not_legal_is_called_by_its_own():
    request = Request(messages=[user()], tools=[Tool(name="9f", description="d", parameters={})])
    async with talking([reply(call("_9f", {}))]) as (_, backend):
        read, _ = await ask(backend, request)
    [part] = read.message(ORIGIN).parts
    assert part.name == "9f"


async def test_tools_are_declared_in_openapi_where_json_schema_is_not_known():
    unknown = invalid('Invalid JSON payload received. Unknown name "parametersJsonSchema"')
    number = {"properties": {"n": {"type": "integer"}}}
    counting = Tool(name="f", description="d", parameters=number)
    async with talking([unknown, reply(text_part("a"))]) as (provider, backend):
        await ask(backend, Request(messages=[user()], tools=[counting]))
        _, second = provider.requests
    [declared] = second.body["tools"][0]["functionDeclarations"]
    assert declared["parameters"] == {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}}
