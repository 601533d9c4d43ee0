"""The behavior of a prompt (W-28), as seen in the system prompt that the model gets."""

from __future__ import annotations

import pytest

from eca_protocol.testing.provider import Provider, reply, wait
from eca_server.agent.chat.instructions import instructions
from tests.eca_protocol.wire import notification
from tests.eca_server.agent.chat.editor import editor, provider_config

BEHAVIOR_OF = {instructions(name, ()): name for name in ("agent", "plan")}


def behaviors(provider: Provider) -> list[str]:
    """The behaviour of each request the provider got."""
    systems = [request.body["messages"][0]["content"] for request in provider.requests]
    return [BEHAVIOR_OF[system] for system in systems]


@pytest.mark.requirement("LIFE-8")
@pytest.mark.parametrize(
    ("config", "options", "selected", "prompt", "expected"),
    [
        ({}, {}, None, {}, "agent"),
        ({"defaultBehavior": "plan"}, {}, None, {}, "plan"),
        ({"defaultBehavior": "plan"}, {"chatBehavior": "agent"}, None, {}, "agent"),
        ({}, {"chatAgent": "plan"}, None, {}, "plan"),
        ({}, {"chatBehavior": "plan"}, "agent", {}, "agent"),
        ({}, {"chatBehavior": "agent"}, "plan", {}, "plan"),
        ({}, {}, "plan", {"behavior": "agent"}, "agent"),
        ({}, {}, "plan", {"agent": "agent"}, "agent"),
        ({}, {}, None, {"behavior": "agent", "agent": "plan"}, "plan"),
        ({}, {}, "plan", {"behavior": None, "agent": None}, "plan"),
        ({}, {}, "plan", {"behavior": "novel"}, "plan"),
        ({"defaultBehavior": "novel"}, {"chatBehavior": "novel"}, None, {}, "agent"),
    ],
)
async def test_the_prompt_wins_then_the_selection_the_options_the_configuration(
    config, options, selected, prompt, expected
):
    provider = Provider(otherwise=reply("a"))
    async with provider, editor(provider_config(provider.url, **config), started=False) as ours:
        await ours.start(initializationOptions={**options, "chat": {"title": False}})
        if selected:
            await ours.tell("chat/selectedBehaviorChanged", {"behavior": selected})
        await ours.turn("hi", **prompt)
        assert behaviors(provider) == [expected]


async def test_the_selection_by_its_newer_name_counts_as_well():
    provider = Provider(otherwise=reply("a"))
    async with provider, editor(provider_config(provider.url)) as ours:
        await ours.tell("chat/selectedAgentChanged", {"agent": "plan"})
        await ours.turn("hi")
        await ours.tell("chat/selectedBehaviorChanged", {"behavior": "agent"})
        await ours.turn("hi")
        await ours.tell("chat/selectedAgentChanged", {"agent": None})
        await ours.turn("hi")
        assert behaviors(provider) == ["plan", "agent", "agent"]


@pytest.mark.requirement("W-28b")
async def test_a_change_touches_no_running_turn_and_is_not_sent_back():
    provider = Provider([reply(wait("now"), "a"), reply("b")])
    async with provider, editor(provider_config(provider.url)) as ours:
        introduced = len(ours.seen)
        await ours.prompt("hi")
        await provider.until(lambda: "now" in provider.reached)
        await ours.send(
            notification("chat/selectedBehaviorChanged", {"behavior": "plan"}),
            notification("chat/selectedAgentChanged", {"agent": "plan"}),
        )
        provider.open("now")
        await ours.expect_finished()
        await ours.turn("hi")
        assert behaviors(provider) == ["agent", "plan"]
        assert not [
            each for each in ours.seen[introduced:] if each.get("method") == "config/updated"
        ]
