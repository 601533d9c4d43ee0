"""Whole agent sessions: the real process with a scripted model at its other side."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eca_protocol.testing.provider import Reply, provider_in_thread, reply
from tests.eca_server.agent.chat.editor import provider_config
from tests.eca_server.conftest import Start
from tests.eca_server.wire.agent_session import Agent, StartAgent, assert_a_strict_server_takes


@pytest.fixture
def start_agent(start_server: Start, tmp_path: Path) -> Iterator[StartAgent]:
    """Starts the process in a workspace, with a model that gives these answers, then `the end`.

    Whatever the model says and the user does: each request is one that a strict server takes.
    """
    started: list[Agent] = []
    with contextlib.ExitStack() as running:

        def start(*script: Reply, folder: Path = tmp_path / "project", **config: Any) -> Agent:
            provider = running.enter_context(provider_in_thread(script, otherwise=reply("the end")))
            configured = provider_config(provider.url, chat={"title": False}, **config)
            agent = start_server(kind=Agent, env={"ECA_CONFIG": json.dumps(configured)})
            agent.provider, agent.folder = provider, folder
            agent.initialize(workspaceFolders=[{"name": "project", "uri": folder.as_uri()}])
            started.append(agent)
            return agent

        yield start
        for agent in started:
            for request in agent.provider.requests:
                assert_a_strict_server_takes(request.body)
