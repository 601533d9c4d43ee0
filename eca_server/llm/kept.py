"""Small files of what was learned over the network, kept for the next start.

The rules it keeps: a file is replaced as a whole and only the user can read it; one that is
missing, broken or too large is as good as none; that one cannot be written is no fault.

Everything here touches the disk: call it in a worker thread.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_server.config import make_data_directory
from eca_server.config.files import Unreadable, read_text
from eca_server.config.private_file import replace_file

__all__ = ["keep", "kept"]

_log = logging.getLogger("eca_server.llm")

_VERSION = 1


def kept(path: Path, *, most: int = 16 * 2**20) -> dict[str, Any] | None:
    """What was kept there, an object with anything in it; None: nothing of at most `most` bytes."""
    try:
        value = json.loads(read_text(path, most=most).encode())
    except (Unreadable, InvalidJSON) as fault:
        _log.debug("%s: %s", path, fault)
        return None
    is_ours = isinstance(value, dict) and value.get("version") == _VERSION
    return dict(value) if is_ours else None


def keep(path: Path, value: dict[str, Any]) -> None:
    """Keep a JSON object there."""
    try:
        make_data_directory(path.parent)
        replace_file(path, json.dumps({"version": _VERSION, **value}))
    except OSError as fault:
        _log.info("%s cannot be kept: %s", path, fault.strerror)
