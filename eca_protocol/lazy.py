"""Names of a package that are imported at their first use, which keeps a program's start short.

Type checkers see the names by `from ... import name as name` below `if TYPE_CHECKING`.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any


def export(
    namespace: dict[str, Any],
    names: Mapping[str, str],
    modules: Sequence[str] = (),
    *,
    own: str = "",
) -> None:
    """Add lazy names to a package's `globals()`, and set its `__all__` and its `dir`.

    `names` maps a module, relative to the package, to its exported names, between blanks. Each of
    the `modules` is exported itself. `own` are the names that the package has already. It has no
    `__all__` in its text: type checkers would read that list only.
    """
    package = namespace["__name__"]
    module_of = {name: module for module, listed in names.items() for name in listed.split()}

    def get(name: str) -> Any:
        if name in modules:
            return importlib.import_module(f".{name}", package)
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f".{module_of[name]}", package), name)
        namespace[name] = value
        return value

    exported = [*own.split(), *module_of, *modules]
    namespace |= {
        "__all__": exported,
        "__dir__": lambda: sorted({*namespace, *exported}),
        "__getattr__": get,
    }
