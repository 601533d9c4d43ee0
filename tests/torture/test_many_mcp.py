"""Fifty-two MCP servers, of which six are deaf and two flood: the others work, and the loop too."""

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.eca_server.processes import assert_gone, children
from tests.eca_server.stranger import Stranger, content_of, is_finished, text_of
from tests.torture.rounds import Share, Torture, shares
from tests.torture.servers import Place

SERVER = Path(__file__).parents[1] / "eca_server" / "agent" / "mcp" / "scripted_server.py"
DEAF: Mapping[str, Any] = {"on": {"initialize": [["hang"]]}}
LOGGED = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * 900}}
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
FLOODS: tuple[Mapping[str, Any], ...] = (
    {"at_start": [["repeat", 100_000, ["say", LOGGED]]]},
    {"at_start": [["repeat", 100_000, ["stderr", "x" * 900]]]},
    {"at_start": [["repeat", 100_000, ["line", "x" * 900]]]},
    {"at_start": [["repeat", 5_000, ["raw", "x" * 60_000]]]},
    {"on": {"notifications/initialized": [["repeat", 100_000, ["say", CHANGED]]]}},
)
ASKED_EVERY = 0.02
ANSWER_SECONDS = 3.0
"""A loop that is held up for longer than that is stuck: the machine has other work, too."""
TURN_SECONDS = 10.0
"""A first turn waits two seconds for servers that start; the rest is a busy machine's."""
SETTLE_SECONDS = 60.0


def configured(random: Random, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Servers in any order."""
    scripts: dict[str, Any] = {f"deaf{n}": DEAF for n in range(sizes["deaf"])}
    scripts |= {f"flood{n}": script for n, script in enumerate(random.sample(FLOODS, 2))}
    scripts |= {f"good{n}": {} for n in range(sizes["good"])}
    names = random.sample([*scripts], len(scripts))
    return {
        name: {
            "command": sys.executable,
            "args": ["-S", "-E", str(SERVER), json.dumps(scripts[name])],
            "startTimeoutSeconds": 30,
        }
        for name in names
    }


def statuses(server: Stranger) -> dict[str, str]:
    """Return the last status of each MCP server."""
    updates = (
        each["params"] for each in server.received if each.get("method") == "tool/serverUpdated"
    )
    return {each["name"]: each["status"] for each in updates if each["type"] == "mcp"}


def is_news(message: Mapping[str, Any]) -> bool:
    """Return whether a message says why a server is missing from a turn."""
    is_text = content_of(message).get("type") == "text" and message["params"]["role"] == "system"
    return is_text or message.get("method") in ("tool/serverUpdated", "$/showMessage")


def running(server: Stranger) -> set[str]:
    return {name for name, status in statuses(server).items() if status == "running"}


def ask_until(server: Stranger, is_enough: Callable[[], bool], torture: Torture) -> None:
    """Ask a simple question again and again until it is so; no answer may take long."""
    until = time.monotonic() + SETTLE_SECONDS
    while not is_enough():
        assert time.monotonic() < until, f"it does not come so far: {statuses(server)}"
        with torture.timed("answer", ANSWER_SECONDS):
            server.settle()
        time.sleep(ASKED_EVERY)  # between two measurements; nothing is waited for


def play(place: Place, torture: Torture, random: Random, sizes: Mapping[str, int]) -> None:
    """Start a server with all of them, have turns, and end it."""
    servers = configured(random, sizes)
    good = {name for name in servers if name.startswith("good")}
    config = {
        "chat": {"title": False},
        "mcpServers": servers,
        "toolCall": {"approval": {"byDefault": "allow"}},
    }
    with place.server({"ECA_CONFIG": json.dumps(config)}) as server:
        with torture.timed("first turn", TURN_SECONDS):
            server.prompt("say first", chat="c")
            ask_until(server, lambda: any(map(is_finished, server.received)), torture)
        assert "first" in text_of(server.received)
        shown_words = {word.strip(",.") for word in text_of(server.received, "system").split()}
        unnamed = {name for name in servers if name.startswith("deaf")} - shown_words
        # Of many late servers the first ten are named.
        is_cut = re.search(r"and \d+ more", text_of(server.received, "system")) is not None
        assert is_cut or not unnamed, f"the first turn does not name {sorted(unnamed)}"
        ask_until(server, lambda: good <= running(server), torture)
        called = random.sample(sorted(good), 5)
        server.prompt("\n".join(f"call {name}__echo {{}}" for name in called), chat="c")
        second = server.expect_finished(seconds=2 * TURN_SECONDS)
        ends = [content_of(m) for m in second if content_of(m).get("type") == "toolCalled"]
        outcomes = [(each["server"], each["error"]) for each in ends]
        assert outcomes == [(name, False) for name in called], (
            [each.get("outputs") for each in ends],
            [message["params"] for message in second if is_news(message)],
        )
        torture.notes["last"] = dict(Counter(statuses(server).values()))
        begun = children(server.pid)
        with torture.timed("shutdown", 2 * ANSWER_SECONDS):
            server.answer(server.ask("shutdown"), seconds=2 * TURN_SECONDS)
        server.tell("exit")
        server.exit_code(within=2 * ANSWER_SECONDS)
        assert_gone(begun)


@pytest.mark.long  # a first turn waits two seconds for servers that start
@shares(sample=1, seconds=45)
def test_many_mcp(torture: Torture, share: Share, tmp_path: Path) -> None:
    sizes = {"deaf": 2, "good": 6} if share.rounds else {"deaf": 6, "good": 44}
    place = Place(tmp_path)
    torture.run(share, lambda random: play(place, torture, random, sizes))
