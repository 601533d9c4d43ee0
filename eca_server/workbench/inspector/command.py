"""`inspect`: show a transcript in the browser, or write it as a page.

A transcript that is still being written is followed until its end, or until its writer is gone.
`tap` starts the inspector as a separate process, which ends with the conversation, so that it
cannot delay the conversation.
"""

from __future__ import annotations

import contextlib
import functools
import html
import os
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import trio

from eca_protocol import platforms
from eca_protocol.http_server import serve
from eca_protocol.streams import FdTransport
from eca_protocol.transcript import is_locked
from eca_server.config.directories import data_directory
from eca_server.printable import printable_lines
from eca_server.system.child_process import absolute_entries
from eca_server.system.command_line import fail, write_to_user
from eca_server.system.signals import run_until_a_signal
from eca_server.workbench.inspector.inspection import Inspection
from eca_server.workbench.inspector.serving import LIMITS, Feed, Site, render_file_page
from eca_server.workbench.report_files import OutputsInvalid, check_file, write_file
from eca_server.workbench.tap import masker

PROGRAM: Final = "eca-server inspect"
_CHUNK: Final = 2**18
_POLL: Final = 0.1  # seconds between two reads of a transcript that is still being written
_DRAIN_SECONDS: Final = 10.0
"""Seconds for a page to fetch the remaining parts after the end of `tap`."""


def newest_transcript() -> Path | None:
    """Return the most recently written transcript in the default directory of `tap`."""
    transcripts = (data_directory(os.environ) / "transcripts").glob("*.jsonl")
    return max(transcripts, key=lambda path: path.stat().st_mtime, default=None)


def write_page(transcript: Path, out: Path) -> int:
    """Write the page of a transcript so far as one file, and return the exit code.

    Raises:
        OSError: one of the files cannot be opened.
    """
    inspection = Inspection(transcript.name, masker(os.environ))
    if out.exists() and out.samefile(transcript):
        why = f"{out}: expected a new file for the page, got the transcript itself"
        return fail(PROGRAM, why, 2)
    try:
        check_file(out)
    except OutputsInvalid as error:
        return fail(PROGRAM, error)
    with transcript.open("rb") as file:
        may_continue = is_locked(file.fileno())
        parts = list(_parts(file, inspection))
    if not parts:
        why = inspection.fault or f"{transcript}: expected a transcript, got no complete line"
        return fail(PROGRAM, why, 2)
    if (last := inspection.end(may_continue=may_continue)) is not None:
        parts.append(last)
    page = render_file_page(transcript.name, parts)
    write_file(out, page, is_private=True)
    if inspection.fault is not None:
        _say(inspection.fault)
    return 0


def inspect(transcript: Path, *, port: int, opens: bool, with_tap: bool = False) -> int:
    """Serve the page of a transcript until a signal, and return the exit code.

    Args:
        transcript: the file, which may still be written.
        port: the port to listen on; 0 takes a free one.
        opens: open the page in the user's browser.
        with_tap: end when standard input ends, which `tap` holds open.

    Raises:
        OSError: the file cannot be opened, or the port is taken.
    """
    if with_tap and hasattr(os, "nice"):
        os.nice(10)  # the conversation has priority
    if transcript.exists() and not transcript.is_file():
        return fail(PROGRAM, f"{transcript}: expected a regular file", 2)
    inspection = Inspection(transcript.name, masker(os.environ))
    feed = Feed()
    with transcript.open("rb") as file:
        first = inspection.feed(file.read(_CHUNK))
        if first is not None:
            feed.add(first)
        elif inspection.fault is not None:
            return fail(PROGRAM, inspection.fault, 2)
        follower = Follower(file, inspection, feed)
        site = Site(transcript.name, feed)
        page = functools.partial(_serve, site, follower, port, opens, with_tap)
        _, number = run_until_a_signal(page)
    return 0 if number is None else 128 + number


async def _serve(site: Site, follower: Follower, port: int, opens: bool, with_tap: bool) -> None:
    async with serve(site.handle, port=port, limits=LIMITS) as server:
        site.port = server.port
        with _redirect_file(site.address) as redirect:
            async with trio.open_nursery() as nursery:
                if with_tap:
                    _say(f"to see the conversation at {server.url}/, open {redirect}")
                    nursery.start_soon(follower.watch_tap)
                else:
                    write_to_user(f"{site.address}\n", sys.stdout)
                if opens and platforms.has_screen(os.environ):
                    nursery.start_soon(_open_browser, redirect)
                await follower.follow()
                if not with_tap:
                    await trio.sleep_forever()
                with trio.move_on_after(_DRAIN_SECONDS if opens or follower.feed.readers else 0):
                    await follower.feed.drained.wait()
                nursery.cancel_scope.cancel()


class Follower:
    """A reader that follows a transcript to its end, even while it is being written."""

    def __init__(self, file: BinaryIO, inspection: Inspection, feed: Feed) -> None:
        self.feed = feed
        self._file = file
        self._inspection = inspection
        self.tap_has_ended = trio.Event()

    async def watch_tap(self) -> None:
        """Wait for the end of standard input, which `tap` holds open."""
        await FdTransport(platforms.duplicate(0), None).receive()
        self.tap_has_ended.set()

    async def follow(self) -> None:
        """Read the file to its end, and then its additions."""
        is_last = False
        while not is_last:
            is_last = (
                self._inspection.is_over
                or self.tap_has_ended.is_set()
                or (self._inspection.has_started and not is_locked(self._file.fileno()))
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
            _say(str(self._inspection.fault))


def _parts(file: BinaryIO, inspection: Inspection) -> Iterator[bytes]:
    """Yield the page's parts for the unread rest of the file."""
    while not inspection.fault and (data := file.read(_CHUNK)):
        part = inspection.feed(data)
        if part is not None:
            yield part


@contextlib.contextmanager
def _redirect_file(address: str) -> Iterator[Path]:
    """Make a private file that redirects to an address: arguments are visible to other users."""
    descriptor, name = tempfile.mkstemp(prefix="eca-inspect-", suffix=".html")
    redirect = Path(name)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f'<meta http-equiv="refresh" content="0;url={html.escape(address)}">\n')
        yield redirect
    finally:
        redirect.unlink(missing_ok=True)


async def _open_browser(redirect: Path) -> None:
    path = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = absolute_entries(path)  # no program of the current directory
    await trio.to_thread.run_sync(webbrowser.open, redirect.as_uri(), abandon_on_cancel=True)


def _say(text: str) -> None:
    write_to_user(f"{PROGRAM}: {printable_lines(text)}\n", sys.stderr)
