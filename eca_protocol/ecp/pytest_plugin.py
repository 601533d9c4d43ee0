"""A pytest plugin for tests of an agent; load it with `-p`.

    pytest -p eca_protocol.ecp.pytest_plugin --ecp-target "python agent.py"

    def test_it_greets(ecp_agent):
        assert "Hello" in ecp_agent.step("Hi").public_output

`@pytest.mark.ecp(target=...)` names a different agent for one test. Each test has its own agent,
initialized and, behind a URL, reset. A step without a result raises `AgentError`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from eca_protocol.ecp.connection import AgentConnection, connect_agent
from eca_protocol.ecp.errors import AgentError
from eca_protocol.ecp.messages import InitializeResult, Result
from eca_protocol.errors import METHOD_NOT_FOUND

_DEADLINE: Final = 30.0


@attrs.define(slots=False, eq=False, repr=False)
class Agent:
    """An initialized agent, for synchronous tests.

    Attributes:
        initialized: the agent's result of `agent/initialize`.
    """

    _portal: BlockingPortal
    _connection: AgentConnection
    _deadline: float
    initialized: InitializeResult = attrs.field(init=False)

    def initialize(self, config: Mapping[str, Any] | None = None) -> InitializeResult:
        """Start a new conversation."""
        self.initialized = self._portal.call(
            lambda: self._connection.initialize(config, deadline=self._deadline)
        )
        return self.initialized

    def step(self, text: str) -> Result:
        """Send one input, and return the agent's result."""
        return self._portal.call(lambda: self._connection.step(text, deadline=self._deadline))

    def reset(self) -> None:
        """Clear the agent's state of the conversation."""
        self._portal.call(lambda: self._connection.reset(deadline=self._deadline))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options `--ecp-target` and `--ecp-timeout`."""
    group = parser.getgroup("ecp", "agents of the Evaluation Context Protocol")
    group.addoption("--ecp-target", metavar="TARGET", help="a command, or an http or https URL")
    group.addoption(
        "--ecp-timeout",
        type=float,
        default=_DEADLINE,
        metavar="SECONDS",
        help="the time limit of each request (default: %(default)s)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", "ecp(target): the agent of this test")


@pytest.fixture
def ecp_agent(request: pytest.FixtureRequest) -> Iterator[Agent]:
    """Connect to the agent of the test's `ecp` marker, or of `--ecp-target`."""
    mark = request.node.get_closest_marker("ecp")
    target = (mark and mark.kwargs.get("target")) or request.config.getoption("--ecp-target")
    if not target:
        text = "no agent: use --ecp-target TARGET or @pytest.mark.ecp(target=...)"
        pytest.fail(text, pytrace=False)
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
            except AgentError as fault:
                if fault.code != METHOD_NOT_FOUND:
                    raise
        yield agent
