"""Byte streams: pipes, sockets, files, memory, and the reserved standard streams."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from eca_protocol.streams import FdTransport, Transport, memory_pair

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


@pytest.fixture
def no_descriptor_left() -> Iterator[None]:
    before = open_descriptors()
    yield
    assert open_descriptors() == before


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


async def test_a_large_message_arrives_whole_in_both_directions(ends: Any) -> None:
    near, far = ends
    sent = {near: os.urandom(700_000), far: os.urandom(300_000)}
    got: dict[Any, bytes] = {}

    async def send(transport: Any) -> None:
        await transport.send(sent[transport])

    async def receive(transport: Any, size: int) -> None:
        data = b""
        while len(data) < size:
            data += await transport.receive()
        got[transport] = data

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive, near, 300_000)
            tasks.start_soon(receive, far, 700_000)
            tasks.start_soon(send, near)
            tasks.start_soon(send, far)
    assert got == {near: sent[far], far: sent[near]}


async def test_a_sender_waits_for_who_does_not_read(ends: Any) -> None:
    near, far = ends
    progress: list[int] = []

    async def flood() -> None:
        for n in range(100):
            await near.send(b"x" * 50_000)
            progress.append(n)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flood)
            await anyio.wait_all_tasks_blocked()
            assert len(progress) < 50
            got = 0
            while got < 5_000_000:
                got += len(await far.receive())
    assert len(progress) == 100


async def test_the_end_is_seen_after_what_was_sent_before_it(ends: Any) -> None:
    near, far = ends
    await near.send(b"last words")
    await near.aclose()
    assert await read_all(far) == b"last words"
    assert await far.receive() == b""


async def test_sending_to_who_is_gone_is_a_broken_pipe(ends: Any) -> None:
    near, far = ends
    await far.aclose()
    with pytest.raises(OSError):
        await near.send(b"x")
    await near.aclose()
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
        await anyio.wait_all_tasks_blocked()
        for _ in range(20):
            await near.send(b"x")
            for _ in range(3):  # each reader may come first
                await anyio.lowlevel.checkpoint()
        await near.aclose()
    assert b"".join(chunks) == b"x" * 20


async def test_a_transport_owns_its_descriptors(no_descriptor_left: None) -> None:
    await anyio.lowlevel.checkpoint()
    for make in (pipes, one_socket_each, duplicated_sockets):
        for transport in make():
            await transport.aclose()
            await transport.aclose()


async def test_descriptors_that_were_blocking_are_so_again() -> None:
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
    for fd in (*duplicates, far):
        os.close(fd)


async def test_descriptors_that_were_not_blocking_stay_so() -> None:
    read_fd, write_fd = os.pipe()
    duplicates = os.dup(read_fd)
    os.set_blocking(read_fd, False)
    await FdTransport(read_fd, write_fd).aclose()
    assert not os.get_blocking(duplicates)
    os.close(duplicates)


async def test_files_are_read_and_written_to_their_end(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"line\n" * 40_000)
    transport = FdTransport(os.open(source, os.O_RDONLY), os.open(target, os.O_WRONLY | os.O_CREAT))
    assert await read_all(transport) == source.read_bytes()
    await transport.send(b"x" * 200_000)
    await transport.aclose()
    assert target.read_bytes() == b"x" * 200_000


async def test_a_memory_pair_bounds_what_is_unread() -> None:
    near, far = memory_pair(limit=10)
    await near.send(b"x" * 10)
    with anyio.move_on_after(0.005) as waited:
        await near.send(b"y")
    assert waited.cancelled_caught
    assert await far.receive() == b"x" * 10
    await near.send(b"y")
    assert await far.receive() == b"y"


def run_python(code: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=False,
        timeout=20,
        cwd=ROOT,
        **options,
    )


OWNED = """
import os, subprocess, sys
from eca_protocol.streams import owned_stdio
with owned_stdio() as (read_fd, write_fd):
    {body}
{after}
"""


def test_nothing_but_the_wire_reaches_the_wire() -> None:
    body = """
    print("a print")
    os.write(1, b"a library\\n")
    subprocess.run(["sh", "-c", "echo a child; cat"], check=True)
    os.write(write_fd, b"frame:" + os.read(read_fd, 100))"""
    done = run_python(OWNED.format(body=body, after="print('after')"), input=b"for the wire")
    assert done.stdout == b"frame:for the wire" + b"after\n"
    assert done.returncode == 0
    for noise in (b"a print", b"a library", b"a child"):
        assert noise in done.stderr


def test_what_was_printed_before_and_still_waits_stays_out_of_the_wire() -> None:
    before = "import sys; sys.stdout = open(1, 'w', closefd=False); sys.stdout.write('before')\n"
    code = before + OWNED.format(body="os.write(write_fd, b'wire ')", after="print('after')")
    done = run_python(code, input=b"")
    assert done.stdout == b"wire after\n"
    assert b"before" in done.stderr


def test_streams_that_are_taken_for_good_are_not_given_back() -> None:
    body = "os.write(write_fd, b'wire')"
    code = OWNED.format(body=body, after="print('after'); os.write(1, b'later')")
    done = run_python(code.replace("owned_stdio()", "owned_stdio(for_good=True)"), input=b"")
    assert done.stdout == b"wire"
    assert b"after" in done.stderr
    assert b"later" in done.stderr


def test_children_do_not_inherit_the_wire() -> None:
    body = """
    ls = subprocess.run(["ls", "/proc/self/fd"], capture_output=True, close_fds=False)
    held = ls.stdout.split()
    os.write(write_fd, b" ".join(held))"""
    done = run_python(OWNED.format(body=body, after=""), input=b"")
    assert [int(fd) for fd in done.stdout.split()][:3] == [0, 1, 2]
    assert len(done.stdout.split()) == 4


def test_a_second_claim_is_refused_and_a_later_one_is_not() -> None:
    body = """
    from eca_protocol.errors import LocalProtocolError
    try:
        owned_stdio().__enter__()
    except LocalProtocolError as error:
        print(error, file=sys.stderr)"""
    after = "with owned_stdio() as (_, write_fd): os.write(write_fd, b'again')"
    done = run_python(OWNED.format(body=body, after=after), input=b"")
    assert b"already in use" in done.stderr
    assert done.stdout == b"again"


@pytest.mark.parametrize(("closed", "word"), [(0, b"input"), (1, b"output")])
def test_a_closed_standard_stream_is_named(closed: int, word: bytes) -> None:
    done = run_python(f"import os; os.close({closed})\n" + OWNED.format(body="pass", after=""))
    assert done.returncode == 1
    assert b"StartFailed: the standard " + word + b" is closed" in done.stderr


@pytest.mark.parametrize(("closed", "word"), [("<&-", b"input"), (">&-", b"output")])
def test_a_file_in_the_place_of_a_closed_stream_is_not_the_wire(closed: str, word: bytes) -> None:
    code = "import os; os.open(os.devnull, os.O_RDWR)\n" + OWNED.format(body="pass", after="")
    started = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", code]
    done = subprocess.run(started, capture_output=True, timeout=20, check=False)
    assert done.returncode == 1
    assert b"StartFailed: the standard " + word + b" is closed" in done.stderr


def test_a_closed_error_stream_never_becomes_the_wire() -> None:
    body = """
    print("lost")
    subprocess.run(["sh", "-c", "echo lost >&2; echo lost"])
    os.write(write_fd, b"wire")"""
    code = "import os; os.close(2)\n" + OWNED.format(body=body, after="")
    assert run_python(code, input=b"").stdout == b"wire"


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
