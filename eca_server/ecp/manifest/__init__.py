"""Manifests of evaluations, read from YAML with exact error messages."""
