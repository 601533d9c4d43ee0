"""A chat whose contents a mutant changes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from tests.eca_protocol.testing.conformance.reference.chat import Chat

Content = dict[str, Any]


class SaysOtherwise(Chat):
    """A chat that passes each content through `changed`."""

    def say(self, role: str, content: Content) -> None:
        super().say(*self.changed(role, content))

    @abstractmethod
    def changed(self, role: str, content: Content) -> tuple[str, Content]:
        """Return the changed role and content."""
