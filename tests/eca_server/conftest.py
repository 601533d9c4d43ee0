"""The real server process, for every test that uses it from outside."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs
import pytest

from eca_server.agent.chat.store.store import Store
from eca_server.agent.chat.store.worker import LIMITS
from tests.eca_server.ecp.browser import Browser, opened
from tests.eca_server.stranger import SERVE, Stranger, environment, packet_sockets

Start = Callable[..., Stranger]


@pytest.fixture(scope="session", autouse=True)
def _patience_with_the_disk() -> Iterator[None]:
    """Let no server of this process say that the disk is late because the machine was.

    Tests of late disks set limits of their own; a real server has those of the product.
    """
    with pytest.MonkeyPatch.context() as patch:
        defaults = Store.__init__.__kwdefaults__
        patch.setitem(defaults, "limits", attrs.evolve(LIMITS, write=60, read=60, close=60))
        yield


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
        kind: type[Stranger] = Stranger,
        keeps_writes_apart: bool = False,
        may_log_tracebacks: bool = False,
    ) -> Stranger:
        stranger = kind(
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
            stranger.close()
        except AssertionError as failure:
            failures.append(failure)
    if failures:
        raise failures[0]


@pytest.fixture
def server(start_server: Start, tmp_path: Path) -> Stranger:
    """One server, just started, with a home and a folder in which there is nothing."""
    return start_server(cwd=tmp_path)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """A browser, whose page is not opened yet."""
    with opened(tmp_path / "profile") as browser:
        yield browser
