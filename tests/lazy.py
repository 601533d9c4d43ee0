"""Modules imported at first use, from a file beside the packages, or by a new interpreter."""

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path
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


def imported_by(program: str) -> set[str]:
    """Return the names of the modules that a new interpreter has imported after a program."""
    command = [sys.executable, "-P", "-c", f"{program}\nimport sys\nprint(*sys.modules)"]
    return {*subprocess.run(command, stdout=-1, text=True, check=True).stdout.split()}


def module_of(path: Path) -> Any:
    """Execute a file as a module that no other imports."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
