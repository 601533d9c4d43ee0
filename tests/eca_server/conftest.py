"""The real server process, for every test that uses it from outside."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.eca_server.stranger import Stranger, environment, packet_sockets

SERVE = (sys.executable, "-P", "-m", "eca_server", "server")

Start = Callable[..., Stranger]


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Start]:
    """Starts servers in a home where nothing is configured; none of them outlives the test.

    `command` and `env` (more variables) may be given; with `keeps_writes_apart` each read is what
    the server wrote at once. A traceback on stderr fails the test unless `may_log_tracebacks`.
    """
    started: list[Stranger] = []
    project = tmp_path / "project"
    project.mkdir()

    def start(
        *,
        command: Sequence[str] = SERVE,
        env: Mapping[str, str] | None = None,
        cwd: Path = project,
        keeps_writes_apart: bool = False,
        may_log_tracebacks: bool = False,
    ) -> Stranger:
        stranger = Stranger(
            command,
            cwd=cwd,
            env=environment(tmp_path, **(env or {})),
            errors=tmp_path / f"stderr-{len(started)}.txt",
            connect=packet_sockets if keeps_writes_apart else os.pipe,
            may_log_tracebacks=may_log_tracebacks,
        )
        started.append(stranger)
        return stranger

    yield start
    failures = []
    for stranger in started:
        try:
            stranger.stop()
        except AssertionError as failure:
            failures.append(failure)
    if failures:
        raise failures[0]


@pytest.fixture(scope="session")
def next_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Stranger]]:
    """Gives a server that was started while the test before ran: starting is most of their time."""
    ahead: list[Stranger] = []

    def start() -> None:
        home = tmp_path_factory.mktemp("home")
        errors = home / "stderr.txt"
        ahead.append(Stranger(SERVE, cwd=home, env=environment(home), errors=errors))

    def take() -> Stranger:
        if not ahead:
            start()
        start()
        return ahead.pop(0)

    yield take
    for stranger in ahead:
        stranger.stop()


@pytest.fixture
def server(next_server: Callable[[], Stranger]) -> Iterator[Stranger]:
    """One server, just started, with a home and a folder in which there is nothing."""
    stranger = next_server()
    yield stranger
    stranger.stop()
