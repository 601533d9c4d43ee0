"""The user's browser, for a login that the user requested.

Its program is found like that of every child process, so an opened folder cannot substitute its
own. A failure is only logged, since the user also has the link.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from urllib.parse import urlsplit

import trio

from eca_protocol import platforms
from eca_server.system.child_process import find_own_program

_log = logging.getLogger("eca_server")


async def open_page(url: str, environ: Mapping[str, str]) -> None:
    """Open a page in the browser, and wait until the opening program has exited.

    Args:
        url: the page; only http and https are opened.
        environ: the environment of child processes.
    """
    if urlsplit(url).scheme not in {"https", "http"}:
        return
    try:
        if sys.platform == "win32":
            await trio.to_thread.run_sync(os.startfile, url)
            return
        command = _opener(environ)
        if command is None:
            return
        program = await trio.lowlevel.open_process(
            [command, url],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environ,
            start_new_session=True,  # the browser is the user's, and outlives the server
        )
        await program.wait()
    except OSError as error:
        _log.warning("the browser could not be opened: %s", error)


def _opener(environ: Mapping[str, str]) -> str | None:
    if not platforms.has_screen(environ):
        return None
    if sys.platform == "darwin":
        return "/usr/bin/open"
    return find_own_program("xdg-open", environ.get("PATH"))
