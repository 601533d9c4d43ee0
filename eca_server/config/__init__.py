"""The configuration: typed, merged from several sources, its references resolved.

`load` is the entry point: a pure function of its arguments and of the files they lead to. Modules
are imported at their first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eca_server.config.directories import (
        cache_directory,
        data_directory,
        make_data_directory,
        user_directory,
    )
    from eca_server.config.effective import apply_behavior
    from eca_server.config.loading import LoadedConfig, load
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
        AGENT_ALIASES,
        Approval,
        ApprovalRule,
        Behavior,
        CustomTool,
        OutputTruncation,
        ToolCall,
    )

_MODULES = {
    "effective": ("apply_behavior",),
    "directories": ("cache_directory", "data_directory", "make_data_directory", "user_directory"),
    "loading": ("LoadedConfig", "load"),
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
        "AGENT_ALIASES",
        "Approval",
        "ApprovalRule",
        "Behavior",
        "CustomTool",
        "OutputTruncation",
        "ToolCall",
    ),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AGENT_ALIASES",
    "Approval",
    "ApprovalRule",
    "Behavior",
    "CatalogSettings",
    "Config",
    "Cost",
    "CustomTool",
    "Limit",
    "LoadedConfig",
    "MCPServer",
    "Model",
    "OutputTruncation",
    "Problem",
    "Prompts",
    "Provider",
    "Retry",
    "Source",
    "ToolCall",
    "apply_behavior",
    "cache_directory",
    "data_directory",
    "load",
    "make_data_directory",
    "user_directory",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
