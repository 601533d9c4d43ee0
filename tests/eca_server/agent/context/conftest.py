"""A workspace of one root, and a directory beside it, as in the tests of the workspace."""

from pathlib import Path

from tests.eca_server.workspace.conftest import outside, project, root_of, workspace

__all__ = ["outside", "project", "root_of", "workspace", "write"]


def write(path: Path, text: str) -> Path:
    """Write a file, and the directories to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
