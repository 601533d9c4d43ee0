"""The scripted model: a chat's replies, gates and tools are its own."""

from typing import Any

import anyio
import pytest

from eca_protocol.testing.conformance.model import ChatModel, Model
from eca_protocol.testing.conformance.recorder import ObservedFields
from eca_protocol.testing.provider import ReceivedRequest
from eca_protocol.testing.script import Reply, reply, tool_call, wait

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Run on trio only: the model does not depend on the backend."""
    return "trio"


def a_request(*tools: Any, text: str = "Hi", instruction: str = "") -> ReceivedRequest:
    system = {"role": "system", "content": instruction}
    body = {"messages": [system, {"role": "user", "content": text}], "tools": list(tools)}
    return ReceivedRequest(
        method="POST",
        target="/chat/completions",
        headers={},
        body=body,
        is_title="title" in instruction,
    )


def called_tools(answer: Reply) -> list[str]:
    return [step["tool_call"] for step in answer.steps if "tool_call" in step]


@pytest.mark.parametrize(
    ("offered", "scripted", "name"),
    [
        ("eca_read_file", "read_file", "eca_read_file"),
        ("eca__read_file", "eca_read_file", "eca__read_file"),
        ("read_file", "read_file", "read_file"),
        ("other", "read_file", "read_file"),
    ],
)
async def test_a_tool_is_called_by_the_name_it_is_offered_under(offered, scripted, name):
    chat = Model().chat([reply(tool_call(scripted, "{}"))] * 2)
    in_completions = {"type": "function", "function": {"name": offered}}
    assert called_tools(chat.answer(a_request(in_completions))) == [name]
    assert called_tools(chat.answer(a_request({"name": offered, "input_schema": {}}))) == [name]


@pytest.mark.parametrize(
    ("offered", "listed", "name"),
    [
        ("other", "eca_read_file", "eca_read_file"),
        ("other", "read_file", "read_file"),
        ("eca_other", "read_file", "eca_read_file"),
    ],
)
async def test_a_tool_that_is_withheld_is_called_as_the_client_knows_it(offered, listed, name):
    chat = Model().chat([reply(tool_call("read_file", "{}"))], listed=lambda: (listed,))
    assert called_tools(chat.answer(a_request({"name": offered}))) == [name]


async def test_a_gate_of_one_chat_is_none_of_another():
    model = Model()
    one, two = model.chat([reply(wait("now"))]), model.chat([reply(wait("now"))])
    gates = [chat.answer(a_request()).steps[0]["wait"] for chat in (one, two)]
    model.reached.add(gates[0])
    assert (one.reached_gates, two.reached_gates) == ({"now"}, set())


async def test_a_script_continues_and_then_says_that_it_has_ended():
    chat: ChatModel = Model().chat(
        [reply("One"), lambda request: reply(f"to {request.body['messages'][1]['content']}")]
    )
    texts = [chat.answer(a_request(text="you")).steps[0]["text"] for _ in range(3)]
    assert texts == ["One", "to you", "The script has ended."]
    assert len(chat.requests) == 3


@pytest.mark.parametrize(
    ("title_offers", "chat_is_told"),
    [([{"name": "read_file"}], "Be good."), ([], "Write no title.")],
    ids=["a title with tools", "a chat that speaks of titles"],
)
async def test_a_title_is_known_of_a_server_that_breaks_one_rule_for_it(title_offers, chat_is_told):
    model = Model()
    chat = model.chat([reply("An answer")])
    text = f"Hi {chat.marker}"
    chat_request = a_request({"name": "read_file"}, text=text, instruction=chat_is_told)
    titled = a_request(*title_offers, text=text, instruction="Find a title.")
    async with anyio.create_task_group() as group:
        for request in (chat_request, titled):
            group.start_soon(model._answer, request)
    assert (chat.requests, chat.title_requests) == ([chat_request], [titled])


async def test_a_field_counts_when_it_came_or_was_taken():
    fields = ObservedFields()
    request = {"method": "chat/queryCommands", "params": {"query": "x", "chatId": None}}
    fields.take("client", {"id": 1, **request}, "1")
    fields.take("client", {"id": 2, **request}, "2")
    assert fields.rows == set()
    fields.take("server", {"id": 2, "error": {"code": -32602}}, "2")
    assert fields.rows == set()
    fields.take("server", {"id": 1, "result": {"commands": [{"name": "a"}]}}, "1")
    assert fields.rows == {
        "FIELD:ChatQueryCommandsParams.query",
        "FIELD:ChatQueryCommandsResponse.commands",
        "FIELD:ChatCommand.name",
    }
    content = {"type": "progress", "state": "running"}
    fields.take(
        "server", {"method": "chat/contentReceived", "params": {"content": content}}, "null"
    )
    assert "VALUE:ChatProgressContent.state=running" in fields.rows
