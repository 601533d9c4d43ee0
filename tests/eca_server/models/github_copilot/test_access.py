"""Access to Copilot: tokens issued, renewed and refused; the headers of requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from eca_protocol.http import HTTPClient
from eca_protocol.testing.provider import Provider, Reply, chunk, finish, reply
from eca_server.models.access import LoginAccessConfig
from eca_server.models.answer import Answer
from eca_server.models.backend import BackendError, Request
from eca_server.models.github_copilot import CopilotAccess, GitHubCopilot
from eca_server.models.history import (
    ImagePart,
    Message,
    Origin,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from eca_server.secret import Secret
from tests.eca_server.models.github_copilot.github import LOGIN, GitHub, github

HELLO = Message(role="user", parts=(TextPart("Hello"),))
PICTURE = ImagePart(media_type="image/png", data=b"x")
CALL = ToolCallPart(id="c", name="t", raw="{}", arguments={})


@attrs.frozen
class Copilot:
    """The service, its GitHub, a model, and the hidden secrets."""

    provider: Provider
    github: GitHub
    access: CopilotAccess
    backend: GitHubCopilot
    hidden: set[Secret]

    async def ask(self, *messages: Message, **request: Any) -> Answer:
        answer = Answer()
        sent_request = Request(messages=messages or (HELLO,), **request)
        async with self.backend.stream(sent_request) as events:
            async for event in events:
                answer.feed(event)
        return answer

    def sent(self, header: str) -> list[str | None]:
        return [request.headers.get(header) for request in self.provider.requests]


@asynccontextmanager
async def copilot(script, *, url: str | None = None, **options: Any) -> AsyncIterator[Copilot]:
    async with Provider(script) as provider, github(provider.url) as shop, HTTPClient() as http:
        hidden: set[Secret] = set()
        config = LoginAccessConfig(
            http=http, url=url, host=shop.url, key=Secret(LOGIN), hide=hidden.update
        )
        access = CopilotAccess(config)
        origin = Origin(api="github-copilot", provider="github-copilot", model="m")
        backend = GitHubCopilot(
            http=http, origin=origin, server="github-copilot", access=access, **options
        )
        yield Copilot(provider, shop, access, backend, hidden)


async def test_a_login_buys_a_token_that_says_where_requests_go() -> None:
    async with copilot([reply("Hi"), reply("again")]) as ours:
        assert (await ours.ask()).text == "Hi"
        assert (await ours.ask()).text == "again"
        assert [head["authorization"] for head in ours.github.requests] == [f"token {LOGIN}"]
        assert ours.sent("authorization") == ["Bearer tid=planted1;exp=1"] * 2
        assert ours.hidden == {Secret("tid=planted1;exp=1")}
        ids = ours.sent("x-request-id")
        assert len(set(ids)) == 2


async def test_we_say_who_we_are_and_a_user_may_say_something_else() -> None:
    async with copilot([reply("Hi")]) as ours:
        await ours.ask()
        assert ours.sent("editor-version") == ["eca-python/0.1"]
        assert ours.sent("copilot-integration-id") == [None]
        assert ours.github.requests[0]["editor-version"] == "eca-python/0.1"
    own = {"Editor-Version": "mine/1", "Copilot-Integration-Id": "given-to-me"}
    async with copilot([reply("Hi")], extra_headers=own) as ours:
        await ours.ask()
        assert ours.sent("editor-version") == ["mine/1"]
        assert ours.sent("copilot-integration-id") == ["given-to-me"]


@pytest.mark.parametrize(
    ("request_fields", "initiator"),
    [
        ({"initiator": "user"}, "user"),
        ({"initiator": "agent"}, "agent"),
        ({}, "agent"),
        ({"initiator": "user", "paused": Message(role="assistant", parts=())}, "agent"),
    ],
)
async def test_the_client_that_wants_a_request_is_sent_it(request_fields, initiator) -> None:
    async with copilot([]) as ours:
        request = Request(messages=(HELLO,), **request_fields)
        target = await ours.access.target("/chat/completions", request)
        assert target.headers["x-initiator"] == initiator
        assert "x-initiator" not in (await ours.access.target("/models")).headers


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([HELLO], None),
        ([Message(role="user", parts=(PICTURE,))], "true"),
        (
            [
                HELLO,
                Message(role="assistant", parts=(CALL,)),
                Message(role="tool", parts=(ToolResultPart(call_id="c", parts=(PICTURE,)),)),
            ],
            "true",
        ),
    ],
)
async def test_pictures_are_announced(messages, expected) -> None:
    async with copilot([reply("Hi")]) as ours:
        await ours.ask(*messages)
        assert ours.sent("copilot-vision-request") == [expected]


async def test_many_tasks_buy_one_token() -> None:
    async with copilot([], url="https://own.example") as ours:
        targets = []

        async def look() -> None:
            targets.append(await ours.access.target("/x"))

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(look)
        assert {target.url for target in targets} == {"https://own.example/x"}
        assert len(ours.github.requests) == 1


async def test_a_token_is_renewed_after_its_time_on_our_own_clock() -> None:
    async with copilot([reply("Hi"), reply("Hi")]) as ours:
        ours.github.lives = 0.0001
        await ours.ask()
        await ours.ask()
        assert ours.sent("authorization") == [
            "Bearer tid=planted1;exp=1",
            "Bearer tid=planted2;exp=1",
        ]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_token_is_renewed_once(status) -> None:
    refused = Reply(status=status, body={"error": {"message": "token expired tid=planted2;exp=1"}})
    async with copilot([refused, reply("Hi"), refused, refused]) as ours:
        assert (await ours.ask(initiator="user")).text == "Hi"
        assert ours.sent("x-initiator") == ["user", "user"]
        with pytest.raises(BackendError) as caught:
            await ours.ask()
        assert len(ours.github.requests) == 3
        assert caught.value.kind in ("auth", "permission")


@pytest.mark.parametrize(
    ("refuses", "kind", "words"),
    [
        ((401, {"message": f"Bad credentials {LOGIN}"}), "auth", "refused the login"),
        (
            (403, {"error_details": {"message": "No access", "url": "https://gh.example/x"}}),
            "permission",
            "no Copilot: No access https://gh.example/x",
        ),
        ((404, {"message": "Not Found"}), "permission", "no Copilot: Not Found"),
        ((500, {"message": "no tokens today"}), "overloaded", "no tokens today"),
        ((200, {}), "protocol", "expected a Copilot token"),
        ((200, {"token": 7}), "protocol", "expected a Copilot token"),
        ((200, ["tid=1"]), "protocol", "expected a Copilot token"),
    ],
)
async def test_what_github_refuses_is_reported_without_the_login(refuses, kind, words) -> None:
    async with copilot([]) as ours:
        ours.github.refuses = refuses
        with pytest.raises(BackendError, match=words) as caught:
            await ours.ask()
        assert caught.value.kind == kind
        assert LOGIN not in f"{caught.value} {caught.value.message} {caught.value.raw}"


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (402, {"error": {"message": "out of premium requests"}}, "quota"),
        (422, {"error": {"message": "filtered"}}, "content_filter"),
        (424, {"error": {"message": "a dependency failed"}}, "overloaded"),
        (429, {"error": {"message": "slow"}}, "rate_limit"),
        (466, {"error": {"message": "client too old"}}, "permission"),
        (400, {"error": {"code": "model_not_supported", "message": "no"}}, "model_not_found"),
        (
            400,
            {"error": {"code": "model_max_prompt_tokens_exceeded", "message": "no"}},
            "context_overflow",
        ),
        (400, {"error": {"message": "missing Editor-Version header for IDE auth"}}, "permission"),
    ],
)
async def test_copilots_errors_have_their_class(status, body, kind) -> None:
    async with copilot([Reply(status=status, body=body)]) as ours:
        with pytest.raises(BackendError) as caught:
            await ours.ask()
        assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ({"message": "missing Editor-Version header for IDE auth"}, "github-copilot.extraHeaders"),
        ({"code": "model_not_supported", "message": "no"}, "Switch the model on"),
    ],
)
async def test_what_a_user_can_do_is_listed(error, advice) -> None:
    async with copilot([Reply(status=400, body={"error": error})]) as ours:
        with pytest.raises(BackendError) as caught:
            await ours.ask()
        assert advice in caught.value.message


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
        message = answer.message(ours.backend.origin)
        await ours.ask(HELLO, message, HELLO)
        [sent] = [m for m in ours.provider.requests[1].body["messages"] if m["role"] == "assistant"]
        assert sent["reasoning_text"] == "Well. "
        assert sent["reasoning_opaque"] == "sealed"
