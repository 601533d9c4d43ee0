"""Whole turns in which a command runs in the sandbox: contents for the client and the model."""

from __future__ import annotations

import pytest

from eca_server.agent.sandbox import detect as detection
from tests.eca_server.agent.chat.agent_session import calls, of_calls, order, results, session
from tests.eca_server.agent.sandbox.driver import needs_bubblewrap

AUTO = {"toolCall": {"sandbox": "auto"}}


@needs_bubblewrap
async def test_only_a_command_that_leaves_the_sandbox_needs_approval(world):
    inside = calls(("eca_shell_command", {"command": "echo $ECA_SANDBOX; touch made ../no"}))
    outside = calls(
        ("eca_shell_command", {"command": "echo sandbox=$ECA_SANDBOX", "outside_sandbox": True})
    )
    async with session(world.root, inside, outside, **AUTO) as (ours, provider):
        await ours.prompt("go")
        asked = await ours.content("toolCallRun", manualApproval=True)
        first = [each for each in of_calls(ours) if each["id"] != asked["id"]]
        assert order(first) == ["Prepare", "Run", "Running", "ed"]
        assert first[-1]["summary"] == "Running 'echo $ECA_SANDBOX; touch ...' in the sandbox"
        assert asked["summary"] == "Running 'echo sandbox=$ECA_SANDBOX' outside of the sandbox"
        assert asked["arguments"]["outside_sandbox"] is True
        await ours.approve(asked)
        await ours.expect_finished()
        said, then = results(provider)
        assert "bubblewrap" in said
        assert "outside_sandbox: true" in said
        assert then == "sandbox=\n"
    assert (world.root / "made").exists()
    assert not (world.root.parent / "no").exists()


async def test_without_a_sandbox_the_user_is_warned_once_and_asked(world, monkeypatch):
    monkeypatch.setattr(detection, "_known", [detection.Capability(why_not="it is forbidden")])
    script = [calls(("eca_shell_command", {"command": f"touch {n}"})) for n in "ab"]
    async with session(world.root, *script, **AUTO) as (ours, _):
        await ours.prompt("go")
        for name in "ab":
            arguments = {"command": f"touch {name}"}
            asked = await ours.content("toolCallRun", manualApproval=True, arguments=arguments)
            await ours.approve(asked)
        await ours.expect_finished()
        shown = [each["params"] for each in ours.seen if each.get("method") == "$/showMessage"]
        assert [each["type"] for each in shown] == ["warning"]
        assert "it is forbidden" in shown[0]["message"]
    assert (world.root / "b").exists()


async def test_nothing_is_probed_if_the_sandbox_is_off(world, monkeypatch):
    monkeypatch.setattr(detection, "_known", [])
    monkeypatch.setattr(detection, "probe_sandbox", lambda: pytest.fail("it was tried"))
    one = calls(("eca_shell_command", {"command": "true"}))
    async with session(world.root, one) as (ours, provider):
        await ours.prompt("go")
        asked = await ours.content("toolCallRun")
        assert asked["manualApproval"] is True
        assert asked["summary"] == "Running 'true'"
        await ours.approve(asked)
        await ours.expect_finished()
        assert results(provider) == ["The command succeeded without output."]
