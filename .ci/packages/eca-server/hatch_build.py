"""Metadata of the package `eca-server`: the version of `eca-protocol`, and its only dependency."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PYPROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"


class VersionOfTheProject(MetadataHookInterface):
    """A hook that takes the version from the project's own `pyproject.toml`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in the dynamic fields."""
        project = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]
        metadata["version"] = project["version"]
        metadata["dependencies"] = [f"{project['name']}=={project['version']}"]
