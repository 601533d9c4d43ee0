"""Hypothesis's entry point: `st.from_type` and type hints make message classes.

Hypothesis calls `register` at its import, wherever this package is installed. The strategies are
loaded when the first message is drawn.
"""

from __future__ import annotations

from typing import Any

__all__ = ["register"]


def register() -> None:
    """Register a strategy for each class of `eca_protocol.messages`."""
    import attrs  # noqa: PLC0415  # hypothesis users without ECA do not load attrs
    from hypothesis import strategies as st  # noqa: PLC0415  # hypothesis is being imported

    from eca_protocol import messages  # noqa: PLC0415  # as above

    for name in dir(messages):
        cls = getattr(messages, name)
        if isinstance(cls, type) and attrs.has(cls):
            st.register_type_strategy(cls, _from_model)


def _from_model(cls: Any) -> Any:
    from eca_protocol.testing.strategies import from_model  # noqa: PLC0415  # at the first draw

    return from_model(cls)
