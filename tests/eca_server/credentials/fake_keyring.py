"""A keyring in memory, in place of the system's."""

from __future__ import annotations

from types import SimpleNamespace


class FakeKeyring(SimpleNamespace):
    """The part of the package `keyring` that is used."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, text: str) -> None:
        self.kept[service, name] = text

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]
