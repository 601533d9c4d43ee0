"""Rewrites of a selection: the notifications to the client, and the end of a rewrite."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio.testing

from eca_protocol.testing.provider import Provider, Reply, finish, reasoning, reply, text, wait
from eca_server.agent.editing.rewriting import MOST_AT_ONCE, MOST_CHARACTERS
from tests.eca_server.agent.chat.agent_session import today
from tests.eca_server.agent.chat.current import current, refused
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, Editor, provider_config

ON_SCRIPT = {"defaultModel": SCRIPT}


def params(prompt: str, selected: str = "x = 1\n", name: str = "r", **more: Any) -> dict[str, Any]:
    place = {"line": 2, "character": 0}
    return {
        "id": name,
        "text": selected,
        "prompt": prompt,
        "range": {"start": place, "end": place},
    } | more


def contents_of(ours: Editor, name: str = "r") -> list[dict[str, Any]]:
    return [
        message["params"]["content"]
        for message in ours.received
        if message.get("method") == "rewrite/contentReceived"
        and message["params"]["rewriteId"] == name
    ]


async def until_received(ours: Editor, kind: str, name: str = "r") -> dict[str, Any]:
    while not (matching := [each for each in contents_of(ours, name) if each["type"] == kind]):
        await ours.until(lambda _: True)
    return matching[-1]


def new_text(ours: Editor, name: str = "r") -> str:
    joined = ""
    for content in contents_of(ours, name):
        if content["type"] in ("text", "replace"):
            joined = content["text"] if content["type"] == "replace" else joined + content["text"]
    return joined


async def test_a_selection_is_rewritten_piece_by_piece():
    async with current(ON_SCRIPT) as ours:
        script = "think how\nsay ```py\\nx = 2\\n\nsay y = 3\\n```\\nDone."
        answer = await ours.ask("rewrite/prompt", params(script))
        assert answer == {"status": "prompting", "model": SCRIPT}
        assert contents_of(ours) == []
        end = await until_received(ours, "finished")
        assert isinstance(end["totalTimeMs"], int | float)
        types = [each["type"] for each in contents_of(ours)]
        assert types[:2] == ["started", "reasoning"]
        assert types.count("started") == types.count("finished") == 1
        assert types.count("text") > 2
        assert new_text(ours) == "x = 2\ny = 3\n"
        assert (await ours.ask("chat/list"))["chats"] == []
        await ours.ask(
            "rewrite/prompt", params("say Sure:\\n```\\nx = 2\\n```\\nBetter.", name="s")
        )
        await until_received(ours, "finished", "s")
        assert contents_of(ours, "s")[-2] == {"type": "replace", "text": "x = 2\n"}


async def test_vs_code_which_ignores_a_correction_gets_the_corrected_text():
    lines = "x = 2\n" * 1000
    answer = reply(
        reasoning("hm"), text("Sure:\n```\n"), text(lines), text("```\nDone."), finish("stop")
    )
    async with today(answer, client="VsCode") as (ours, _):
        await ours.ask("rewrite/prompt", params("a"))
        await until_received(ours, "finished")
        types = [each["type"] for each in contents_of(ours)]
        assert types == ["reasoning", "started", "text", "text", "finished"]
        assert new_text(ours) == lines


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("fail quota no money", "no money"),
        ("say x\nfail overloaded later", "later"),
        ("say x\nfinish length", "output limit"),
        ("say x\ncut", "without its last event"),
        ("crash", "the server's log"),
        ("say \\n", "without any text"),
    ],
)
async def test_what_goes_wrong_is_the_one_end(script, message, autojump_clock):
    async with current({**ON_SCRIPT, "retry": {"maxRetries": 0}}) as ours:
        await ours.ask("rewrite/prompt", params(script))
        if script.startswith("say x"):  # the error comes when the client has applied the text
            await until_received(ours, "text")
            before = trio.current_time()
        assert message in (await until_received(ours, "error"))["message"]
        assert not script.startswith("say x") or trio.current_time() - before > 0.1
        assert await ours.later() == []
        types = [each["type"] for each in contents_of(ours)]
        assert types[0] == "started"  # else VS Code deletes what was selected
        assert types.count("started") == types.count("error") == 1
        assert "finished" not in types


@asynccontextmanager
async def rewriting(*script: Reply) -> AsyncIterator[tuple[Editor, Provider]]:
    """Yield an editor in which a rewrite has begun, and its model."""
    async with today(*script) as (ours, provider):
        await ours.ask("rewrite/prompt", params("a"))
        await until_received(ours, "text")
        yield ours, provider


async def test_an_answer_without_end_is_ended_though_it_is_blank():
    endless = reply(text("x" + " " * MOST_CHARACTERS), wait("never"))
    async with rewriting(endless) as (ours, _):
        assert "longer than 1,000,000" in (await until_received(ours, "error"))["message"]


async def test_a_stop_ends_a_rewrite_and_leaves_others_and_chats_alone():
    script = reply(text("one"), wait("never")), reply(text("a"))
    async with rewriting(*script) as (ours, provider):
        await ours.stop("another")
        await ours.stop("r")
        assert (await until_received(ours, "error"))["message"] == "The rewrite was stopped."
        await provider.until(lambda: provider.requests[0].closed_by_client)
        await ours.stop("r")
        await ours.turn("hi")
        assert [each["type"] for each in contents_of(ours)] == ["started", "text", "error"]


async def test_a_stop_before_the_first_text_follows_a_started():
    async with today(reply(wait("never"))) as (ours, provider):
        await ours.ask("rewrite/prompt", params("a"))
        await provider.until(lambda: provider.requests)
        await ours.stop("r")
        await until_received(ours, "error")
        assert [each["type"] for each in contents_of(ours)] == ["started", "error"]


async def test_a_newer_rewrite_of_the_same_id_takes_the_place_of_the_older():
    script = reply(text("old"), wait("never")), reply(text("new"))
    async with rewriting(*script) as (ours, provider):
        begun = len(contents_of(ours))
        await ours.ask("rewrite/prompt", params("b"))
        await until_received(ours, "finished")
        assert provider.requests[0].closed_by_client
        again = [each["type"] for each in contents_of(ours)[begun:]]
        assert (again[0], again[-1]) == ("started", "finished")
        assert "error" not in again


async def test_the_model_is_sent_the_surrounding_text_and_no_chat(tmp_path):
    file = tmp_path / "a.py"
    file.write_text("import the_zen\nx = 1\nprint(x, the_zen)\n")
    answer = reply(
        reasoning("hm"), text("import the_zen\nx = 2\nprint(x, the_zen)"), finish("stop")
    )
    async with Provider([reply(text("hello")), answer]) as provider:
        config = provider_config(
            provider.url,
            prompts={"rewrite": "Make it rhyme."},
            rewrite={"model": "p/m"},
            defaultModel=ECHO,
        )
        async with current(config) as ours:
            await ours.turn("a secret of the chat", model="p/m")
            request = params("Two.", path=str(file))
            assert (await ours.ask("rewrite/prompt", request))["model"] == "p/m"
            await until_received(ours, "finished")
            assert new_text(ours) == "x = 2\n"
        [system, user] = provider.requests[1].body["messages"]
        assert system["content"] == "Make it rhyme."
        shown = str(user["content"])
        for part in ("import the_zen", "x = 1", "print(x, the_zen)", "Two.", "a.py"):
            assert part in shown
        assert "secret" not in shown


async def test_what_cannot_be_begun_is_an_error_for_the_user():
    async with current({**ON_SCRIPT, "rewrite": {"model": "no/such"}}) as ours:
        error = await refused(ours, "rewrite/prompt", params("say x"))
        assert error["code"] == -32603
        assert "no/such cannot be used" in error["message"]
    for name in ("emacs", "VsCode"):  # the latter hides the error, and the next turn repeats it
        async with current({"providers": {}}, clientInfo={"name": name}) as ours:
            message = (await refused(ours, "rewrite/prompt", params("say x")))["message"]
            assert "/login" in message
            assert (message in (await ours.turn("go", model=ECHO)).text) == (name == "VsCode")
    async with current({"rewrite": {"model": ECHO}}) as ours:
        assert (await ours.ask("rewrite/prompt", params("x")))["model"] == ECHO
    async with current(ON_SCRIPT) as ours:
        error = await refused(ours, "rewrite/prompt", params("x", "x" * 600_000))
        assert (error["code"], "params.text" in error["message"]) == (-32602, True)
        await ours.ask("rewrite/prompt", params("wait forever"))
        for number in range(1, MOST_AT_ONCE):
            await ours.ask("rewrite/prompt", params("wait forever", name=f"{number}"))
        error = await refused(ours, "rewrite/prompt", params("say x", name="s"))
        assert "16 rewrites are running already" in error["message"]
        assert await ours.ask("shutdown") is None
        assert contents_of(ours)[-1]["type"] == "error"
