from __future__ import annotations

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.states import TRANSITIONS, Input, State
from tests.eca_server.agent.mcp.fake import Place, server_at


@given(
    words=st.lists(
        st.sampled_from(["start", "stop", "end", "refuse", "accept", "login", "wait", "tick"]),
        max_size=30,
    ),
    closing=st.sampled_from([0.0, 0.5]),
)
def test_after_any_sequence_of_events_the_last_command_wins(words, closing):
    async def live() -> None:
        place = Place()
        place.closing = closing
        async with server_at(place) as (server, told):
            for word in words:
                match word:
                    case "start" | "stop":
                        getattr(server, word)()
                    case "end":
                        if place.sessions:
                            place.session.end()
                    case "refuse":
                        place.refuses = MCPError("no", kind="start")
                    case "login":
                        place.refuses = MCPError("no", kind="login")
                    case "accept":
                        place.refuses = None
                    case "wait":
                        await trio.sleep(30)
                    case _:
                        await trio.lowlevel.checkpoint()
                assert place.open <= 1
            server.stop()
            await server.ended()
            assert server.state in {State.STOPPED, State.DISABLED}
            assert place.open == 0
            place.refuses = None
            server.start()
            await server.settled()
            assert server.state is State.RUNNING
            assert "stopping" not in told

    trio.run(live, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("given", [Input.START, Input.STOP])
def test_the_user_may_say_anything_at_any_time(state, given):
    following = TRANSITIONS[state][given]
    assert following in TRANSITIONS
    if given is Input.STOP:
        assert following not in {State.STARTING, State.RUNNING}


def test_every_state_can_be_reached_and_left():
    reached = {each for inputs in TRANSITIONS.values() for each in inputs.values()}
    assert reached | {State.DISABLED} == set(State) == set(TRANSITIONS)
