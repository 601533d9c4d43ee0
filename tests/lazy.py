"""Modules that are imported at first use: an SDK takes a second, and few workers test with it."""

from __future__ import annotations

import importlib
from typing import Any


class LazyModule:
    """A module by its name; its members are those of the module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest looks for some in all that a test module holds
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)
