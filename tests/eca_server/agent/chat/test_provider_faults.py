"""Errors of a model's provider over real HTTP: explained in the chat, which continues."""

import logging

import pytest

from eca_protocol import json
from eca_protocol.testing.provider import (
    Provider,
    ReceivedRequest,
    Reply,
    burst,
    close,
    hang,
    provider_in_thread,
    raw,
    reply,
    reset,
    text,
    tool_call,
)
from tests.eca_protocol.wire import notification
from tests.eca_server.agent.chat.agent_session import older, today
from tests.eca_server.agent.chat.current import CURRENT
from tests.eca_server.agent.chat.editor import contents, editor, provider_config
from tests.eca_server.agent.chat.editor import text as text_of
from tests.eca_server.models.every_api import API
from tests.eca_server.models.openai_responses.scripted import as_bytes, event
from tests.eca_server.stranger import content_of

KEY = provider_config("")["providers"]["p"]["key"]
PAGE = "<!doctype html><html><head><title>Bad gateway</title></head><body>sorry</body></html>"
HTML = {"content-type": "text/html"}
HALF = raw('data: {"id":"x","choices":[{"index":0,"delta":{"conte')


@pytest.mark.parametrize(
    ("refusal", "shown", "explanation"),
    [
        (reply(HALF, close()), "", "the answer broke off"),
        (reply("some", HALF, close()), "some", "the answer broke off"),
        (Reply(before_headers=[reset()], steps=[text("never")]), "", "cannot be reached"),
        (reply("some", reset()), "some", "the answer broke off"),
        (reply("some", close(), close_delimited=True), "some", "the answer broke off"),
        (reply(raw(b"\xff\xfe\x00 not at all \n\n\x80\n\n"), close()), "", "the answer"),
        (reply("some", raw(b"data: {]\n\n"), close()), "some", "the answer cannot be read"),
        (reply(raw(b"data: " + b"z" * 10_000_000), close()), "", "the answer"),
        (Reply(body=PAGE, headers=HTML), "", "the answer cannot be read"),
        (Reply(status=502, body=PAGE, headers=HTML), "", "failing: Bad gateway (status 502"),
        (Reply(status=401, body={"error": {"message": f"Wrong: {KEY}."}}), "", "was refused"),
        (None, "", "redirects"),
        (Reply(status=503), "", "status 503"),
    ],
)  # fmt: skip
async def test_a_provider_s_error_is_explained_and_the_chat_continues(
    refusal, shown, explanation, caplog
):
    caplog.set_level(logging.DEBUG)

    def answer(request: ReceivedRequest) -> Reply:
        prompt = str(request.body["messages"][-1]["content"])
        return reply("all is well") if prompt.endswith("next") else refusal

    async with Provider(otherwise=reply("leaked")) as elsewhere, Provider(answer) as provider:
        refusal = refusal or Reply(status=307, headers={"location": elsewhere.url}, body="")
        config = provider_config(provider.url, retry={"baseDelayMs": 5, "maxDelayMs": 10})
        async with editor(config) as ours:
            assert (await ours.turn("go")).finishes == 1
            received = contents(ours.received)
            answered, system_text = (
                text_of([each for role, each in received if role == speaker])
                for speaker in ("assistant", "system")
            )
            assert answered == shown
            assert explanation in system_text
            assert "p/m" in system_text
            assert (await ours.turn("next")).text.endswith("all is well")
            assert KEY not in json.dumps(ours.received).decode() + caplog.text
        assert elsewhere.requests == elsewhere.other_requests == []  # a redirect is not followed


@pytest.mark.requirement("W-23a", "W-23d", "W-23g", "CHAT-32", "CHAT-33")
async def test_nothing_of_a_stream_at_full_speed_is_passed_on_once_the_stop_was_read():
    with provider_in_thread([reply(burst(200_000, "x"))], otherwise=reply("fine")) as provider:
        async with editor(provider_config(provider.url)) as ours:
            await ours.prompt("flood")
            await ours.content("text", text="x")
            behind = ours.request("chat/queryContext", {"query": ""})
            await ours.send(notification("chat/promptStop", {"chatId": "c"}), behind)
            await ours.answer(behind)
            begun = len(ours.received)
            await ours.expect_finishes(1)
            last = [content_of(each).get("text") for each in ours.received[begun:]]
            assert last in (["\n\nStopped.", ""], [""], [])  # the answer may come behind them
            provider.until(lambda: provider.requests[0].closed_by_client)
            assert (await ours.turn("next")).answer == "fine"


@pytest.mark.requirement("VALUE:ChatToolCallRejectedContent.reason=interrupted", "W-32b")
@pytest.mark.parametrize(
    ("capabilities", "reason"), [(CURRENT, "interrupted"), ({}, "user-config")]
)
async def test_a_call_whose_answer_breaks_off_is_rejected_as_interrupted(capabilities, reason):
    script = [reply(tool_call("eca_shell_command", '{"comm'), reset())]
    session = today if capabilities else older
    async with session(*script, retry={"maxRetries": 0}) as (ours, _):
        await ours.turn("go")
        [rejected] = ours.contents(kind="toolCallRejected")
        assert rejected["reason"] == reason


async def test_a_new_reasoning_ends_the_one_before_it() -> None:
    items = [{"type": "reasoning", "id": f"rs_{place}"} for place in range(2)]
    added = [event("output_item.added", output_index=n, item=item) for n, item in enumerate(items)]
    answer = API["openai-responses"].replying([raw(as_bytes(added)), hang()])
    async with older(answer, provider={"api": "openai-responses"}) as (ours, _):
        await ours.prompt("go")
        first = await ours.content("reasonStarted")
        await ours.content("reasonFinished", id=first["id"])
        await ours.content("reasonStarted")
        await ours.expect_stopped()
