"""Byte streams: pipes, sockets, files, memory, and the reserved standard streams."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from eca_protocol import platforms
from eca_protocol.streams import CHUNK, FdTransport, Transport, memory_pair

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


def pipes() -> tuple[FdTransport, FdTransport]:
    there, back = os.pipe(), os.pipe()
    return FdTransport(back[0], there[1]), FdTransport(there[0], back[1])


def one_socket_each() -> tuple[FdTransport, FdTransport]:
    ends = [end.detach() for end in socket.socketpair()]
    return FdTransport(ends[0], ends[0]), FdTransport(ends[1], ends[1])


def duplicated_sockets() -> tuple[FdTransport, FdTransport]:
    ends = [end.detach() for end in socket.socketpair()]
    return FdTransport(os.dup(ends[0]), ends[0]), FdTransport(ends[1], os.dup(ends[1]))


MAKERS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "pipes": pipes,
    "one socket each": one_socket_each,
    "duplicated sockets": duplicated_sockets,
    "memory": memory_pair,
}


@pytest.fixture(params=list(MAKERS))
async def ends(request: pytest.FixtureRequest) -> Any:
    near, far = MAKERS[request.param]()
    yield near, far
    await near.aclose()
    await far.aclose()


def open_descriptors() -> set[str]:
    held = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            held.add(f"{entry.name} {entry.readlink()}")
        except OSError:  # the descriptor of the listing itself
            continue
    return held


async def read_all(transport: Transport) -> bytes:
    data = b""
    while chunk := await transport.receive():
        assert len(chunk) <= 65_536
        data += chunk
    return data


async def test_a_sender_waits_for_who_does_not_read(ends: Any) -> None:
    near, far = ends
    progress: list[int] = []

    async def flood() -> None:
        for n in range(50):
            await near.send(b"x" * 50_000)
            progress.append(n)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flood)
            await anyio.wait_all_tasks_blocked()
            assert len(progress) < 25
            got = 0
            while got < 2_500_000:
                got += len(await far.receive())
    assert len(progress) == 50


async def test_the_end_is_seen_after_what_was_sent_and_sending_to_who_is_gone_fails(ends) -> None:
    near, far = ends
    await near.send(b"last words")
    await near.aclose()
    assert await read_all(far) == b"last words"
    assert await far.receive() == b""
    with pytest.raises(OSError):
        await far.send(b"x")
    assert await near.receive() == b""
    with pytest.raises(OSError):
        await near.send(b"x")


@pytest.mark.parametrize("make", [pipes, one_socket_each, memory_pair])
async def test_writing_may_be_closed_alone(make: Callable[[], tuple[Any, Any]]) -> None:
    near, far = make()
    near.close_writing()
    near.close_writing()
    assert await far.receive() == b""
    await far.send(b"still heard")
    assert await near.receive() == b"still heard"
    with pytest.raises(OSError):
        await near.send(b"x")
    await near.aclose()
    await far.aclose()


async def test_closing_wakes_who_reads_and_who_writes(ends: Any) -> None:
    near, _ = ends
    results: list[bytes | type[BaseException]] = []

    async def read() -> None:
        results.append(await near.receive())

    async def write() -> None:
        try:
            while True:
                await near.send(b"x" * 100_000)
        except OSError:
            results.append(OSError)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(write)
            await anyio.wait_all_tasks_blocked()
            await near.aclose()
    assert sorted(results, key=str) == [OSError, b""]


async def test_a_cancelled_read_loses_nothing(ends: Any) -> None:
    near, far = ends
    with anyio.move_on_after(0.005):
        await far.receive()
    await near.send(b"kept")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await far.receive()
    assert await far.receive() == b"kept"


async def test_two_tasks_may_read_and_share_what_comes(ends: Any) -> None:
    near, far = ends
    chunks: list[bytes] = []

    async def read() -> None:
        while data := await far.receive():
            chunks.append(data)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(read)
        for _ in range(4):
            await anyio.wait_all_tasks_blocked()  # each reader may come first
            await near.send(b"x")
        await near.aclose()
    assert b"".join(chunks) == b"x" * 4


async def test_a_transport_owns_its_descriptors() -> None:
    await anyio.lowlevel.checkpoint()
    before = open_descriptors()
    for make in (pipes, one_socket_each, duplicated_sockets):
        for transport in make():
            await transport.aclose()
            await transport.aclose()
    assert open_descriptors() == before


async def test_descriptors_block_again_if_they_did() -> None:
    read_fd, write_fd = os.pipe()
    near, far = (end.detach() for end in socket.socketpair())
    duplicates = [os.dup(fd) for fd in (read_fd, write_fd, near)]
    transport = FdTransport(read_fd, write_fd)
    both = FdTransport(os.dup(near), near)
    assert not any(os.get_blocking(fd) for fd in duplicates)
    both.close_writing()
    assert not os.get_blocking(duplicates[2])
    await transport.aclose()
    await both.aclose()
    assert all(os.get_blocking(fd) for fd in duplicates)
    os.set_blocking(far, False)
    await FdTransport(os.dup(far), os.dup(far)).aclose()
    assert not os.get_blocking(far)
    for fd in (*duplicates, far):
        os.close(fd)


async def test_files_are_read_and_written_to_their_end(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"line\n" * 40_000)
    transport = FdTransport(os.open(source, os.O_RDONLY), os.open(target, os.O_WRONLY | os.O_CREAT))
    assert await read_all(transport) == source.read_bytes()
    await transport.send(b"x" * 200_000)
    await transport.aclose()
    assert target.read_bytes() == b"x" * 200_000


OWNED = """
import os, subprocess, sys
from eca_protocol.streams import owned_stdio
{before}
with owned_stdio({options}) as (read_fd, write_fd):
    {body}
{after}
"""


def run_owned(
    body: str, *, before: str = "", after: str = "", options: str = "", closed: str = ""
) -> subprocess.CompletedProcess[bytes]:
    """Run a program that owns its standard streams; the shell may close some of them."""
    code = OWNED.format(body=body, before=before, after=after, options=options)
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", code]
    return subprocess.run(
        command, input=b"for the wire", capture_output=True, check=False, timeout=20, cwd=ROOT
    )


async def test_blocking_reads_leave_threads_for_other_work(monkeypatch) -> None:
    monkeypatch.setattr(platforms, "can_wait", lambda _: False)  # as on Windows
    ends = [os.pipe() for _ in range(45)]  # more than the threads that all work shares
    readers = [FdTransport(read_fd, None) for read_fd, _ in ends]
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for reader in readers:
                tasks.start_soon(reader.receive)
            await anyio.wait_all_tasks_blocked()
            assert await anyio.to_thread.run_sync(os.getpid) == os.getpid()
            for _, write_fd in ends:
                os.close(write_fd)
    for reader in readers:
        await reader.aclose()


async def test_a_descriptor_is_closed_after_its_blocking_calls(monkeypatch) -> None:
    running: list[int] = []
    began = {os.read: threading.Event(), os.write: threading.Event()}
    close = os.close

    def tracked(call: Callable[[int, Any], Any]) -> Callable[[int, Any], Any]:
        def track(fd: int, argument: Any) -> Any:
            running.append(fd)
            began[call].set()
            try:
                return call(fd, argument)
            finally:
                running.remove(fd)

        return track

    def close_unused(fd: int) -> None:
        assert fd not in running, "on Windows this waits for the call"
        close(fd)

    (their_input, our_output), (our_input, their_output) = os.pipe(), os.pipe()
    os.set_blocking(our_output, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(our_output, bytes(CHUNK)):
            pass
    os.set_blocking(our_output, True)
    monkeypatch.setattr(platforms, "can_wait", lambda _: False)
    monkeypatch.setattr(anyio, "notify_closing", Mock(side_effect=OSError("not a socket")))
    monkeypatch.setattr(os, "read", tracked(os.read))
    monkeypatch.setattr(os, "write", tracked(os.write))
    monkeypatch.setattr(os, "close", close_unused)
    transport = FdTransport(our_input, our_output)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(transport.receive)
            tasks.start_soon(transport.send, b"last")
            for each in began.values():
                await anyio.to_thread.run_sync(each.wait)
            tasks.cancel_scope.cancel()
        await transport.aclose()
        close(their_output)
        with os.fdopen(their_input, "rb") as theirs:
            assert (await anyio.to_thread.run_sync(theirs.read)).endswith(b"last")


def test_nothing_but_the_wire_reaches_the_wire() -> None:
    body = """
    print("a print")
    os.write(1, b"a library\\n")
    subprocess.run(["sh", "-c", "echo a child; cat"], check=True)
    ls = subprocess.run(["ls", "/proc/self/fd"], capture_output=True, close_fds=False)
    os.write(write_fd, b"frame:" + os.read(read_fd, 100) + b" %d " % len(ls.stdout.split()))"""
    before = "sys.stdout = open(1, 'w', closefd=False); sys.stdout.write('before')"
    done = run_owned(body, before=before, after="print('after')")
    assert done.stdout == b"frame:for the wire 4 after\n", "a child inherits its own four only"
    assert done.returncode == 0
    for noise in (b"before", b"a print", b"a library", b"a child"):
        assert noise in done.stderr


def test_streams_that_are_taken_for_good_are_not_given_back() -> None:
    after = "print('after'); os.write(1, b'later')"
    done = run_owned("os.write(write_fd, b'wire')", after=after, options="for_good=True")
    assert done.stdout == b"wire"
    assert b"after" in done.stderr
    assert b"later" in done.stderr


def test_a_second_claim_is_refused_and_a_later_one_is_not() -> None:
    body = """
    from eca_protocol.errors import LocalProtocolError
    try:
        owned_stdio().__enter__()
    except LocalProtocolError as error:
        print(error, file=sys.stderr)"""
    after = "with owned_stdio() as (_, write_fd): os.write(write_fd, b'again')"
    done = run_owned(body, after=after)
    assert b"already in use" in done.stderr
    assert done.stdout == b"again"


OPENED = "os.open(os.devnull, os.O_RDWR)"  # in the place of the closed one


@pytest.mark.parametrize(
    ("before", "closed", "word"),
    [
        ("os.close(0)", "", b"input"),
        ("os.close(1)", "", b"output"),
        (OPENED, "<&-", b"input"),
        (OPENED, ">&-", b"output"),
    ],
)
def test_a_closed_standard_stream_is_named(before: str, closed: str, word: bytes) -> None:
    done = run_owned("pass", before=before, closed=closed)
    assert done.returncode == 1
    assert b"StartFailed: the standard " + word + b" is closed" in done.stderr


def test_a_null_device_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    done = run_owned("pass", before=f"os.devnull = {str(tmp_path / 'null')!r}")
    assert done.returncode == 1
    assert b"null cannot be opened: No such file or directory" in done.stderr


def test_a_closed_error_stream_never_becomes_the_wire() -> None:
    body = """
    print("lost")
    subprocess.run(["sh", "-c", "echo lost >&2; echo lost"])
    os.write(write_fd, b"wire")"""
    assert run_owned(body, before="os.close(2)").stdout == b"wire"


async def test_sending_now_takes_what_fits() -> None:
    near, far = pipes()
    assert near.send_now(b"abc") == 3
    assert await far.receive() == b"abc"
    sent = 0
    while taken := near.send_now(b"x" * 50_000):
        sent += taken
    assert sent > 0
    received = 0
    while received < sent:
        received += len(await far.receive())
    await far.aclose()
    assert near.send_now(b"abc") == 0
    await near.aclose()
    assert near.send_now(b"abc") == 0
