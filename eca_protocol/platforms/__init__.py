"""The operating system: process groups, signals, descriptors, locks, directories.

`posix` and `windows` have the same names, and those of this system are here. Other modules use
them and name no system, unless a whole feature exists on one system only.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from eca_protocol.platforms.windows import *  # noqa: F403
else:
    from eca_protocol.platforms.posix import *  # noqa: F403
