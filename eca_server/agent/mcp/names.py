"""The names by which models call the tools of MCP servers (ruling W-37).

Rule: names are legal for every LLM API, unique, and the same after a restart with different other
servers, since prompts are cached and chats stored with them. The name is `server__tool` where this
is possible; else it is cut and made unique by a hash. A name is never parsed: the server and the
tool are looked up.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

MAX_LENGTH = 64
"""Maximum number of characters of a name, in the strictest API."""

_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_SERVER_PART, _TOOL_PART = 23, 30

Key = tuple[str, str]


def tool_names(tools: Iterable[Key], taken: Collection[str] = ()) -> Mapping[Key, str]:
    """Return the name of each tool.

    Args:
        tools: pairs of server and tool, without duplicates.
        taken: names in use.
    """
    keys = list(tools)
    plain = {key: f"{key[0]}__{key[1]}" for key in keys}
    count = Counter(plain.values())
    plain_names = {
        key: name
        for key, name in plain.items()
        if count[name] == 1 and name not in taken and _LEGAL.fullmatch(name)
    }
    used = {*taken, *plain_names.values()}
    names = {}
    for key in keys:
        names[key] = plain_names.get(key) or _hashed(key, used)
        used.add(names[key])
    return names


def _hashed(key: Key, used: Collection[str]) -> str:
    server, tool = (_ILLEGAL.sub("_", part) for part in key)
    if len(server) + len(tool) > _SERVER_PART + _TOOL_PART:
        server, tool = server[: max(_SERVER_PART, 53 - len(tool))], tool[:_TOOL_PART]
    stem = f"{server}__{tool}"
    if not _LEGAL.match(stem):
        stem = f"_{stem}"[: MAX_LENGTH - 9]
    digest = b"\0".join(part.encode("utf-8", "surrogatepass") for part in key)
    while True:
        digest = hashlib.sha256(digest).hexdigest().encode()
        name = f"{stem}_{digest[:8].decode()}"
        if name not in used:
            return name
