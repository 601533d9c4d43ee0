"""Manifests of evaluations, read from YAML with exact error messages."""

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
