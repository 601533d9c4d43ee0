"""A chat that says something else than the reference does: for mutants of what is said."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from tests.eca_protocol.testing.conformance.reference.chat import Chat

Content = dict[str, Any]


class SaysOtherwise(Chat):
    """Each content passes through `changed` first."""

    def say(self, role: str, content: Content) -> None:
        super().say(*self.changed(role, content))

    @abstractmethod
    def changed(self, role: str, content: Content) -> tuple[str, Content]:
        """What is said in its place."""
