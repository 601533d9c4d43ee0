"""A pytest plugin for tests that talk to an agent; it is loaded only where it is asked for.

    pytest -p eca_protocol.ecp.pytest_plugin --ecp-target "python agent.py"

    def test_it_greets(ecp_agent):
        assert "Hello" in ecp_agent.step("Hi").public_output

`@pytest.mark.ecp(target=...)` names another agent for one test. Each test has an agent of its own,
initialized and, behind a URL, reset; a step that gives no result raises `AgentFault`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from eca_protocol.ecp.evaluating import AgentConnection, connect_agent
from eca_protocol.ecp.faults import AgentFault
from eca_protocol.ecp.messages import InitializeResult, Result
from eca_protocol.errors import METHOD_NOT_FOUND

__all__ = ["Agent", "ecp_agent"]

_DEADLINE: Final = 30.0


class Agent:
    """An initialized agent, for tests that are not async.

    Attributes:
        initialized: what it said of itself.
    """

    def __init__(
        self, portal: BlockingPortal, connection: AgentConnection, deadline: float
    ) -> None:
        self._portal = portal
        self._connection = connection
        self._deadline = deadline
        self.initialized: InitializeResult

    def initialize(self, config: Mapping[str, Any] | None = None) -> InitializeResult:
        """Begin another conversation."""
        self.initialized = self._portal.call(
            lambda: self._connection.initialize(config, deadline=self._deadline)
        )
        return self.initialized

    def step(self, text: str) -> Result:
        """Say something; what the agent made of it."""
        return self._portal.call(lambda: self._connection.step(text, deadline=self._deadline))

    def reset(self) -> None:
        """Let the agent forget the conversation."""
        self._portal.call(lambda: self._connection.reset(deadline=self._deadline))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("ecp", "agents of the Evaluation Context Protocol")
    group.addoption("--ecp-target", metavar="TARGET", help="a command, or an http or https URL")
    group.addoption(
        "--ecp-timeout",
        type=float,
        default=_DEADLINE,
        metavar="SECONDS",
        help="for each request (default: %(default)s)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest of the marker."""
    config.addinivalue_line("markers", "ecp(target): the agent that this test talks to")


@pytest.fixture
def ecp_agent(request: pytest.FixtureRequest) -> Iterator[Agent]:
    """The agent of `--ecp-target`, or of the test's own `ecp` marker."""
    mark = request.node.get_closest_marker("ecp")
    target = (mark and mark.kwargs.get("target")) or request.config.getoption("--ecp-target")
    if not target:
        pytest.fail("name an agent: --ecp-target, or @pytest.mark.ecp(target=...)", pytrace=False)
    is_url = target.partition("://")[0].lower() in {"http", "https"}
    command = target if is_url else shlex.split(target)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(connect_agent(command)) as connection,
    ):
        agent = Agent(portal, connection, request.config.getoption("--ecp-timeout"))
        agent.initialize()
        if is_url:
            try:
                agent.reset()
            except AgentFault as fault:
                if fault.code != METHOD_NOT_FOUND:
                    raise
        yield agent
