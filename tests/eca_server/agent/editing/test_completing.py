"""Completions while the user types: one request at a time, answered in time or not at all."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from eca_protocol.testing.provider import Provider, Reply, reply, text, wait
from eca_server.agent.editing import completing
from eca_server.agent.editing.completing import split_at
from eca_server.models.backend import ModelInfo, Request
from eca_server.models.events import Event, Finished, Started, TextDelta
from eca_server.models.facts import Capabilities
from eca_server.models.history import Origin
from eca_server.models.models import Model
from eca_server.models.retry import RetryPolicy
from tests.eca_server.agent.chat.agent_session import today
from tests.eca_server.agent.chat.current import current, refused
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, Editor, editor, provider_config


def at_end(document: str, version: int = 1) -> dict[str, Any]:
    """Return the params for the cursor at a document's end."""
    lines = document.split("\n")
    place = {"line": len(lines), "character": len(lines[-1]) + 1}
    return {"docText": document, "docVersion": version, "position": place}


def offered(answer: dict[str, Any]) -> list[str]:
    return [item["text"] for item in answer["items"]]


async def complete(ours: Editor, document: str) -> list[str]:
    return offered(await ours.ask("completion/inline", at_end(document)))


async def item_at(ours: Editor, params: dict[str, Any]) -> dict[str, Any]:
    [item] = (await ours.ask("completion/inline", params))["items"]
    return item


ON_SCRIPT = {"completion": {"model": SCRIPT}}


async def test_the_answer_is_an_item_at_the_cursor_for_the_same_version():
    async with current(ON_SCRIPT) as ours:
        params = at_end("# hello\nsay 1 + x", 7)
        place = params["position"]
        between = {"start": place, "end": place}
        item = await item_at(ours, params)
        assert item == {"text": "1 + x", "docVersion": 7, "range": between}
        item = await item_at(ours, at_end("say says"))  # it begins as its line does
        assert item["text"] == "say sayssays"
        assert item["range"]["start"] == {"line": 1, "character": 1}
    async with editor(ON_SCRIPT) as ours:  # today's spelling of Emacs, in its edition
        params = at_end("say x")
        renamed = {"doc-text": params["docText"], "doc-version": 3, "position": params["position"]}
        item = await item_at(ours, renamed)
        assert (item["text"], item["docVersion"]) == ("x", 3)


async def test_a_newer_request_ends_the_older_and_its_connection():
    async with today(reply(text("a"), wait("never")), reply(text("b = 2"))) as (ours, provider):
        first = ours.request("completion/inline", at_end("x"))
        await ours.send(first)
        await provider.until(lambda: "never" in provider.reached)
        burst = [ours.request("completion/inline", at_end("x" * n)) for n in range(2, 12)]
        await ours.send(*burst)
        answers = [await ours.answer(each) for each in (first, *burst)]
        assert [offered(each) for each in answers] == [[]] * 10 + [["b = 2"]]
        assert [each.closed_by_client for each in provider.requests] == [True, False]


async def test_what_is_being_typed_is_not_asked_for_again():
    async with today(reply(text("return a\n    # end"))) as (ours, provider):
        assert await complete(ours, "def f(a):\n    ") == ["return a\n    # end"]
        assert await complete(ours, "def f(a):\n    re") == ["turn a\n    # end"]
        assert await complete(ours, "def f(a):\n    return a\n    # ") == ["end"]
        assert await complete(ours, "def f(a):\n    ") == ["return a\n    # end"]
        assert len(provider.requests) == 1
        assert await complete(ours, "def f(a):\n    rx") == ["the end"]
        assert len(provider.requests) == 2


async def test_only_what_the_user_has_to_set_right_is_shown_and_once():
    async with current(ON_SCRIPT) as ours:
        for document in ("fail overloaded a", "fail quota b", "fail quota c", "cut", "crash_"):
            await complete(ours, document)
        [message] = ours.notices
        assert "b" in message
    async with current({"completion": {"model": "no/such"}}) as ours:
        assert await complete(ours, "x") == await complete(ours, "y") == []
        assert [each.count("no/such cannot be used") for each in ours.notices] == [1]
        error = await refused(
            ours, "completion/inline", at_end("x") | {"position": {"line": 9, "character": 1}}
        )
        assert error["code"] == -32602
        assert "params.position: line: expected a number from 1 to 1" in error["message"]


async def test_a_late_model_offers_nothing_and_one_that_fails_again_and_again_is_named_once(
    autojump_clock,
):
    async with current(ON_SCRIPT) as ours:
        for document in ("fail overloaded a", "say x", "fail overloaded b"):
            await complete(ours, document)
        began = trio.current_time()
        assert await complete(ours, "wait forever") == []
        assert trio.current_time() - began == pytest.approx(completing.TIMEOUT, abs=0.1)
        assert ours.notices == []
        for document in ("wait 100", "fail overloaded c", "fail overloaded d"):
            await complete(ours, document)
        assert ours.notices == [f"Completion: {SCRIPT} did not answer within 8 s."]


async def test_no_more_is_offered_than_may_be_however_long_the_pieces_are():
    async with today(reply(text("```\n" + "y" * 100_000))) as (ours, _):
        [offer] = await complete(ours, "x = ")
        assert 0 < len(offer) <= completing.MOST_CHARACTERS


@pytest.mark.parametrize(
    ("name", "model", "api", "path", "body"),
    [
        ("mistral", "codestral-latest", "openai-chat", "/fim/completions",
         {"choices": [{"message": {"content": "b)"}}]}),
        ("mine", "codestral-latest", "openai-chat", "/fim/completions",
         {"choices": [{"message": {"content": "b)"}}]}),
        ("deepseek", "deepseek-chat", "openai-chat", "/beta/completions",
         {"choices": [{"text": "b)"}]}),
        ("mine", "qwen2.5-coder-7b", "openai-chat", "/v1/completions",
         {"choices": [{"text": "b)"}]}),
        ("ollama", "qwen2.5-coder", "ollama", "/api/generate", {"response": "b)"}),
    ],
)  # fmt: skip
async def test_a_model_that_fills_gaps_is_shown_both_sides(name, model, api, path, body):
    async with Provider(others={path: Reply(body=body)}) as provider:
        known = {"api": api, "url": provider.url, "key": "k", "fetchModels": False}
        config = {
            "providers": {name: {**known, "models": {model: {}}}},
            "completion": {"model": f"{name}/{model}"},
        }
        async with current(config) as ours:
            params = at_end("f(a, ")
            params["docText"] += ")"
            assert offered(await ours.ask("completion/inline", params)) == ["b"]
        assert provider.requests == []
        [request] = [each for each in provider.other_requests if each.target.endswith(path)]
        assert (request.body["prompt"], request.body["suffix"]) == ("f(a, ", ")")
        assert request.body["model"] == model


async def test_a_local_model_fills_gaps_as_it_is_loaded_and_has_always_a_gap():
    others = {
        "/api/show": Reply(
            body={
                "capabilities": ["completion", "insert"],
                "model_info": {"general.architecture": "q", "q.context_length": 65_536},
            }
        ),
        "/api/ps": Reply(body={"models": [{"model": "coder:latest", "context_length": 32_768}]}),
        "/api/generate": Reply(body={"response": "b"}),
    }
    async with Provider(others=others) as provider:
        known = {"url": provider.url, "fetchModels": False, "models": {"coder": {}}}
        async with current(
            {"providers": {"ollama": known}, "completion": {"model": "ollama/coder"}}
        ) as ours:
            assert await complete(ours, "a") == await complete(ours, "c") == ["b"]
        posts = [each for each in provider.other_requests if each.method == "POST"]
        assert [each.target.split("/")[-1] for each in posts] == ["show", "generate", "generate"]
        assert posts[-1].body["options"] == {
            "num_ctx": 32_768,
            "num_predict": completing.MOST_TOKENS,
            "temperature": 0,
        }
        assert posts[-1].body["suffix"] == "\n"


REFUSED = {"error": {"message": "suffix is not supported"}}
LLAMA_CPP = {"choices": [{"text": "a"}], "timings": {"prompt_n": 1}}
"""An answer that ignores the suffix."""


@pytest.mark.parametrize(
    ("status", "body"), [(400, REFUSED), (401, REFUSED), (404, REFUSED), (200, LLAMA_CPP)]
)
async def test_a_model_that_does_not_fill_gaps_is_asked_by_its_chat_until_settings_change(
    status, body
):
    refusal = Reply(status=status, body=body)
    async with Provider(
        lambda _: reply(text("b")), others={"/v1/completions": refusal}
    ) as provider:
        config = provider_config(provider.url)
        config["providers"]["p"]["models"] = {"starcoder": {}}
        config["completion"] = {"model": "p/starcoder"}
        async with current(config) as ours:
            assert await complete(ours, "a") == await complete(ours, "c") == ["b"]
            assert (len(provider.requests), len(provider.other_requests)) == (2, 1)
            ours.connection.parts.models.renew()
            assert await complete(ours, "c") == ["b"]
            assert (len(provider.requests), len(provider.other_requests)) == (3, 2)


async def test_the_simulator_completes_nothing_unless_the_user_has_chosen_it():
    async with current({"providers": {}}) as ours:
        assert await complete(ours, "x") == await complete(ours, "y") == []
        [message] = ours.notices
        assert "/login" in message
        await ours.tell("chat/selectedModelChanged", {"model": ECHO})
        assert await complete(ours, "z") != []
    async with current({"defaultModel": ECHO}) as ours:
        assert await complete(ours, "z") != []


SLACK = 1e-6
CLOSING = completing.PAUSE * 3
"""Seconds that a connection takes to close."""


class Slow:
    """A slow backend; `most` is the maximum of concurrent requests."""

    origin = Origin(api="test", provider="test", model="slow")
    capabilities = Capabilities()

    def __init__(self, seconds: list[float]) -> None:
        self._seconds = iter(seconds)
        self.running = self.most = 0

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Event]]:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            yield self._events()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(CLOSING)
            self.running -= 1

    async def _events(self) -> AsyncIterator[Event]:
        yield Started()
        await trio.sleep(next(self._seconds))
        yield TextDelta("offered")
        yield Finished(reason="stop")

    async def models(self) -> list[ModelInfo]:
        return []


TYPED = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.01, completing.PAUSE / 2, completing.PAUSE * 2, 1.0]),
        st.sampled_from([0.0, 0.05, 0.5, completing.TIMEOUT * 2]),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=40, deadline=None)
@given(TYPED)
def test_the_newest_alone_is_asked_for_and_everyone_is_answered(typed):
    backend = Slow([seconds for _, seconds in typed])
    answers: dict[int, tuple[float, str]] = {}
    came: dict[int, float] = {}

    async def complete(number: int, completions: completing.Completions, request: Any) -> None:
        document = split_at(f"{number}x\n", line=1, character=3)
        model = Model(backend, RetryPolicy())
        text = await completions.complete(request, document, model, None)
        answers[number] = trio.current_time(), text

    async def main() -> None:
        completions = completing.Completions(lambda words: None)
        async with trio.open_nursery() as nursery:
            for number, (pause, _) in enumerate(typed):
                await trio.sleep(pause)
                came[number] = trio.current_time()
                nursery.start_soon(complete, number, completions, completions.begin())

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert backend.most == 1
    assert len(answers) == len(typed)
    for number, (when, offer) in answers.items():
        assert when - came[number] <= completing.TIMEOUT + CLOSING + SLACK
        newer = came.get(number + 1)
        if newer is not None and when > newer + SLACK:
            assert offer == ""
            assert when - newer <= CLOSING + SLACK
