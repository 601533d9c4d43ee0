"""The replay of one side of a recorded conversation to a different other side."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from eca_protocol.errors import ConnectionClosed, DeadlineExceeded
from eca_protocol.framing import encode_frame
from eca_protocol.streams import memory_pair
from eca_protocol.transcript import DataEntry, EndEntry, Player, Transcript, play
from tests.eca_protocol.wire import code_of, notification, request, success

pytestmark = pytest.mark.anyio

JUNK = b"junk"


def transcript(*messages: tuple[Any, Any]) -> Transcript:
    entries: list[DataEntry | EndEntry] = []
    for side, what in messages:
        if what is None:
            entries.append(EndEntry(at=0, side=side))
        elif isinstance(what, bytes):
            entries.append(DataEntry(at=0, side=side, data=what, body=None))
        else:
            body = json.dumps(what).encode()
            entries.append(DataEntry(at=0, side=side, data=encode_frame(body), body=body))
    return Transcript(started=datetime.now(UTC), command=(), entries=tuple(entries))


def content(kind: str, **members: Any) -> dict[str, Any]:
    params = {"chatId": "C", "role": "assistant", "content": {"type": kind, **members}}
    return notification("chat/contentReceived", params)


FINISHED = content("progress", state="finished")
PROMPT = request(2, "chat/prompt", {"message": "hi"})
APPROVE = notification("chat/toolCallApprove", {"chatId": "C", "toolCallId": "T"})
MESSAGES = [
    ("client", request(1, "initialize", {"processId": 7})),
    ("server", success(1, {})),
    ("client", JUNK),
    ("client", PROMPT),
    ("server", success(2, {"chatId": "C"})),
    ("server", content("text", text="a")),
    ("server", content("toolCallRun", id="T")),
    ("client", APPROVE),
    ("server", request("s1", "editor/getDiagnostics", {"uri": "u"})),
    ("client", success("s1", {"diagnostics": []})),
    ("server", FINISHED),
    ("client", request(3, "shutdown")),
    ("server", success(3)),
    ("client", None),
]
RECORDED = transcript(*MESSAGES)


def sent(player: Player) -> list[Any]:
    return [
        each if each in (None, JUNK) else json.loads(each.partition(b"\r\n\r\n")[2])  # type: ignore[union-attr]
        for each in player.due_frames()
    ]


def renamed(message: Any, **ids: str) -> Any:
    text = json.dumps(message)
    for before, now in ids.items():
        text = text.replace(f'"{before}"', f'"{now}"')
    return json.loads(text)


def test_a_client_waits_for_what_its_messages_depend_on_and_uses_the_ids_of_this_run():
    player = Player(RECORDED, "client", process_id=99)
    assert sent(player) == [request(1, "initialize", {"processId": 99})]
    assert player.missing == ["the answer to 1"]
    player.receive(success(1, {"more": True}))
    assert sent(player) == [JUNK, PROMPT]
    player.receive(success(2, {"chatId": "mine"}))
    assert sent(player) == []
    player.receive(renamed(content("toolCallRun", id="its"), C="mine"))
    assert sent(player) == [renamed(APPROVE, C="mine", T="its")]
    assert player.missing == ["the request editor/getDiagnostics"]
    player.receive(request(40, "editor/getDiagnostics", {"uri": "other"}))
    player.receive(request(41, "editor/getDiagnostics"))
    refusal, answer = sent(player)
    assert code_of(refusal) == (41, -32601)
    assert answer == success(40, {"diagnostics": []})
    player.receive(FINISHED)
    player.receive(FINISHED)  # one more than recorded
    assert sent(player) == [request(3, "shutdown")]
    player.receive(success(3))
    assert sent(player) == [None]
    assert player.is_over


@pytest.mark.parametrize("params", [{}, {"params": None}, {"params": []}])
def test_a_client_without_client_info_still_gives_its_process_id(params):
    player = Player(transcript(("client", {**request(1, "initialize"), **params})), "client",
                    process_id=99)  # fmt: skip
    assert sent(player)[0]["params"] == {"processId": 99}


def test_a_server_answers_with_the_ids_of_this_client():
    player = Player(RECORDED, "server")
    assert sent(player) == []
    player.receive(request("i", "initialize", {}))
    assert sent(player) == [success("i", {})]
    player.receive(request("p", "chat/prompt", {"message": "hi"}))
    assert sent(player)[0] == success("p", {"chatId": "C"})
    player.receive(renamed(APPROVE, C="C"))
    assert [each["method"] for each in sent(player)] == ["editor/getDiagnostics"]
    player.receive(success("s1", None))
    assert sent(player) == [FINISHED]
    assert not player.is_over


@pytest.mark.parametrize(
    ("leaves", "expected"), [(False, DeadlineExceeded), (True, ConnectionClosed)]
)
async def test_a_vain_wait_names_the_missing_message_or_reader(leaves, expected):
    for limit, second, missing in (
        (2**16, ("server", success(2, {})), "the answer to 2"),
        (1, ("client", PROMPT), "a reader of our messages"),
    ):
        near, far = memory_pair(limit=limit)
        if leaves and limit == 1:
            await far.aclose()
        elif leaves:
            far.close_writing()
        with pytest.raises(expected, match=missing):
            await play(transcript(("client", PROMPT), second), near, "client", deadline=0.02)


async def test_two_players_play_the_whole_conversation():
    near, far = memory_pair()
    recorded = transcript(*MESSAGES[3:-1])
    heard: dict[str, list[Any]] = {}

    async def run(side: Any, transport: Any) -> None:
        heard[side] = await play(recorded, transport, side, deadline=5)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, "server", far)
        tasks.start_soon(run, "client", near)
    for side in ("client", "server"):
        assert heard[side] == [what for who, what in MESSAGES[3:-1] if who != side]
