"""The version of this distribution."""

from __future__ import annotations


def version() -> str:
    """Return the installed version, or a note if the package is not installed."""
    from importlib.metadata import PackageNotFoundError  # noqa: PLC0415 - slow
    from importlib.metadata import version as version_of  # noqa: PLC0415 - slow

    try:
        return version_of("eca-protocol")
    except PackageNotFoundError:
        return "(not installed)"
