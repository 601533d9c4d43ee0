import json
from pathlib import Path
from typing import Any

import pytest

from eca_server.config.loading import LoadedConfig, load
from eca_server.config.problems import Problem
from eca_server.config.settings import Config
from eca_server.config.trust_items import TrustItem
from eca_server.config.trust_store import TrustStore


class House:
    """A home and two workspace roots, with the configuration in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.user = self.home / ".config" / "eca" / "config.json"
        self.roots = [folder / "one", folder / "two"]
        self.environ: dict[str, str] = {}
        self.options: object = None
        self.config_file: Path | None = None
        self.accepts = True
        """True if the user accepts every setting of the roots."""

    @property
    def store(self) -> TrustStore:
        return TrustStore(self.environ, self.home)

    def in_user(self, content: object) -> Path:
        return self.write(self.user, content)

    def in_root(self, index: int, content: object) -> Path:
        return self.write(self.roots[index] / ".eca" / "config.json", content)

    def write(self, path: Path, content: object) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_bytes(text.encode())
        return path

    def load(self, before: LoadedConfig | None = None, **more: Any) -> LoadedConfig:
        loaded = self.load_once(before, **more)
        if self.accepts and loaded.withheld:
            self.accept(loaded)
            loaded = self.load_once(before, **more)
        return loaded

    def load_once(self, before: LoadedConfig | None = None, **more: Any) -> LoadedConfig:
        return load(
            initialization_options=self.options,
            roots=self.roots,
            environ=self.environ,
            config_file=self.config_file,
            home=self.home,
            previous=before,
            **more,
        )

    def accept(self, loaded: LoadedConfig | None = None) -> LoadedConfig:
        """Accept all that waits for trust, and return what applies then."""
        for item in (loaded or self.load_once()).withheld:
            self.store.accept(item.root, [item.digest])
        return self.load_once()

    def config(self) -> Config:
        loaded = self.load()
        assert loaded.problems == ()
        return loaded.config

    def problem(self) -> Problem:
        (problem,) = self.load().problems
        return problem

    def waiting(self, before: LoadedConfig | None = None, **more: Any) -> TrustItem:
        """Return the only setting that waits for trust."""
        (item,) = self.load_once(before, **more).withheld
        return item


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def untrusted(house: House) -> House:
    """Return a house whose user accepts nothing by itself."""
    house.accepts = False
    return house
