"""Rows with the same content as another row, which is judged in their place.

The most exact of several rows is judged, so that a server with one error fails one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_PAIRS: Final = """
BASE-3=W-1 BASE-4=W-1 W-4d=BASE-25 W-3d=BASE-26 CLIENT-4=W-1 CLIENT-6=W-2a CLIENT-7=W-2d
CLIENT-8=W-2b CLIENT-9=W-3a CLIENT-10=W-3e CLIENT-13=BASE-17 CLIENT-30=BASE-2
LIFE-6=W-14a LIFE-13=W-10e LIFE-15=W-11c LIFE-19=W-13a LIFE-25=W-13l ARROW:initialization-2=LIFE-3
ARROW:initialization-4=LIFE-14 ARROW:initialization-5=W-11c ARROW:shutdown-2=LIFE-18 CLIENT-1=W-10a
CLIENT-24=LIFE-18 CLIENT-29=W-11e
CONF-1=W-11a CONF-2=W-11b CONF-7=W-11c CLIENT-2=W-11b CLIENT-3=W-28c CLIENT-23=W-11g CHAT-38=W-28a
CLIENT-26=W-42d EDIT-5=W-42c LIFE-9=W-42d
CHAT-5=W-28a CHAT-13=W-20a CHAT-32=W-23f CHAT-35=W-24f CLIENT-11=W-21c CLIENT-12=W-21d
CLIENT-14=W-22e CLIENT-15=W-20a CLIENT-19=W-27b CLIENT-31=W-20b CLIENT-32=W-24a
ARROW:chat-text-2=W-20a ARROW:chat-text-3=W-20b ARROW:chat-text-4=CHAT-3 ARROW:chat-text-5=W-20c
ARROW:chat-text-6=CHAT-12 ARROW:chat-text-7=CHAT-12 ARROW:chat-text-8=W-22e ARROW:chat-text-9=W-22e
TOOL-19=W-31b CLIENT-16=W-30a CLIENT-17=W-30b CLIENT-18=W-32a CLIENT-21=TOOL-13 CLIENT-22=W-35b
CLIENT-27=W-34a ARROW:chat-tool-call-3=CHAT-12 ARROW:chat-tool-call-5=TOOL-1
ARROW:chat-tool-call-6=W-30a ARROW:chat-tool-call-7=TOOL-4 ARROW:chat-tool-call-9=TOOL-5
ARROW:chat-tool-call-10=TOOL-6 ARROW:chat-tool-call-12=W-22e ARROW:chat-tool-call-13=W-22e
"""

_PAIRS_OF_CLIENTS: Final = """
ARROW:initialization-1=LIFE-1 ARROW:initialization-3=LIFE-12
ARROW:chat-tool-call-1=ARROW:chat-text-1
ARROW:chat-tool-call-8=TOOL-16 BASE-3=W-1 BASE-4=W-1 W-4d=BASE-25 W-5a=BASE-6
"""


def _mapping(pairs: str) -> Mapping[str, str]:
    return MappingProxyType(dict(pair.rsplit("=", 1) for pair in pairs.split()))


DUPLICATES: Final = _mapping(_PAIRS)
"""A row that binds servers -> the row that is judged in its place."""

CLIENT_DUPLICATES: Final = _mapping(_PAIRS_OF_CLIENTS)
"""A row that binds clients -> the row that is judged in its place."""
