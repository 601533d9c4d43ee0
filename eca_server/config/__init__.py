"""The configuration: typed, merged from several places, interpolated; errors name their place.

`load` is all of it: a pure function of its arguments and of the files they lead to. Nothing is
imported until it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eca_server.config.effective import in_behavior
    from eca_server.config.folders import cache_folder, data_folder, make_data_folder, user_folder
    from eca_server.config.loading import Loaded, load
    from eca_server.config.mcp_settings import MCPServer
    from eca_server.config.problems import Problem, Source
    from eca_server.config.settings import (
        CatalogSettings,
        Config,
        Cost,
        Limit,
        Model,
        Prompts,
        Provider,
        Retry,
    )
    from eca_server.config.tool_settings import (
        OTHER_NAMES,
        Approval,
        ApprovalRule,
        Behavior,
        CustomTool,
        OutputTruncation,
        ToolCall,
    )

_ROOMS = {
    "effective": ("in_behavior",),
    "folders": ("cache_folder", "data_folder", "make_data_folder", "user_folder"),
    "loading": ("Loaded", "load"),
    "mcp_settings": ("MCPServer",),
    "problems": ("Problem", "Source"),
    "settings": (
        "CatalogSettings",
        "Config",
        "Cost",
        "Limit",
        "Model",
        "Prompts",
        "Provider",
        "Retry",
    ),
    "tool_settings": (
        "OTHER_NAMES",
        "Approval",
        "ApprovalRule",
        "Behavior",
        "CustomTool",
        "OutputTruncation",
        "ToolCall",
    ),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "OTHER_NAMES",
    "Approval",
    "ApprovalRule",
    "Behavior",
    "CatalogSettings",
    "Config",
    "Cost",
    "CustomTool",
    "Limit",
    "Loaded",
    "MCPServer",
    "Model",
    "OutputTruncation",
    "Problem",
    "Prompts",
    "Provider",
    "Retry",
    "Source",
    "ToolCall",
    "cache_folder",
    "data_folder",
    "in_behavior",
    "load",
    "make_data_folder",
    "user_folder",
]


def __getattr__(name: str) -> Any:
    room = _ROOM_OF.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{room}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
