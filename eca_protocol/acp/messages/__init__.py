"""The message models of ACP 1, as attrs classes; the wire name of a field is in camelCase.

A module is imported with the first of its models, and those it refers to.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eca_protocol.acp.messages.blocks import *  # noqa: F403
    from eca_protocol.acp.messages.client import *  # noqa: F403
    from eca_protocol.acp.messages.sessions import *  # noqa: F403
    from eca_protocol.acp.messages.updates import *  # noqa: F403


_PARTS = ("blocks", "sessions", "updates", "client")  # each needs the earlier ones

if not TYPE_CHECKING:  # a type checker would take any name

    def __getattr__(name: str) -> Any:
        if not name.startswith("_"):
            for part in _PARTS:
                module = importlib.import_module(f"{__name__}.{part}")
                if hasattr(module, name):
                    globals()[name] = model = getattr(module, name)
                    return model
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    modules = [importlib.import_module(f"{__name__}.{part}") for part in _PARTS]
    return sorted({*globals(), *(name for module in modules for name in vars(module))})
