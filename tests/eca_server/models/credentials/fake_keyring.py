"""A keyring in memory, instead of the system's."""

from types import SimpleNamespace


class FakeKeyring(SimpleNamespace):
    """The part of the package `keyring` that is used."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, name: str) -> str | None:
        return self.stored.get((service, name))

    def set_password(self, service: str, name: str, text: str) -> None:
        self.stored[service, name] = text

    def delete_password(self, service: str, name: str) -> None:
        del self.stored[service, name]
