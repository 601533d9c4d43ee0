"""The configuration: typed, merged from several places, interpolated; errors name their place.

`load` is all of it: a pure function of its arguments and of the files they lead to.
"""

from __future__ import annotations

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
    ToolCall,
)

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
    "Problem",
    "Prompts",
    "Provider",
    "Retry",
    "Source",
    "ToolCall",
    "cache_folder",
    "data_folder",
    "load",
    "make_data_folder",
    "user_folder",
]
