"""Faults of a model's provider, met by the real process over real pipes and real HTTP.

One process serves them all, so each test also shows that the one before it left nothing behind.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from eca_protocol import json
from eca_protocol.testing.provider import (
    ReceivedRequest,
    Reply,
    ThreadedProvider,
    burst,
    close,
    hang,
    provider_in_thread,
    raw,
    reasoning,
    reply,
    reset,
    text,
    tool_call,
)
from tests.eca_server.agent.chat.agent_session import older, today
from tests.eca_server.agent.chat.current import CURRENT
from tests.eca_server.agent.chat.editor import provider_config
from tests.eca_server.stranger import (
    SERVE,
    Stranger,
    content_of,
    environment,
    is_finished,
    message,
    text_of,
)

KEY = "sk-not-a-real-key-0123456789"
PAGE = "<!doctype html><html><head><title>Bad gateway</title></head><body>sorry</body></html>"
HTML = {"content-type": "text/html"}
HALF = raw('data: {"id":"x","choices":[{"index":0,"delta":{"conte')

REPLIES: dict[str, list[Reply]] = {
    "fine": [reply("all is well")],
    "hang": [Reply(before_headers=[hang()], steps=[text("never")])],
    "stall": [reply("some", hang())],
    "stall while thinking": [reply(reasoning("hm"), hang())],
    "flood": [reply(burst(200_000, "x"))],
    "half": [reply(HALF, close())],
    "some and half": [reply("some", HALF, close())],
    "reset": [Reply(before_headers=[reset()], steps=[text("never")])],
    "some and reset": [reply("some", reset())],
    "end without an end": [reply("some", close(), close_delimited=True)],
    "garbage": [reply(raw(b"\xff\xfe\x00 not at all \n\n\x80\n\n"), close())],
    "garbage event": [reply("some", raw(b"data: {]\n\n"), close())],
    "huge line": [reply(raw(b"data: " + b"z" * 10_000_000), close())],
    "page": [Reply(body=PAGE, headers=HTML)],
    "bad gateway": [Reply(status=502, body=PAGE, headers=HTML)],
    "refused": [Reply(status=401, body={"error": {"message": f"Wrong API key provided: {KEY}."}})],
    "limited": [Reply(status=429, headers={"retry-after": "30"}, body={})],
    "once": [Reply(status=500, body={"error": {"message": "oops"}}), reply("now it works")],
    "no words": [Reply(status=503)],
}
"""The provider's replies, by prompt; the last reply of a list is repeated."""


@attrs.define
class Setting:
    """The process, its provider, and another that must never hear of the first one's key."""

    server: Stranger
    provider: ThreadedProvider
    elsewhere: ThreadedProvider

    def turn(self, words: str, chat: str) -> list[Any]:
        """One turn; what came for its chat."""
        self.server.send_prompt(words, chat=chat)
        return self.finished(chat)

    def finished(self, chat: str) -> list[Any]:
        """Return the contents of the chat up to its `finished`."""
        came = self.server.expect_finished(chat)
        return [each for each in came if each.get("params", {}).get("chatId") == chat]

    def requests(self, words: str) -> list[ReceivedRequest]:
        """The requests that a prompt led to."""
        return [each for each in self.provider.requests if words_of(each) == words]

    def assert_goes_on(self, chat: str) -> None:
        """The chat's next turn is answered whole; nothing of the last one was left to come."""
        came = self.turn("fine", chat)
        assert [is_finished(each) for each in came].count(True) == 1
        assert content_of(came[0])["text"] == "Waiting model"
        assert text_of(came) == "all is well"


def words_of(request: ReceivedRequest) -> str:
    """Return the user's last message."""
    return str(request.body["messages"][-1]["content"]).rpartition("\n\n")[2]


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    home = tmp_path_factory.mktemp("home")
    asked: Counter[str] = Counter()

    def answer(request: ReceivedRequest) -> Reply:
        words = words_of(request)
        replies = REPLIES[words]
        asked[words] += 1
        return replies[min(asked[words], len(replies)) - 1]

    with provider_in_thread(otherwise=reply("leaked")) as elsewhere:
        location = f"{elsewhere.url}/chat/completions"
        REPLIES["redirect"] = [Reply(status=307, headers={"location": location}, body="")]
        with provider_in_thread(answer) as provider:
            retry = {"baseDelayMs": 5, "maxDelayMs": 10}
            config = provider_config(provider.url, chat={"title": False}, retry=retry)
            server = Stranger(
                SERVE,
                cwd=home,
                env=environment(home, ECA_CONFIG=json.dumps(config).decode()),
                errors=home / "stderr.txt",
            )
            try:
                server.introduced()
                yield Setting(server, provider, elsewhere)
            finally:
                server.close()


@pytest.mark.parametrize(
    ("words", "shown", "told"),
    [
        ("half", "", "the answer broke off"),
        ("some and half", "some", "the answer broke off"),
        ("reset", "", "the provider cannot be reached"),
        ("some and reset", "some", "the answer broke off"),
        ("end without an end", "some", "the answer broke off"),
        ("garbage", "", "the answer"),
        ("garbage event", "some", "the answer cannot be read"),
        ("huge line", "", "the answer"),
        ("page", "", "the answer cannot be read"),
        ("bad gateway", "", "overloaded or failing: Bad gateway (status 502"),
        ("refused", "", "the key was refused"),
        ("redirect", "", "redirects"),
        ("no words", "", "status 503"),
    ],
)
def test_a_provider_s_error_is_explained_and_the_chat_continues(setting, words, shown, told):
    came = setting.turn(words, words)
    assert sum(map(is_finished, came)) == 1
    assert text_of(came) == shown
    said = text_of(came, "system")
    assert told in said
    assert "p/m" in said
    assert KEY not in json.dumps(setting.server.seen).decode()
    assert KEY not in setting.server.errors
    assert len(setting.requests(words)) >= 1
    assert setting.elsewhere.provider.requests == []  # a redirect is not followed
    assert setting.elsewhere.provider.other_requests == []
    setting.assert_goes_on(words)


def test_an_error_before_the_first_output_is_retried_and_one_answer_is_seen(setting):
    came = setting.turn("once", "once")
    assert len(setting.requests("once")) == 2
    assert text_of(came) == "now it works"
    assert text_of(came, "system") == ""
    progress = [content_of(each).get("text", "") for each in came]
    assert any("trying again in" in each for each in progress)
    assert sum(map(is_finished, came)) == 1


@pytest.mark.parametrize(
    ("words", "before"),
    [
        ("hang", lambda content: content.get("text") == "hang"),
        ("stall", lambda content: content.get("text") == "some"),
        ("stall while thinking", lambda content: content["type"] == "reasonText"),
        ("limited", lambda content: "trying again in 30 s" in content.get("text", "")),
    ],
)
def test_a_stop_ends_the_turn_and_closes_the_connection(setting, words, before):
    server = setting.server
    server.ask("chat/prompt", {"chatId": words, "message": words})
    server.until(lambda m: content_of(m) and before(content_of(m)))
    setting.provider.until(lambda: bool(setting.requests(words)))
    server.stop(words)
    types = [content_of(each)["type"] for each in setting.finished(words)]
    assert types == (["reasonFinished"] if "thinking" in words else []) + ["text", "progress"]
    if words == "limited":
        assert len(setting.requests(words)) == 1
    else:
        setting.provider.until(lambda: setting.requests(words)[0].closed_by_client)
    setting.assert_goes_on(words)


@pytest.mark.requirement("W-23a", "W-23d", "W-23g", "CHAT-33")
def test_nothing_of_a_stream_at_full_speed_is_passed_on_once_the_stop_was_read(setting):
    server = setting.server
    server.ask("chat/prompt", {"chatId": "flood", "message": "flood"})
    server.until(lambda m: content_of(m).get("text") == "x")
    stop = message("chat/promptStop", {"chatId": "flood"})
    server.send(stop, message("chat/queryContext", {"query": ""}, request_id="behind the stop"))
    server.answer("behind the stop")
    last = [content_of(each).get("text") for each in setting.finished("flood")]
    assert last == ["\n\nStopped.", ""]
    setting.provider.until(lambda: setting.requests("flood")[0].closed_by_client)
    setting.assert_goes_on("flood")


@pytest.mark.requirement("W-13e")
def test_a_client_that_is_gone_closes_the_connection_to_the_provider(start_server):
    with provider_in_thread([reply("some", hang())]) as provider:
        config = json.dumps(provider_config(provider.url, chat={"title": False})).decode()
        server = start_server(env={"ECA_CONFIG": config})
        server.introduced()
        server.ask("chat/prompt", {"chatId": "c", "message": "hi"})
        server.until(lambda m: content_of(m).get("text") == "some")
        server.close_input()
        provider.until(lambda: provider.requests[0].closed_by_client)
        assert server.exit_code() == 0


@pytest.mark.requirement("VALUE:ChatToolCallRejectedContent.reason=interrupted", "W-32b")
@pytest.mark.parametrize(
    ("capabilities", "reason"), [(CURRENT, "interrupted"), ({}, "user-choice")]
)
async def test_a_call_whose_answer_breaks_off_is_rejected_as_interrupted(capabilities, reason):
    script = [reply(tool_call("eca_shell_command", '{"comm'), reset())]
    session = today if capabilities else older
    async with session(*script, retry={"maxRetries": 0}) as (ours, _):
        await ours.turn("go")
        [rejected] = ours.contents(kind="toolCallRejected")
        assert rejected["reason"] == reason
