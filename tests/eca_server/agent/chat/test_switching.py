"""Every API in a chat: one after the other, too long, and with faults by lot."""

import gc
import json
import re
from collections import deque
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from eca_protocol.server.roots import uri_of
from eca_protocol.testing.provider import (
    Provider,
    ReceivedRequest,
    Reply,
    close,
    hang,
    raw,
    reset,
    wait,
)
from tests.eca_server.agent.chat.editor import Content, Editor, editor, finishes, text
from tests.eca_server.models.every_api import EVERY_API, ScriptedAnswer, ScriptedAPI, ScriptedCall
from tests.eca_server.models.test_switching import GRAMMARS
from tests.torture.counted_server import tasks_of

PNG = b"\x89PNG\r\n\x1a\n" + bytes(32)


def configured(url: str, *apis: ScriptedAPI) -> dict[str, Any]:
    """One provider for each API, at the same place; every call is allowed."""
    providers = {
        api.name: {"api": api.name, "url": url, "key": "k", "models": {api.model: {}}}
        for api in apis
    }
    return {"providers": providers, "toolCall": {"approval": {"byDefault": "allow"}}}


def model_of(api: ScriptedAPI) -> str:
    return f"{api.name}/{api.model}"


def not_told(api: ScriptedAPI, before: ScriptedAPI) -> str:
    return (
        f"{model_of(api)} answers from here on. It is sent the chat so far, "
        f"but not the reasoning of {model_of(before)}."
    )


def notes(contents: list[Content]) -> list[str]:
    return [each["text"] for each in contents if "answers from here on" in each.get("text", "")]


async def test_each_api_continues_where_another_one_was(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("what stands there\n")
    (tmp_path / "p.png").write_bytes(PNG)
    script: list[Reply] = []
    provider = Provider(lambda _request: script.pop(0))
    read = ScriptedCall("eca_read_file", {"path": "a.txt"})
    async with provider, editor(configured(provider.url, *EVERY_API), started=False) as ours:
        await ours.start(workspaceFolders=[{"name": "w", "uri": uri_of(tmp_path)}])
        before: ScriptedAPI | None = None
        for number, api in enumerate([*EVERY_API, EVERY_API[0]]):
            thoughts = [f"thought-{number}"]
            script += [
                api.reply(
                    ScriptedAnswer(thoughts=thoughts, text=[f"look-{number}"], calls=[read, read])
                ),
                api.reply(ScriptedAnswer(thoughts=thoughts, text=[f"done-{number}"])),
                api.reply(ScriptedAnswer(text=[f"more-{number}"])),
            ]
            first, second = [
                await turn_with(ours, f"prompt-{number}{each}", api, tmp_path) for each in "ab"
            ]
            assert text(first).count(f"look-{number}done-{number}") == 1
            assert (finishes(first), finishes(second)) == (1, 1)
            assert notes(first) == ([not_told(api, before)] if before else [])
            assert notes(second) == []
            before = api
        check_requests(provider.requests)


async def turn_with(ours: Editor, words: str, api: ScriptedAPI, folder: Path) -> list[Content]:
    contexts = [{"type": "file", "path": str(folder / "p.png")}]
    return await ours.turn(words, model=model_of(api), contexts=contexts)


def check_requests(requests: list[ReceivedRequest]) -> None:
    apis = [*EVERY_API, EVERY_API[0]]
    assert len(requests) == 3 * len(apis)
    for number, request in enumerate(requests):
        api = apis[number // 3]
        GRAMMARS[api.name](request.body)
        written = json.dumps(request.body)
        assert "iVBORw" in written, "the picture"
        for earlier in range(number // 3):
            words = (f"prompt-{earlier}a", f"look-{earlier}", f"done-{earlier}", f"more-{earlier}")
            places = [written.index(each) for each in words]
            assert places == sorted(places)
            assert apis[earlier] == api or f"thought-{earlier}" not in written


WORDS = {
    "openai-responses": "Your input exceeds the context window of this model.",
    "anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
    "google": "The input token count (9) exceeds the maximum number of tokens allowed (8).",
    "ollama": "input length exceeds the context length",
}
OTHERS = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens"


def settings(url: str, api: ScriptedAPI) -> dict[str, Any]:
    """Ollama's model has no larger context than the one that it runs with: it would get it."""
    config = configured(url, api)
    if api.name == "ollama":
        config["providers"][api.name]["models"][api.model] = {"limit": {"context": 4096}}
    return config


def too_long(api: ScriptedAPI, where: str) -> Reply:
    words = WORDS.get(api.name, OTHERS)
    if where == "refused":
        return api.refusing(400, words=words)
    return api.replying([raw(api.fail("", words))])


@pytest.mark.parametrize("where", ["refused", "in the stream"])
@pytest.mark.parametrize("api", EVERY_API, ids=lambda api: api.name)
async def test_what_is_too_long_is_summarized_and_asked_once_more(api, where):
    script = [
        api.reply(ScriptedAnswer(text=["first answer"])),
        too_long(api, where),
        api.reply(ScriptedAnswer(text=["the summary"])),
        api.reply(ScriptedAnswer(text=["second answer"])),
    ]
    provider = Provider(lambda _request: script.pop(0))
    async with provider, editor(settings(provider.url, api)) as ours:
        await ours.turn("one", model=model_of(api))
        second = await ours.turn("two", model=model_of(api))
        assert not ours.connection.chats.open("c").last_turn_failed
    assert second.finishes == 1
    assert "second answer" in second.text
    assert len(provider.requests) == 4
    last = str(provider.requests[-1].body)
    assert "the summary" in last
    assert "first answer" not in last


AT_ONCE = 4
"""Chats that have a turn at the same time."""
TURNS = 100
"""The number of turns of one server, in all of its chats."""
STATUSES = (400, 401, 403, 404, 408, 413, 429, 500, 502, 503, 529)
RETRY = {"baseDelayMs": 1, "maxDelayMs": 2}
READ = ScriptedCall("eca_read_file", {"path": "a.txt"})


@attrs.frozen
class Plan:
    """The scripted model of one turn, which the user may stop while its request is held."""

    number: int
    api: ScriptedAPI
    stopped: bool
    replies: deque[Reply] = attrs.field(factory=deque)


class Lots:
    """Draws plans, and answers by them; behind their replies comes a short answer."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._plans: list[Plan] = []

    def plan(self) -> Plan:
        stopped = self._random.random() < 0.15
        plan = Plan(len(self._plans), self._random.choice(EVERY_API), stopped)
        if stopped:
            plan.replies.append(self._held(plan))
        else:
            plan.replies.extend(self._reply(plan.api) for _ in range(self._random.randrange(4)))
        self._plans.append(plan)
        return plan

    def answer(self, request: ReceivedRequest) -> Reply:
        """The next reply of the turn whose prompt is the last in the request."""
        prompts = re.findall(r"turn-(\d+)\.", json.dumps(request.body))
        plan = self._plans[max(map(int, prompts))]
        replies = plan.replies or [plan.api.reply(ScriptedAnswer(text=["done"]))]
        return replies.popleft() if plan.replies else replies[0]

    def _said(self) -> ScriptedAnswer:
        draw = self._random.randrange
        return ScriptedAnswer(
            thoughts=["Hm "] * draw(3), text=["some ", "words"] * draw(2), calls=[READ] * draw(3)
        )

    def _held(self, plan: Plan) -> Reply:
        pieces = [raw(piece) for piece in plan.api.say(self._said())]
        held = [wait(f"held-{plan.number}"), hang()]
        if self._random.random() < 0.2:
            return plan.api.replying(pieces, before_headers=held)
        return plan.api.replying([*pieces[: self._random.randrange(len(pieces))], *held])

    def _reply(self, api: ScriptedAPI) -> Reply:
        stream = b"".join(api.say(self._said()))
        at = self._random.randrange(len(stream))
        status, code = api.overloaded
        end = self._random.choice([close(), reset()])
        by_close = self._random.random() < 0.3
        return self._random.choice(
            [
                api.replying([raw(stream)]),
                api.replying([raw(stream[:at]), raw(stream[at:])]),
                api.replying([raw(stream[:at]), end], close_delimited=by_close),
                api.replying([raw(stream[:at]), raw(b"\xff{]\n\n"), raw(stream[at:])]),
                api.replying([raw(stream[:at]), raw(api.fail(code, "busy"))]),
                api.refusing(status, code),
                api.refusing(self._random.choice(STATUSES)),
                api.refusing(400, words="the prompt is too long: 9 tokens > 8"),
                Reply(before_headers=[end]),
                Reply(body="<html><h1>Sign in</h1></html>"),
            ]
        )


def held_now() -> tuple[int, int]:
    """Count the tasks and the file descriptors of this process."""
    tasks = tasks_of(trio.lowlevel.current_root_task())
    return len(tasks), len(list(Path("/proc/self/fd").iterdir()))


async def soak(folder: Path, turns: int, seed: int) -> None:
    """One server with its provider; its chats have their turns side by side."""
    lots = Lots(seed)
    async with Provider(lots.answer) as provider:
        config = configured(provider.url, *EVERY_API) | {"retry": RETRY}
        async with editor(config, started=False) as ours:
            await ours.start(workspaceFolders=[{"name": "w", "uri": uri_of(folder)}])
            for number in range(turns // AT_ONCE):
                await turns_at_once(ours, provider, lots, number)
            assert provider.open_connections <= AT_ONCE
    assert all(each.answered or each.closed_by_client for each in provider.requests)
    assert len(provider.requests) >= turns


async def turns_at_once(ours: Editor, provider: Provider, lots: Lots, number: int) -> None:
    """A turn in each chat; some of them are stopped."""
    plans = {f"chat-{n}": lots.plan() for n in range(AT_ONCE)}
    for chat, plan in plans.items():
        await ours.send(ours.prompt_request(f"turn-{plan.number}.", chat, model=model_of(plan.api)))
    for chat, plan in plans.items():
        if plan.stopped:
            gate = f"held-{plan.number}"
            await provider.until(lambda gate=gate: gate in provider.reached)
            await ours.stop(chat)
    while any(ours.contents(chat).finishes <= number for chat in plans):
        await ours.until(lambda _message: True)
    assert [ours.contents(chat).finishes for chat in plans] == [number + 1] * AT_ONCE


@pytest.mark.long
async def test_two_thousand_turns_with_failures_end_once_each_and_leave_nothing(tmp_path):
    (tmp_path / "a.txt").write_text("what stands there\n")
    await soak(tmp_path, AT_ONCE, seed=0)  # opens what is opened once and kept
    for seed in range(1, 21):
        tasks, descriptors = held_now()
        await soak(tmp_path, TURNS, seed)
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()
        assert held_now()[0] == tasks
        assert held_now()[1] <= descriptors  # a watcher of children may have been there before
