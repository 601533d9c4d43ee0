"""The official TypeScript SDK against ours: its client at our agent, its agent in our suite."""

import json
import os
from pathlib import Path

import pytest
import trio

from eca_protocol.testing.conformance.acp.suite import AcpSuite
from eca_protocol.testing.conformance.suite import run_suite
from eca_protocol.testing.conformance.target import Target
from tests.eca_server import fork_server
from tests.node import node, node_modules

CLIENT = Path(__file__).with_name("sdk_client.mjs")
CONFIG = {"defaultModel": "simulator/script", "toolCall": {"approval": {"byDefault": "ask"}}}

BROKEN = {
    "ACP-15": "the answer to `initialize` has no agentInfo",
    "ACP-17": "it opens sessions before `initialize`",
    "ACP-19": "it opens sessions in relative directories",
    "ACP-36": "a turn that ends in a request for permission leaves its call open",
    "ACP-44": "it answers `end_turn` after a cancelled request for permission",
}
"""The rows that the SDK's example agent breaks; all but the last are of level should."""


@pytest.mark.long
async def test_the_sdk_s_client_takes_turns_with_our_agent(tmp_path: Path) -> None:
    node_modules()
    environ = {**os.environ, "HOME": str(tmp_path / "home"), "ECA_CONFIG": json.dumps(CONFIG)}
    command = [node(), str(CLIENT), str(tmp_path), *fork_server.command(), "acp"]
    with trio.fail_after(120):
        done = await trio.run_process(command, env=environ, capture_stdout=True)
    report = json.loads(done.stdout)
    assert report["initialized"]["agentInfo"]["name"] == "eca"
    assert report["stops"] == ["end_turn", "end_turn", "end_turn", "cancelled"]
    assert report["permissions"] == ["Creating file new.txt", "Creating file never.txt"]
    assert [(tmp_path / name).exists() for name in ("new.txt", "never.txt")] == [True, False]
    calls = [each for each in report["updates"] if each["sessionUpdate"].startswith("tool_call")]
    assert {"completed", "failed"} <= {each["status"] for each in calls}
    replayed = report["updates"][report["replayed"] :]
    prompts = [each for each in replayed if each["sessionUpdate"] == "user_message_chunk"]
    assert prompts[0]["content"]["text"] == "say one two"
    assert report["isListed"]


@pytest.mark.long
async def test_the_sdk_s_example_agent_breaks_five_rows() -> None:
    agent = node_modules() / "@agentclientprotocol" / "sdk" / "dist" / "examples" / "agent.js"
    target = Target(command=(node(), str(agent)))
    run = await run_suite(target, kind=AcpSuite, jobs=8, seconds=300)
    broken = {each.id: each.verdict for each in run.findings if each.verdict in {"fail", "warn"}}
    assert broken == {row: "fail" if row == "ACP-44" else "warn" for row in BROKEN}
    assert run.counts()["pass"] == 27
