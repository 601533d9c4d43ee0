"""`inspect`: shows a transcript in the browser, or writes it as a page.

A transcript that is still being written is followed to its end, or to where its writer breaks off.
Beside `tap` it runs as a process of its own, which ends with the conversation, so that it can hold
nothing up.
"""

from __future__ import annotations

import contextlib
import functools
import html
import os
import stat
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import trio

from eca_protocol.http_server import serve
from eca_protocol.transcript import is_claimed
from eca_server.command_line import write_to_user
from eca_server.config.directories import data_directory
from eca_server.inspector.inspection import Inspection
from eca_server.inspector.page import whole_page
from eca_server.inspector.serving import LIMITS, Feed, Site
from eca_server.printable import printable_lines
from eca_server.signals import until_a_signal
from eca_server.tap import masker

__all__ = ["Follower", "inspect", "newest_transcript", "write_page"]

_CHUNK: Final = 2**18
_POLL: Final = 0.1
"""Seconds between two looks at a transcript that is still being written."""

_LAST_LOOK: Final = 10.0
"""Seconds that a page has, once `tap` has ended, to fetch what it has not."""


def newest_transcript() -> Path | None:
    """The transcript that was written to last, of those in the usual place of `tap`."""
    kept = (data_directory(os.environ) / "transcripts").glob("*.jsonl")
    return max(kept, key=lambda path: path.stat().st_mtime, default=None)


def write_page(transcript: Path, out: Path) -> int:
    """Write the page of a transcript, as far as it goes by now, as one file; the exit code.

    Raises:
        OSError: one of the two cannot be opened.
    """
    inspection = Inspection(transcript.name, masker(os.environ))
    if out.exists() and out.samefile(transcript):
        return _refuse(f"{out}: expected another file for the page, got the transcript itself")
    with transcript.open("rb") as file:
        may_go_on = is_claimed(file.fileno())
        parts = list(_parts(file, inspection))
    if not parts:
        return _refuse(
            inspection.fault or f"{transcript}: expected a transcript, got an empty file"
        )
    if (last := inspection.end(may_go_on=may_go_on)) is not None:
        parts.append(last)
    page = whole_page(transcript.name, parts)
    with open(out, "wb", opener=_for_the_user) as written:
        written.write(page.encode("utf-8", "replace"))
    if inspection.fault is not None:
        _say(f"inspect: {inspection.fault}")
    return 0


def inspect(transcript: Path, *, port: int, opens: bool, beside_tap: bool = False) -> int:
    """Serve the page of a transcript until a signal; the exit code.

    Args:
        transcript: the file, which may still be written.
        port: where to listen; 0 takes a free one.
        opens: show it in the user's browser.
        beside_tap: end when standard input does, which `tap` holds.

    Raises:
        OSError: the file cannot be opened, or the port is taken.
    """
    if beside_tap and hasattr(os, "nice"):
        os.nice(10)  # the conversation comes first
    if transcript.exists() and not transcript.is_file():
        return _refuse(f"{transcript}: expected a file, which can be read while others write it")
    inspection = Inspection(transcript.name, masker(os.environ))
    feed = Feed()
    with transcript.open("rb") as file:
        first = inspection.feed(file.read(_CHUNK))
        if first is not None:
            feed.add(first)
        elif inspection.fault is not None:
            return _refuse(inspection.fault)
        follower = Follower(file, inspection, feed)
        site = Site(transcript.name, feed)
        page = functools.partial(_serve, site, follower, port, opens, beside_tap)
        _, number = trio.run(until_a_signal, page)
    return 0 if number is None else 128 + number


async def _serve(site: Site, follower: Follower, port: int, opens: bool, beside_tap: bool) -> None:
    async with serve(site.handle, port=port, limits=LIMITS) as server:
        site.port = server.port
        with _door(site.address) as door:
            async with trio.open_nursery() as nursery:
                if beside_tap:
                    _say(f"inspect: {server.url}/ is open to whoever opens {door}")
                    nursery.start_soon(follower.see_tap_end)
                else:
                    write_to_user(f"{site.address}\n", sys.stdout)
                if opens and _has_a_screen():
                    nursery.start_soon(_show, door)
                await follower.follow()
                if not beside_tap:
                    await trio.sleep_forever()
                with trio.move_on_after(_LAST_LOOK if opens or follower.feed.readers else 0):
                    await follower.feed.was_read.wait()
                nursery.cancel_scope.cancel()


class Follower:
    """Reads a transcript to its end, which may be yet to come while somebody writes it."""

    def __init__(self, file: BinaryIO, inspection: Inspection, feed: Feed) -> None:
        self.feed = feed
        self._file = file
        self._inspection = inspection
        self.tap_has_ended = trio.Event()

    async def see_tap_end(self) -> None:
        """Wait for the end of standard input."""
        await trio.lowlevel.wait_readable(0)
        self.tap_has_ended.set()

    async def follow(self) -> None:
        """Feed what is there, and what comes."""
        is_last = False
        while not is_last:
            is_last = (
                self._inspection.is_over
                or self.tap_has_ended.is_set()
                or (self._inspection.has_begun and not is_claimed(self._file.fileno()))
            )
            for part in _parts(self._file, self._inspection):
                self.feed.add(part)
                await trio.lowlevel.checkpoint()
            with trio.move_on_after(0 if is_last else _POLL):
                await self.tap_has_ended.wait()
        if (last := self._inspection.end()) is not None:
            self.feed.add(last)
        self.feed.close()
        if self._inspection.fault is not None:
            _say(f"inspect: {self._inspection.fault}")


def _parts(file: BinaryIO, inspection: Inspection) -> Iterator[bytes]:
    """What the file tells from where it was read to up to its end."""
    while not inspection.fault and (data := file.read(_CHUNK)):
        part = inspection.feed(data)
        if part is not None:
            yield part


@contextlib.contextmanager
def _door(address: str) -> Iterator[Path]:
    """A file for the user alone that leads a browser to an address: arguments show everybody."""
    descriptor, name = tempfile.mkstemp(prefix="eca-inspect-", suffix=".html")
    door = Path(name)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f'<meta http-equiv="refresh" content="0;url={html.escape(address)}">\n')
        yield door
    finally:
        door.unlink(missing_ok=True)


async def _show(door: Path) -> None:
    await trio.to_thread.run_sync(webbrowser.open, door.as_uri(), abandon_on_cancel=True)


def _has_a_screen() -> bool:
    """Whether a browser would open a window, and not take a terminal."""
    names = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform in {"darwin", "win32"} or any(os.environ.get(name) for name in names)


def _for_the_user(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, 0o600)
    if os.name != "nt" and stat.S_ISREG(os.fstat(descriptor).st_mode):
        with contextlib.suppress(PermissionError):  # it is somebody else's, who let us write
            os.fchmod(descriptor, 0o600)
    return descriptor


def _say(words: str) -> None:
    write_to_user(f"{printable_lines(words)}\n", sys.stderr)


def _refuse(why: str) -> int:
    _say(f"inspect: {why}")
    return 2
