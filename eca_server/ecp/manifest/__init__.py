"""Manifests: what is evaluated and how it is checked, read from YAML with exact complaints."""

from __future__ import annotations

from eca_server.ecp.manifest.model import (
    Dataset,
    Grader,
    Manifest,
    ManifestInvalid,
    Scenario,
    Step,
)
from eca_server.ecp.manifest.reading import load_manifest, read_manifest

__all__ = [
    "Dataset",
    "Grader",
    "Manifest",
    "ManifestInvalid",
    "Scenario",
    "Step",
    "load_manifest",
    "read_manifest",
]
