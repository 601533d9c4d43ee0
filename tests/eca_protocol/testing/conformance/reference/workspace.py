"""The folders of the user: paths in them, what a query finds, what a context shows."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

MOST = 200
ENDS = ("start", "end")


class Workspace:
    """The roots of the session.

    Attributes:
        roots: the folders that can be used.
        unusable: the URIs of the others.
    """

    def __init__(self, folders: list[Any]) -> None:
        self.roots: list[Path] = []
        self.unusable: list[str] = []
        for folder in folders:
            uri = folder.get("uri") if isinstance(folder, dict) else None
            path = path_of(str(uri))
            if path is not None and path.is_dir():
                self.roots.append(path)
            else:
                self.unusable.append(str(uri))

    def configuration(self) -> dict[str, Any]:
        """Return the configuration file of the first root."""
        try:
            return dict(json.loads((self.roots[0] / ".eca" / "config.json").read_bytes()))
        except (IndexError, OSError, ValueError):
            return {}

    def resolve(self, path: str) -> Path:
        first = self.roots[0] if self.roots else Path.cwd()
        return first / path

    def query(
        self, text: str, known: list[dict[str, Any]], more: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return unknown contexts whose path or name has the text, the roots first."""
        candidates = [{"type": "directory", "path": str(root)} for root in self.roots]
        candidates += [
            {"type": "directory" if path.is_dir() else "file", "path": str(path)}
            for root in self.roots
            for path in sorted(root.rglob("*"))
            if not any(part.startswith(".") for part in path.relative_to(root).parts)
        ]
        taken, needle = set(map(place_of, known)), text.strip().lower()
        return [
            context
            for context in (*candidates, *more)
            if place_of(context) not in taken and needle in place_of(context).lower()
        ][:MOST]

    def show_file(self, path: Path, lines: dict[str, int] | None = None) -> str:
        try:
            text = path.read_text("utf-8", "replace")
        except OSError as error:
            return f"{path}: {error.strerror}"
        if lines is not None:
            excerpt = text.splitlines(keepends=True)[max(0, lines["start"] - 1) : lines["end"]]
            text = "".join(excerpt)
        return f'<file path="{path}">\n{text}\n</file>'

    def show_directory(self, path: Path) -> str:
        paths = [each for each in sorted(path.rglob("*")) if ".git" not in each.parts][:MOST]
        shown = [self.show_file(each)[:4096] for each in paths if each.is_file()]
        tree = "\n".join(str(each.relative_to(path)) for each in paths)
        return "\n".join([*shown, f'<tree path="{path}">\n{tree}\n</tree>'])

    def show_map(self) -> str:
        return "\n".join(self.show_directory(root) for root in self.roots)

    def show_cursor(self, path: str, position: dict[str, Any]) -> str:
        places = [f"{position[name]['line']}:{position[name]['character']}" for name in ENDS]
        return f'<cursor path="{path}" at="{" to ".join(dict.fromkeys(places))}"/>'


def place_of(context: dict[str, Any]) -> str:
    return str(context.get("path") or context.get("uri"))


def path_of(uri: str) -> Path | None:
    """Return the path of a file URI, or None."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    return Path(unquote(parts.path))
