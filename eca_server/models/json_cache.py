"""A cache of small JSON files: data fetched over the network, for the next start.

A file is replaced as a whole, and only the user can read it. A missing, damaged or too large file
counts as absent. A failed write is not an error.

Everything here touches the disk: call it in a worker thread.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_server.config.directories import make_data_directory
from eca_server.config.files import Unreadable, read_text
from eca_server.config.private_file import replace_file

_log = logging.getLogger("eca_server.models")

_VERSION = 1


def load_cached(path: Path, *, most: int = 16 * 2**20) -> dict[str, Any] | None:
    """Return the JSON object in a file; None: there is none of at most `most` bytes."""
    try:
        value = json.loads(read_text(path, most=most).encode())
    except (Unreadable, InvalidJSON) as fault:
        _log.debug("%s: %s", path, fault)
        return None
    is_ours = isinstance(value, dict) and value.get("version") == _VERSION
    return dict(value) if is_ours else None


def store_cached(path: Path, value: dict[str, Any]) -> None:
    """Store a JSON object in a file."""
    try:
        make_data_directory(path.parent)
        replace_file(path, json.dumps({"version": _VERSION, **value}))
    except OSError as fault:
        _log.info("%s cannot be stored: %s", path, fault.strerror)
