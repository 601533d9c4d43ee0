"""The message models of ACP 1, as attrs classes; the wire name of a field is in camelCase."""

from __future__ import annotations

from eca_protocol.acp.messages.blocks import *  # noqa: F403
from eca_protocol.acp.messages.client import *  # noqa: F403
from eca_protocol.acp.messages.sessions import *  # noqa: F403
from eca_protocol.acp.messages.updates import *  # noqa: F403
