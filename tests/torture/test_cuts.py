"""Connections that break, stall or trickle at any byte: to the client and to a model."""

import json
import re
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from eca_protocol.testing.provider import (
    ReceivedRequest,
    Reply,
    finish,
    provider_in_thread,
    reply,
    tool_call,
)
from tests.eca_server.agent.chat.editor import provider_config
from tests.eca_server.conftest import SERVE
from tests.eca_server.fork_server import ForkedProcess
from tests.eca_server.processes import assert_gone, children
from tests.eca_server.stranger import (
    HEADER,
    START_SECONDS,
    Stranger,
    content_of,
    environment,
    frame,
    is_finished,
    message,
    text_of,
)
from tests.torture.proxy import KINDS, Direction, Fault, Proxy
from tests.torture.rounds import Share, Torture, shares
from tests.torture.servers import QUIET, Place, listed, problems_in, prompts_of, turn

END_SECONDS = 6.0
"""Twice what W-13 grants to every end: a machine under torture is busy."""
TURN_SECONDS = 15.0
FINISHED = re.compile(rb'"state": ?"finished"')
END = " and its end."
RETRY = {"baseDelayMs": 1, "maxDelayMs": 2}
WORK = """\
think about it
repeat 20 some words
call eca_write_file {"path": "a.txt", "content": "what a model wrote"}
call eca_shell_command {"command": "sleep 0.05; echo ran"}
say the end"""


def drawn_fault(random: Random, sizes: Mapping[Direction, int]) -> Fault:
    """Draw a direction, a kind of fault and a byte."""
    way: Direction = random.choice(["up", "down"])
    return Fault(way, random.choice(KINDS), random.randrange(sizes[way]))


class Line:
    """One server whose standard streams are a connection through a proxy, and its client."""

    def __init__(self, place: Place, chat: str) -> None:
        self.place = place
        self.chat = chat
        self.received: list[Any] = []

    def play(self, fault: Fault | None, torture: Torture) -> dict[Direction, int]:
        """Have a whole session, as far as the fault lets it; return the bytes that passed."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            near = socket.create_connection(listener.getsockname())
            far, _ = listener.accept()
        log = self.place.home / f"{self.chat}.txt"
        env = environment(self.place.home, **QUIET)
        with log.open("wb") as errors, far:
            streams = {"stdin": far.fileno(), "stdout": far.fileno(), "stderr": errors.fileno()}
            process = ForkedProcess(SERVE, cwd=self.place.project, env=env, **streams)
        try:
            with Proxy(lambda: near) as proxy:
                proxy.arm(fault)
                with socket.create_connection(("127.0.0.1", proxy.port)) as client:
                    is_whole = self.talk(client)
                    begun = children(process.pid)
                    # A connection may be cut while the process still starts.
                    within = END_SECONDS if self.received else END_SECONDS + START_SECONDS
                    with torture.timed("end of the process", within):
                        code = process.wait(within)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert is_whole or (fault is not None and fault.kind in {"reset", "end"})
        assert code == 0 if is_whole else code in {0, 1}, f"exit code {code}"
        assert_gone(begun)
        assert "Traceback" not in log.read_text(), log.read_text()
        return proxy.passed

    def talk(self, client: socket.socket) -> bool:
        """Say and read everything; return whether every request was answered."""
        client.settimeout(START_SECONDS)
        params = {"processId": None, **self.place.introduction}
        prompt = {"chatId": self.chat, "message": WORK, "model": "simulator/script", "trust": True}
        first = [
            message("initialize", params, request_id=1),
            message("initialized", {}),
            message("chat/prompt", prompt, request_id=2),
            message("chat/list", {}, request_id=3),
        ]
        last = [message("shutdown", request_id=4), message("exit")]
        data, is_said = b"", False
        with suppress(ConnectionError):
            client.sendall(b"".join(map(frame, first)))
            while piece := client.recv(65536):
                data += piece
                if FINISHED.search(data) and not is_said:
                    is_said = True
                    client.sendall(b"".join(map(frame, last)))
        position = 0
        while head := HEADER.match(data, position):
            position = head.end() + int(head[1])
            if position <= len(data):  # the last frame may be cut
                self.received.append(json.loads(data[head.end() : position]))
        return {each["id"] for each in self.received if "result" in each} == {1, 2, 3, 4}

    @property
    def is_begun(self) -> bool:
        """Tell whether a part of the model's answer came."""
        return any(
            each.get("params", {}).get("role") == "assistant" and content_of(each).get("type")
            for each in self.received
        )


@shares(sample=1, seconds=80)
def test_client_cuts(torture: Torture, share: Share, tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.project.mkdir()
    sizes = Line(place, "whole").play(None, torture)
    begun = ["whole"]

    def play(random: Random) -> None:
        fault = drawn_fault(random, sizes)
        torture.scene = repr(fault)
        torture.count(fault.kind)
        line = Line(place, f"chat {torture.rounds}")
        try:
            line.play(fault, torture)
        finally:
            begun.extend([line.chat] * line.is_begun)

    torture.run(share, play)
    with place.server() as server:
        assert set(begun) <= listed(server)
        assert [chat for chat in begun if prompts_of(server, chat) != [WORK]] == []
        server.result("shutdown")


def answer_to(request: ReceivedRequest) -> Reply:
    """Call a tool, then answer with the number of the last prompt."""
    number = re.findall(r"round (\d+)\.", json.dumps(request.body))[-1]
    if request.body["messages"][-1]["role"] == "tool":
        return reply("This is ", "the answer ", "to ", f"<{number}>", END)
    call = tool_call("eca_read_file", '{"path": "a.txt"}', call_id=f"call{number}")
    return reply(f"I look <{number}>. ", call, finish("tool_calls"))


class Caller:
    """A server that asks a model through a proxy."""

    def __init__(self, server: Stranger, proxy: Proxy, torture: Torture) -> None:
        self.server = server
        self.proxy = proxy
        self.torture = torture
        self.sizes: dict[Direction, int] = {}
        self.prompts = 0

    def whole_turn(self, chat: str) -> None:
        """Have a turn without a fault; its answer is the one to its prompt."""
        self.proxy.arm(None)
        text = self.turn(chat)
        expected = f"I look <{self.prompts}>. This is the answer to <{self.prompts}>{END}"
        assert text == expected, f"expected {expected!r}, got {text!r}"
        self.sizes = dict(self.proxy.passed)

    def turn(self, chat: str) -> str:
        self.prompts += 1
        place = len(self.server.received)
        with self.torture.timed("turn", TURN_SECONDS):
            turn(self.server, f"This is round {self.prompts}.", chat, model=None)
        self.server.settle()
        turn_messages = self.server.received[place:]
        assert sum(map(is_finished, turn_messages)) == 1, "a turn has not one end"
        answers = text_of(turn_messages)
        is_told = bool(problems_in(turn_messages)) or answers.endswith(END)
        assert is_told, f"cut in silence: {answers!r}"
        assert set(re.findall(r"<(\d+)>", answers)) <= {str(self.prompts)}, f"foreign: {answers!r}"
        return answers

    def play(self, random: Random) -> None:
        """Have a turn with a fault, and one without."""
        chat = f"chat {self.torture.rounds // 10}"
        fault = drawn_fault(random, self.sizes)
        self.torture.scene = repr(fault)
        self.proxy.arm(fault)
        text = self.turn(chat)
        self.torture.count(fault.kind)
        self.torture.count("answered whole", text.endswith(END))
        if fault.kind in {"split", "hold"}:
            assert text.endswith(END), f"cut without a cause: {text!r}"
        self.whole_turn(chat)


@shares(sample=8, seconds=70)
def test_model_cuts(torture: Torture, share: Share, tmp_path: Path) -> None:
    place = Place(tmp_path)
    with provider_in_thread(answer_to) as provider:
        port = int(re.findall(r":(\d+)/", provider.url)[0])
        with Proxy(lambda: socket.create_connection(("127.0.0.1", port))) as proxy:
            config = provider_config(
                f"http://127.0.0.1:{proxy.port}/v1", chat={"title": False}, retry=RETRY
            )
            with place.server({"ECA_CONFIG": json.dumps(config)}) as server:
                (place.project / "a.txt").write_text("text")
                caller = Caller(server, proxy, torture)
                caller.whole_turn("whole")
                torture.run(share, caller.play)
                server.result("shutdown")
