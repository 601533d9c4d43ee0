"""The scripted model, used the three ways it is meant for: async, from a thread, as a process."""

import contextlib
import http.client
import json
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import anyio
import pytest

from eca_protocol.errors import DeadlineExceeded, LocalProtocolError
from eca_protocol.testing.provider import (
    Provider,
    Reply,
    burst,
    finish,
    provider_in_thread,
    raw,
    reasoning,
    reply,
    text,
    tool_call,
    usage,
    wait,
)


def ask(url: str, body: object, path: str = "/chat/completions") -> tuple[int, bytes]:
    """Posts with the standard library, a client that shares nothing with ours."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url + path, json.dumps(body).encode())
    try:
        with opener.open(request, timeout=5) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def chunks(body: bytes) -> list[dict]:
    lines = [line for line in body.decode().split("\n\n") if line]
    assert lines.pop() == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def test_a_reply_is_streamed_as_its_steps_say():
    script = [
        reply(
            reasoning("Hm"),
            "Hel",
            text("lo"),
            tool_call("f", '{"a":1}'),
            usage(3, 4),
            burst(2, "!"),
        )
    ]
    with provider_in_thread(script) as provider:
        status, body = ask(provider.url, {"model": "m1", "messages": [], "stream": True})
        [request] = provider.requests
    assert status == 200
    sent = chunks(body)
    deltas = [choice["delta"] for chunk in sent for choice in chunk["choices"]]
    assert [delta["content"] for delta in deltas if "content" in delta] == ["Hel", "lo", "!", "!"]
    assert deltas[0] == {"reasoning_content": "Hm"}
    calls = [delta["tool_calls"][0]["function"] for delta in deltas if "tool_calls" in delta]
    assert calls[0]["name"] == "f"
    assert "".join(call["arguments"] for call in calls) == '{"a":1}'
    assert {chunk["model"] for chunk in sent} == {"m1"}
    assert sent[-1]["usage"]["prompt_tokens"] == 10
    assert (request.method, request.body["model"], request.answered) == ("POST", "m1", True)


def test_a_torn_text_is_sent_in_two_parts_cut_within_a_character():
    with provider_in_thread([reply(text("wörld", torn=True))]) as provider:
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(provider.url).netloc)
        with contextlib.closing(connection):
            connection.request("POST", "/v1/chat/completions", b'{"stream":true,"messages":[]}')
            response = connection.getresponse()
            parts = [response.read1(), response.read1()]
    with pytest.raises(UnicodeDecodeError):
        parts[0].decode()
    assert "wörld" in b"".join(parts).decode()


def test_a_status_comes_with_its_headers_and_body():
    refusal = Reply(status=429, headers={"Retry-After": "1"}, body={"error": {"message": "slow"}})
    with provider_in_thread([refusal]) as provider:
        assert ask(provider.url, {})[0] == 429
        assert ask(provider.url, {})[0] == 500, "the script is used up"
    with provider_in_thread([], otherwise=reply("again")) as provider:
        assert ask(provider.url, {})[0] == ask(provider.url, {})[0] == 200


def test_a_request_for_a_title_does_not_use_up_the_script():
    title = {"messages": [{"role": "system", "content": "Give a Title."}]}
    chat = {"messages": [{"role": "user", "content": "a title, please"}]}
    with provider_in_thread([reply("chat")], title=reply("Short")) as provider:
        assert b"Short" in ask(provider.url, title)[1]
        assert b"chat" in ask(provider.url, chat)[1]
        provider.until(lambda: len(provider.requests) == 1)
        assert len(provider.provider.title_requests) == 1


def test_what_asks_no_model_has_a_reply_by_its_path():
    others = {"/api/show": Reply(body={"shown": 1}), "/models": Reply(status=401, body="no")}
    with provider_in_thread([], others=others) as provider:
        with urllib.request.urlopen(provider.url + "/api/show", timeout=5) as answer:
            assert json.load(answer) == {"shown": 1}
        with pytest.raises(urllib.error.HTTPError, match="401") as raised:
            urllib.request.urlopen(provider.url + "/models", timeout=5)
        raised.value.close()


def test_a_step_that_does_not_exist_is_refused_when_the_script_is_made():
    with pytest.raises(LocalProtocolError, match="sya"):
        reply({"sya": "typo"})


@pytest.mark.anyio
async def test_waiting_for_what_does_not_happen_ends_at_its_deadline():
    async with Provider() as provider:
        with pytest.raises(DeadlineExceeded):
            await provider.until(lambda: provider.open_connections == 1, seconds=0.01)
        async with await anyio.connect_tcp("127.0.0.1", int(provider.url[17:-3])):
            await provider.until(lambda: provider.open_connections == 1)


def test_a_script_file_is_served_by_a_process_of_its_own(tmp_path):
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"steps": [{"text": "from a file"}]}]))
    command = [sys.executable, "-m", "eca_protocol.testing.provider", "--script", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert b"from a file" in ask(url, {})[1]
        assert b"Hello!" in ask(url, {})[1]
        process.terminate()


IN_BOTH_APIS = reply(
    reasoning("Hm"),
    "Hel",
    text("lo"),
    tool_call("f", '{"a":1}'),
    burst(3, "!"),
    finish("tool_calls"),
    usage(3, 4),
)


def test_the_same_steps_are_sent_by_the_messages_api_where_that_is_requested():
    with provider_in_thread([IN_BOTH_APIS]) as provider:
        request = {"model": "m1", "messages": [], "stream": True}
        _, body = ask(provider.url, request, path="/messages")
    pairs = [event.split("\n") for event in body.decode().split("\n\n")[:-1]]
    events = [json.loads(data.removeprefix("data: ")) for _, data in pairs]
    assert [name.removeprefix("event: ") for name, _ in pairs] == [each["type"] for each in events]
    blocks = [
        [
            each["type"].removeprefix("content_block_")
            for each in events
            if each.get("index") == index
        ]
        for index in range(4)
    ]
    thought = ["start", "delta", "delta", "stop"]  # its text, its signature
    assert blocks == [thought, thought, thought, ["start", *["delta"] * 3, "stop"]]
    assert events[0]["message"]["model"] == "m1"
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert events[-2]["usage"] == {"input_tokens": 3, "output_tokens": 4}
    assert events[-1] == {"type": "message_stop"}


@pytest.mark.parametrize(
    "stream_option", [{"stream": False}, {}], ids=["no stream", "nothing said"]
)
def test_the_same_steps_are_one_object_where_no_stream_is_asked_for(stream_option):
    question = {"model": "m1", "messages": [], **stream_option}
    with provider_in_thread([IN_BOTH_APIS] * 2) as provider:
        completion = json.loads(ask(provider.url, question)[1])
        message = json.loads(ask(provider.url, question, path="/messages")[1])
    [choice] = completion["choices"]
    [call] = choice["message"]["tool_calls"]
    assert completion["object"] == "chat.completion"
    assert choice["finish_reason"] == "tool_calls"
    assert (choice["message"]["reasoning_content"], choice["message"]["content"]) == (
        "Hm",
        "Hello!!!",
    )
    assert call["function"] == {"name": "f", "arguments": '{"a":1}'}
    assert completion["usage"]["prompt_tokens"] == 3
    assert [block["type"] for block in message["content"]] == [
        "thinking", "text", "tool_use", "text",
    ]  # fmt: skip
    assert message["content"][2]["input"] == {"a": 1}
    assert (message["stop_reason"], message["usage"]["input_tokens"]) == ("tool_use", 3)


def test_gates_hold_an_answer_that_is_one_object_and_raw_bytes_stay_as_they_are():
    question = {"messages": [], "stream": False}
    with provider_in_thread([reply("Hel", wait("now"), "lo"), reply(raw("data: x"))]) as provider:
        provider.open("now")
        [choice] = json.loads(ask(provider.url, question)[1])["choices"]
        assert choice["message"]["content"] == "Hello"
        assert ask(provider.url, question)[1].startswith(b"data: x")


@pytest.mark.long
def test_the_official_client_reads_the_messages_api():
    import anthropic  # noqa: PLC0415 - it takes seconds

    with provider_in_thread([IN_BOTH_APIS] * 2) as provider:
        client = anthropic.Anthropic(
            api_key="none", base_url=provider.url.removesuffix("/v1"), max_retries=0
        )
        question = {"role": "user", "content": "Hi"}
        with client.messages.stream(model="m1", max_tokens=9, messages=[question]) as stream:
            answer = stream.get_final_message()
        whole = client.messages.create(model="m1", max_tokens=9, messages=[question])
    blocks = [block.model_dump(exclude_none=True) for block in whole.content]
    assert blocks == [block.model_dump(exclude_none=True) for block in answer.content]
    thought, text_block, call, more = answer.content
    assert (thought.thinking, text_block.text, more.text) == ("Hm", "Hello", "!!!")
    assert thought.signature
    assert (call.id, call.name, call.input) == ("call_1", "f", {"a": 1})
    assert (answer.model, answer.stop_reason) == ("m1", "tool_use")
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (3, 4)
