"""Mutants of the reference server, each with the one row that it breaks."""

import importlib
import pkgutil

from tests.eca_protocol.testing.conformance.mutants.registry import MUTANTS

__all__ = ["MUTANTS"]

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
