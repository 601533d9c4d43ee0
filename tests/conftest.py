"""Shared by every test: the two async backends, the slow tier, hypothesis's settings."""

import faulthandler
import gc
import inspect
import itertools
import os
import signal
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings, strategies

from tests.eca_server import fork_server
from tests.promises import TRIES, TooSlow

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=20,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long",
    deadline=None,
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)


HANG_SECONDS = 120
"""The time after which the tracebacks of all threads are printed."""

MEMORY = "/dev/shm"
MEMORY_BYTES = 2 << 30
"""The free space that a file system in memory must have to hold the tests' directories."""

CLOCKS = {"mock_clock", "autojump_clock"}

STDERR = pytest.StashKey[int]()
ARMED = pytest.StashKey[float]()
ARE_TOO_SLOW = pytest.StashKey[list[bool]]()
SLOW_RUNS = "runs that were too slow"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long",
        action="store_true",
        help="also run the tests marked `long`, and many more hypothesis examples",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Return three workers more than processors for `-n auto`, since many tests wait.

    pytest-xdist's own variable for the number is respected.
    """
    is_chosen = "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ
    return None if is_chosen else (os.cpu_count() or 1) + 3


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print which tests were too slow at first, and the figures of the tortures that were run.

    A hook of theirs is not heard with xdist.
    """
    reports = [*itertools.chain.from_iterable(terminalreporter.stats.values())]
    for report in reports:
        slow_runs = dict(getattr(report, "user_properties", ())).get(SLOW_RUNS)
        if slow_runs and report.when == "teardown":
            terminalreporter.write_line(f"{report.nodeid} was too slow {slow_runs} times")
    if any(getattr(each, "nodeid", "").startswith("tests/torture/") for each in reports):
        from tests.torture.rounds import print_table  # noqa: PLC0415 - only where one was run

        print_table(terminalreporter, reports)


def keep_files_in_memory() -> None:
    """Put the tests' directories on a file system in memory that has room, if one is there.

    A third of the suite's time was the disk's. A `TMPDIR` of the user's own is respected.
    """
    if sys.platform != "linux" or "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    file_system = os.statvfs(MEMORY)
    if (
        file_system.f_bavail * file_system.f_frsize >= MEMORY_BYTES
        and not file_system.f_flag & os.ST_NOEXEC
    ):
        os.environ["TMPDIR"] = MEMORY
        tempfile.tempdir = None


def pytest_configure(config: pytest.Config) -> None:
    keep_files_in_memory()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background by a shell
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.load_profile("long" if config.getoption("--long") else "ci")
    config.stash[STDERR] = os.dup(2)
    config.stash[ARMED] = 0.0
    if getattr(config.option, "dist", "no") == "load":  # pytest-xdist, by `-n`
        config.option.dist = "worksteal"  # neighbours share a worker, and so its fixtures
        if sys.platform == "linux":
            fork_server.start()  # all workers share it


@pytest.hookimpl(trylast=True)
def pytest_sessionstart() -> None:
    """Have Hypothesis write its tables of characters before the workers start.

    In a fresh clone each worker spent seconds on them, in its first test that draws a text.
    """
    strategies.text().validate()


def pytest_unconfigure(config: pytest.Config) -> None:
    faulthandler.cancel_dump_traceback_later()
    os.close(config.stash[STDERR])


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Watch for a test that hangs; not anew for each short one, as each watch is a thread."""
    stash, now = item.config.stash, time.monotonic()
    if now - stash[ARMED] > 1:
        stash[ARMED] = now
        faulthandler.dump_traceback_later(HANG_SECONDS, file=stash[STDERR])


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test again that was too slow; report its last run, and how often it was too slow."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports: list[pytest.TestReport] = []
    for number in range(TRIES):
        item.user_properties[:] = [(SLOW_RUNS, number)] if number else []
        are_too_slow = item.stash[ARE_TOO_SLOW] = []
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if not are_too_slow or not all(are_too_slow):
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    if call.excinfo is not None:
        item.stash[ARE_TOO_SLOW].append(call.excinfo.errisinstance(TooSlow))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run async tests on trio unless they are marked `anyio`; leave the slow tier out."""
    for item in items:
        test = getattr(item, "obj", None)
        test = getattr(getattr(test, "hypothesis", None), "inner_test", test)
        if inspect.iscoroutinefunction(test) and item.get_closest_marker("anyio") is None:
            item.add_marker(pytest.mark.trio)
            of_fixtures = CLOCKS & {*getattr(item, "fixturenames", ())}
            if not of_fixtures <= {*inspect.signature(test).parameters}:  # pytest-trio ignores it
                raise pytest.UsageError(f"{item.nodeid}: the test itself must take {of_fixtures}")
    if config.getoption("--long"):
        return
    selected: list[pytest.Item] = []
    deselected: list[pytest.Item] = []
    rows: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("long")
        test = item.nodeid.partition("[")[0]
        rows[test] += 1
        (deselected if mark and rows[test] > mark.kwargs.get("but", 0) else selected).append(item)
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = selected


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Raise the only error of nested groups by itself: pytest explains its assertion."""
    __tracebackhide__ = True
    try:
        return (yield)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
    raise error


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Take the modules and the tests out of each garbage collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        if not sysconfig.get_config_var("Py_GIL_DISABLED"):  # 3.13 frees what is frozen there
            gc.freeze()
        gc.enable()


@pytest.fixture(params=["trio", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The async library an `anyio` test runs on; every such test runs on both."""
    return str(request.param)
