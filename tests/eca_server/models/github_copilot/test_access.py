"""Access to Copilot: tokens issued, renewed and refused; the headers of requests; its models."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from eca_protocol.http import HTTPClient
from eca_protocol.testing.provider import Provider, Reply, chunk, finish, reply
from eca_server.models.answer import Answer
from eca_server.models.backend import BackendError, ModelInfo, Request
from eca_server.models.facts import ModelFacts
from eca_server.models.github_copilot.access import CopilotAccess
from eca_server.models.github_copilot.backend import read_models
from eca_server.models.history import Message, Origin
from eca_server.models.http_backend import HTTPBackend
from eca_server.secret import Secret
from tests.eca_server.models.github_copilot.github import LOGIN, TOKEN, GitHub, github
from tests.eca_server.models.histories import PICTURE, model, tool, tool_call, tool_result, user
from tests.eca_server.models.reading import ask, backend_of, failure
from tests.tasks import run_in

TOKENS = [f"Bearer tid=planted{number};exp=1" for number in (1, 2)]
ORIGIN = Origin(api="github-copilot", provider="github-copilot", model="m")


@attrs.frozen
class Copilot:
    """The service, its GitHub, a model, and the hidden secrets."""

    provider: Provider
    github: GitHub
    access: CopilotAccess
    backend: HTTPBackend
    hidden: set[Secret]

    async def ask(self, *messages: Message, **request: Any) -> Answer:
        sent_request = Request(messages=messages or (user(),), **request)
        return (await ask(self.backend, sent_request))[0]

    def sent(self, header: str) -> list[str | None]:
        return [request.headers.get(header) for request in self.provider.requests]


@asynccontextmanager
async def copilot(script, *, url: str | None = None, **options: Any) -> AsyncIterator[Copilot]:
    async with Provider(script) as provider, github(provider.url) as shop, HTTPClient() as http:
        hidden: set[Secret] = set()
        login = {"host": shop.url, "key": Secret(LOGIN), "hide": hidden.update}
        access = CopilotAccess(http=http, url=url, **login)
        copilot = {"origin": ORIGIN, "server": ORIGIN.provider, "http": http, "access": access}
        backend = backend_of("github-copilot", **copilot, **options)
        yield Copilot(provider, shop, access, backend, hidden)


async def test_a_login_buys_a_token_that_says_where_requests_go() -> None:
    async with copilot([reply("Hi"), reply("again")]) as ours:
        assert (await ours.ask()).text == "Hi"
        assert (await ours.ask()).text == "again"
        assert [head["authorization"] for head in ours.github.headers] == [f"token {LOGIN}"]
        assert ours.sent("authorization") == TOKENS[:1] * 2
        assert ours.hidden == {Secret("tid=planted1;exp=1")}
        assert len(set(ours.sent("x-request-id"))) == 2


async def test_we_say_who_we_are_and_a_user_may_say_something_else() -> None:
    own = {"Editor-Version": "mine/1", "Copilot-Integration-Id": "given-to-me"}
    for options, named in (({}, ("eca-python/0.1", None)), ({"extra_headers": own}, own.values())):
        async with copilot([reply("Hi")], **options) as ours:
            await ours.ask()
            sent = [ours.sent(name) for name in ("editor-version", "copilot-integration-id")]
            assert sent == [[each] for each in named]
            assert ours.github.headers[0]["editor-version"] == "eca-python/0.1"


@pytest.mark.parametrize(
    ("request_fields", "initiator"),
    [
        ({"initiator": "user"}, "user"),
        ({"initiator": "agent"}, "agent"),
        ({}, "agent"),
        ({"initiator": "user", "paused": model()}, "agent"),
    ],
)
async def test_the_client_that_wants_a_request_is_sent_it(request_fields, initiator) -> None:
    async with copilot([]) as ours:
        request = Request(messages=(user(),), **request_fields)
        target = await ours.access.target("/chat/completions", request)
        assert target.headers["x-initiator"] == initiator
        assert "x-initiator" not in (await ours.access.target("/models")).headers


async def test_pictures_are_announced() -> None:
    shown = [user(), model(tool_call()), tool(tool_result("c", PICTURE))]
    async with copilot([reply("Hi")] * 3) as ours:
        for messages in ([user()], [user(PICTURE)], shown):
            await ours.ask(*messages)
        assert ours.sent("copilot-vision-request") == [None, "true", "true"]


async def test_many_tasks_buy_one_token() -> None:
    async with copilot([], url="https://own.example") as ours:
        async with trio.open_nursery() as nursery:
            targets = [run_in(nursery, ours.access.target, "/x") for _ in range(10)]
        assert {target.url for [target] in targets} == {"https://own.example/x"}
        assert len(ours.github.requests) == 1


@pytest.mark.parametrize(("seconds", "tokens"), [(0.0001, TOKENS), (10**400, TOKENS[:1] * 2)])
async def test_a_token_is_renewed_after_its_time_on_our_own_clock(seconds, tokens) -> None:
    async with copilot([reply("Hi"), reply("Hi")]) as ours:
        ours.github.lives = seconds
        await ours.ask()
        await ours.ask()
        assert ours.sent("authorization") == tokens


async def test_a_token_goes_to_no_host_without_tls() -> None:
    async with copilot([]) as ours:
        ours.github.api = "http://127.0.0.1:1@elsewhere.example/"
        assert (await ours.access.target("/x")).url == "https://api.githubcopilot.com/x"


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_token_is_renewed_once(status) -> None:
    refused = Reply(status=status, body={"error": {"message": "token expired tid=planted2;exp=1"}})
    async with copilot([refused, reply("Hi"), refused, refused]) as ours:
        assert (await ours.ask(initiator="user")).text == "Hi"
        assert ours.sent("x-initiator") == ["user", "user"]
        assert (await failure(ours.backend)).kind in ("auth", "permission")
        assert len(ours.github.requests) == 3


NO_ACCESS = {"error_details": {"message": "No access", "url": "https://gh.example/x"}}


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (401, {"message": f"Bad credentials {LOGIN}"}, "auth", "refused the login"),
        (403, NO_ACCESS, "permission", "no Copilot: No access https://gh.example/x"),
        (404, {"message": "Not Found"}, "permission", "no Copilot: Not Found"),
        (403, {"message": "You have exceeded a secondary rate limit"}, "rate_limit", "exceeded"),
        (403, b"<title>Blocked by the firewall</title>", "network", "Blocked by the firewall"),
        (200, b"<title>Log in</title>", "protocol", "Log in"),
        (500, {"message": "no tokens today"}, "overloaded", "no tokens today"),
        *((200, body, "protocol", "expected a Copilot t") for body in ({}, {"token": 7}, ["t"])),
    ],
)
async def test_what_github_refuses_is_reported_without_the_login(status, body, kind, words) -> None:
    async with copilot([]) as ours:
        ours.github.says[TOKEN] = [(status, body)]
        with pytest.raises(BackendError, match=words) as caught:
            await ours.ask()
        assert caught.value.kind == kind
        assert LOGIN not in f"{caught.value} {caught.value.message} {caught.value.raw}"


UNNAMED = {"message": "missing Editor-Version header for IDE auth"}
SWITCHED_OFF = {"code": "model_not_supported", "message": "no"}


@pytest.mark.parametrize(
    ("status", "error", "kind", "advice"),
    [
        (422, {"message": "filtered"}, "content_filter", ""),
        (424, {"message": "a dependency failed"}, "overloaded", ""),
        (466, {"message": "client too old"}, "permission", ""),
        (400, UNNAMED, "permission", "github-copilot.extraHeaders"),
        (400, SWITCHED_OFF, "model_not_found", "Switch the model on"),
    ],
)
async def test_copilots_own_errors_have_their_class_and_advice(status, error, kind, advice) -> None:
    async with copilot([Reply(status=status, body={"error": error})]) as ours:
        caught = await failure(ours.backend)
    assert caught.kind == kind
    assert advice in caught.message


async def test_reasoning_goes_back_with_what_seals_it() -> None:
    def delta(**fields: str) -> Any:
        return chunk({"choices": [{"index": 0, "delta": fields}]})

    thinking = reply(
        chunk({"choices": None, "copilot_references": []}),
        chunk({"choices": [], "prompt_filter_results": []}),
        delta(reasoning_text="Well. "),
        delta(reasoning_opaque="sealed"),
        delta(content="Hi"),
        finish("stop"),
    )
    async with copilot([thinking, reply("again")]) as ours:
        answer = await ours.ask()
        await ours.ask(user(), answer.message(ORIGIN), user())
        _, sent, _ = ours.provider.requests[1].body["messages"]
    assert (sent["reasoning_text"], sent["reasoning_opaque"]) == ("Well. ", "sealed")


def listed(**fields: Any) -> dict[str, Any]:
    limits = {"max_context_window_tokens": 128_000, "max_output_tokens": 16_000}
    abilities = {"tool_calls": True, "vision": False, "reasoning_effort": ["low", "high"]}
    capabilities = {
        "type": "chat",
        "limits": {"max_prompt_tokens": 90_000, **limits},
        "supports": abilities,
    }
    return {"id": "m", "model_picker_enabled": True, "capabilities": capabilities, **fields}


FACTS = ModelFacts(
    context=106_000,
    output=16_000,
    tools=True,
    images=False,
    reasoning=True,
    efforts=("low", "high"),
)


@pytest.mark.parametrize(
    ("fields", "api"),
    [
        ({"policy": {"state": "enabled"}}, None),
        ({"supported_endpoints": ["/responses", "/chat/completions"]}, None),
        ({"supported_endpoints": ["/responses"]}, "openai-responses"),
        ({"supported_endpoints": ["/v1/messages"]}, "anthropic"),
        ({"supported_endpoints": ["/responses", "/v1/messages"]}, "openai-responses"),
        ({"supported_endpoints": []}, None),
        ({"supported_endpoints": None}, None),
    ],
)
def test_a_model_is_asked_by_an_api_that_it_has_within_its_limits(fields, api) -> None:
    models = read_models({"data": [listed(**fields), {"id": "bare"}]})
    assert models == [ModelInfo(name="m", api=api, facts=FACTS), ModelInfo(name="bare")]


@pytest.mark.parametrize(
    "fields",
    [
        {"model_picker_enabled": False},
        {"policy": {"state": "disabled"}},
        {"policy": {"state": "unconfigured"}},
        {"capabilities": {"type": "embeddings"}},
        {"supported_endpoints": ["/other"]},
    ],
)
def test_what_the_user_cannot_chat_with_is_not_offered(fields) -> None:
    assert read_models({"data": [listed(**fields)]}) == []
