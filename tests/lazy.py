"""Modules that are imported at first use: an SDK takes a second, and few workers test with it."""

import importlib
import sys
from typing import Any


class LazyModule:
    """A module by its name; its members are those of the module.

    With `without` it is imported as if that optional package were not installed.
    """

    def __init__(self, name: str, *, without: str = "") -> None:
        self._name = name
        self._without = without

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest looks for some in all that a test module holds
            raise AttributeError(name)
        if self._without:
            sys.modules.setdefault(self._without, None)  # type: ignore[arg-type]
        return getattr(importlib.import_module(self._name), name)
