"""Which version of this distribution runs."""

from __future__ import annotations

__all__ = ["version"]


def version() -> str:
    """As it was installed; a plain word where it runs from its sources."""
    from importlib.metadata import PackageNotFoundError  # noqa: PLC0415 - slow
    from importlib.metadata import version as version_of  # noqa: PLC0415 - likewise

    try:
        return version_of("eca-protocol")
    except PackageNotFoundError:
        return "(not installed)"
