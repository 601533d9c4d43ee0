"""A workspace of one root, and a folder beside it."""

import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eca_protocol.server.roots import Root
from eca_server.workspace.boundary import Workspace
from eca_server.workspace.catalogue import Catalogue, Collection, Entry


def root_of(path: Path) -> Root:
    return Root(name=path.name, uri=path.as_uri(), path=path, real_path=path.resolve())


def catalogue_of(entries: Iterable[Entry]) -> Catalogue:
    collection = Collection()
    for entry in entries:
        collection.add(entry)
    return Catalogue(collection.ordered())


def run_git(folder: Path, *arguments: str) -> None:
    settings = ("user.name=a", "user.email=a@b", "protocol.file.allow=always")
    options = [word for setting in settings for word in ("-c", setting)]
    command = ["git", *options, "-c", "init.defaultBranch=main", *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=30)


@contextmanager
def swapped_all_the_time(folder: Path, outside: Path) -> Iterator[None]:
    """Let a thread replace a directory by a link to another one, and back, during the block."""
    link, away = folder.with_name("link"), folder.with_name("away")
    link.symlink_to(outside)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            folder.rename(away)
            link.rename(folder)
            folder.rename(link)
            away.rename(folder)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        yield
    finally:
        stop.set()
        swapper.join()


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
