"""The sources of one opened folder: `.eca/config.json`, `.eca/agents/*.md`, its `extraConfigs`.

The rules it keeps: of a folder that is not trusted nothing counts that could loosen anything
(`workspace_layer`); a setting that the user has accepted counts as it was accepted. A changed one
waits for a new answer, and until then the accepted one stays in force.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs

from eca_server.config.agent_files import FOLDER
from eca_server.config.files import Unreadable, expand_home, is_inside, read_bytes, read_text
from eca_server.config.interpolation import AsWritten
from eca_server.config.jsonc import BadText, parse
from eca_server.config.problems import Problem, dotted
from eca_server.config.reading import KeyPath, Place, Refused, Workspace, deep_merge
from eca_server.config.sources import CONFIG, Sources
from eca_server.config.trust_items import TrustItem, digest_of, files_in, uses_of
from eca_server.config.workspace_layer import Addition, Cut, Known, cut, put, value_at

__all__ = ["Accepted", "Decisions", "FolderSources"]

Accepted: TypeAlias = Mapping[tuple[str, KeyPath], TrustItem]
"""The accepted settings that are in force, by their source and their place in it."""

_DEFAULTS: Final[Mapping[tuple[str, ...], list[Any]]] = {("ignore_files",): [{"type": "gitignore"}]}
"""The plain values of lists to which a folder adds, where the user has configured none."""


@attrs.frozen(kw_only=True)
class Decisions:
    """The user's decisions about one root.

    Attributes:
        is_trusted: the user trusts the folder, if not each of its settings.
        accepts_all: for this session everything is accepted that takes nothing of the user's.
        accepted: digests of the accepted settings.
        refused: digests of settings that are not asked about.
        before: the accepted settings that were in force until now.
    """

    is_trusted: bool = False
    accepts_all: bool = False
    accepted: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    before: Accepted = attrs.field(factory=dict)


@attrs.define(kw_only=True, eq=False, repr=False)
class FolderSources(Sources):
    """The sources of a root, merged over those of the user.

    Attributes:
        root: the workspace root.
        known: the user's own settings.
        decisions: about the root.
        restriction: what it restricts, read and merged.
        withheld: settings that wait for an answer.
        accepted: accepted settings that are in force.
    """

    root: Path
    known: Known
    decisions: Decisions
    restriction: dict[str, Any] = attrs.field(factory=dict)
    withheld: list[TrustItem] = attrs.field(factory=list)
    accepted: dict[tuple[str, KeyPath], TrustItem] = attrs.field(factory=dict)
    _extra_configs: list[str] = attrs.field(factory=list)
    _is_inside_accepted: bool = False
    _takes_extra: bool = True

    @property
    def folder(self) -> Path:
        """The directory of its configuration."""
        return self.root / ".eca"

    def read(self) -> None:
        """Read everything the root configures."""
        self.add_agents(self.folder / FOLDER)
        self.add_file(self.folder / "config.json")
        extra, self._takes_extra = self._extra_configs, False
        for index, text in enumerate(extra):
            self._add_extra(index, text)

    def _merge(self, name: str, value: object, place: Place) -> None:
        """Merge what counts of a source; the rest waits or is refused."""
        assert isinstance(value, Mapping)
        self.values[name] = value
        folder = place.surroundings.folder or self.folder
        waiting: list[tuple[KeyPath, Any]]
        if folder == self.folder / FOLDER and not self._is_inside_accepted:  # not `extraConfigs`
            waiting = [((f"{FOLDER}/{Path(name).name}",), value)]
        else:
            result = cut(value, self.known, self.root, self.home)
            self._apply(name, result, place)
            waiting = [(each.path, each.value) for each in result.waiting]
        tree: dict[str, Any] = {}
        for path, each in waiting:
            in_force = self._in_force(self._item(name, folder, path, each))
            if in_force is None:
                continue
            if str(in_force.path[0]).startswith(f"{FOLDER}/"):
                tree = deep_merge(tree, in_force.value)
            else:
                put(tree, in_force.path, in_force.value)
        self.merged = deep_merge(self.merged, CONFIG.read(tree, place))
        mistakes = self._as_written(folder)
        CONFIG.read(value, mistakes)
        for where, fault in mistakes.faults.items():
            place.faults.setdefault(where, fault)

    def _apply(self, name: str, result: Cut, place: Place) -> None:
        """Let what needs no trust count, and name what never counts."""
        folder = place.surroundings.folder or self.folder
        layer = CONFIG.read(result.restrictions, self._as_written(folder))
        self.restriction = deep_merge(self.restriction, layer)
        for addition in result.additions:
            self._add_to(addition, place)
        for path, reason in result.refused:
            self.problems.append(
                Problem(source=name, key=dotted(path), message=reason, level="warning")
            )
        if self._takes_extra:
            self._extra_configs += result.extra_configs

    def _add_to(self, addition: Addition, place: Place) -> None:
        where = attrs.evolve(place, path=addition.path)
        try:
            value = addition.setting.reader.read(addition.value, where)
        except Refused as fault:
            place.faults[fault.path] = fault.message
            return
        if addition.setting.workspace is not Workspace.SMALLER:
            before = value_at(self.merged, addition.names)
            before = _DEFAULTS.get(addition.names, []) if before is None else before
            value = [*before, *(each for each in value if each not in before)]
        layer: dict[str, Any] = {}
        put(layer, addition.names, value)
        self.merged = deep_merge(self.merged, layer)

    def _item(self, name: str, folder: Path, path: KeyPath, value: Any) -> TrustItem:
        files = self._files_of(path, value, folder)
        uses = uses_of(path, value, root=self.root, folder=folder, home=self.home)
        if not is_inside(Path(name), self.root):
            uses = (name, *uses)
        return TrustItem(
            root=self.root,
            source=name,
            path=path,
            value=value,
            uses=uses,
            digest=digest_of(path, value, files),
            runs_files=bool(files),
        )

    def _files_of(self, path: KeyPath, value: Any, folder: Path) -> dict[str, bytes | None]:
        """Return the content of the files that a hook runs, or that a `${file:}` stands for."""
        actions = value.get("actions") if path[0] == "hooks" and isinstance(value, Mapping) else ()
        files: dict[str, bytes | None] = {}
        for name in files_in(value):
            where = folder / expand_home(name, self.home)
            if is_inside(where, self.root):  # one of the user's is named, and may change
                files[name] = self._content(where)
        for action in actions if isinstance(actions, list) else ():
            file = action.get("file") if isinstance(action, Mapping) else None
            if isinstance(file, str) and file.strip():
                script = folder / expand_home(file.strip(), self.home)
                files[file] = self._content(script) if is_inside(script, self.root) else None
        return files

    def _content(self, path: Path) -> bytes | None:
        self.note_file(path)
        try:
            return read_bytes(path)
        except Unreadable:
            return None

    def _in_force(self, item: TrustItem) -> TrustItem | None:
        """Return what counts in the place of a setting, if anything does; note what waits."""
        place = (item.source, item.path)
        decisions = self.decisions
        all_of_it = decisions.accepts_all and not item.uses
        if self._is_inside_accepted or all_of_it or item.digest in decisions.accepted:
            self.accepted[place] = item
            return item
        is_refused = item.digest in decisions.refused
        self.withheld.append(attrs.evolve(item, is_refused=is_refused))
        before = decisions.before.get(place) if decisions.is_trusted else None
        if before is None or before.runs_files:
            return None
        self.accepted[place] = before
        return before

    def _add_extra(self, index: int, text: str) -> None:
        """Add a file of `extraConfigs`, if it is accepted with everything in it.

        A file outside the root is not even read before that; then its settings wait one by one.
        """
        path = self.folder / expand_home(text, self.home)
        self.known = self.known.with_others(self.merged)
        if not is_inside(path, self.root):
            where: KeyPath = (f"extraConfigs[{index}]",)
            item = self._extra_item(where, text, [str(path)], {})
            if self._in_force(item) is not None:
                self.add_file(path, required=True)
            return
        self.note_file(path)
        try:
            content = read_text(path)
            value = parse(content)
        except (Unreadable, BadText) as fault:
            self._broken(str(path), fault.message, None, self._place(path.parent))
            return
        waiting: list[TrustItem] = []
        if isinstance(value, Mapping):
            parts = cut(value, self.known, self.root, self.home).waiting
            waiting = [self._item(str(path), path.parent, each.path, each.value) for each in parts]
        uses = dict.fromkeys(use for each in waiting for use in each.uses)
        files = {text: content.encode(), **{each.digest: None for each in waiting}}
        item = self._extra_item((f"extraConfigs[{index}]",), text, uses, files, waiting)
        if self._in_force(item) is not None:
            self._is_inside_accepted = True
            self.add_text(str(path), content, folder=path.parent)
            self._is_inside_accepted = False

    def _extra_item(
        self,
        where: KeyPath,
        text: str,
        uses: Iterable[str],
        files: Mapping[str, bytes | None],
        waiting: Iterable[TrustItem] = (),
    ) -> TrustItem:
        return TrustItem(
            root=self.root,
            source=str(self.folder / "config.json"),
            path=where,
            value=text,
            uses=tuple(uses),
            digest=digest_of(where, text, files),
            runs_files=True,
            more=tuple(f"{text}: {line}" for each in waiting for line in each.lines),
        )

    def _as_written(self, folder: Path) -> Place:
        return Place(AsWritten(environ={}, home=self.home, folder=folder))
