"""A workspace of one root, a directory beside it, and a home directory."""

from pathlib import Path

import pytest

from eca_protocol.server.roots import Root
from eca_server.workspace.boundary import Workspace


def root_of(path: Path) -> Root:
    return Root(name=path.name, uri=path.as_uri(), path=path, real_path=path.resolve())


def write(path: Path, text: str) -> Path:
    """Write a file, and the directories to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return the only root of `workspace`."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a directory beside the root, with a file `secret` in it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("top secret\n")
    return folder


@pytest.fixture
def workspace(project: Path) -> Workspace:
    return Workspace([root_of(project)])
