"""The sources of one opened folder: `.eca/config.json`, `.eca/agents/*.md`, its `extraConfigs`.

The rules it keeps: of a folder that is not trusted nothing counts that could loosen anything
(`workspace_layer`); a setting that the user has accepted counts as it was accepted. A changed one
waits for a new answer, and until then the accepted one stays in force.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs

from eca_server.config.agent_files import FOLDER
from eca_server.config.files import MAX_BYTES, Unreadable, as_text, expand_home, read_real
from eca_server.config.folder_files import FolderFiles, FolderSurroundings
from eca_server.config.interpolation import AsWritten, Unresolved, has_reference, references_in
from eca_server.config.jsonc import BadText, parse
from eca_server.config.problems import Problem, dotted
from eca_server.config.reading import KeyPath, Place, Refused, Workspace, deep_merge
from eca_server.config.sources import CONFIG, Sources
from eca_server.config.trust_items import TrustItem, digest_of, files_in, hook_files, uses_of
from eca_server.config.workspace_layer import Addition, Cut, Known, cut, put, value_at

__all__ = ["Accepted", "Decisions", "FolderSources"]

Accepted: TypeAlias = Mapping[tuple[str, KeyPath], TrustItem]
"""The accepted settings that are in force, by their source and their place in it."""

_DEFAULTS: Final[Mapping[tuple[str, ...], list[Any]]] = {("ignore_files",): [{"type": "gitignore"}]}
"""The plain values of lists to which a folder adds, where the user has configured none."""

_LARGEST: Final = 2**20
"""Bytes of one source."""
_MOST_MARKS: Final = 10_000
"""Commas and opening brackets of all sources, which are no fewer than their values."""
_MOST_SETTINGS: Final = 500
"""Settings that the user may be asked about."""
_MOST_EXTRA: Final = 50
"""Files of `extraConfigs`."""
_MOST_REFUSED: Final = 20
"""Settings of one source of which it is said that they never count."""


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
    _named_files: FolderFiles = attrs.field(init=False)
    _extra_configs: list[str] = attrs.field(factory=list)
    _marks: int = _MOST_MARKS
    _settings: int = _MOST_SETTINGS
    _is_inside_accepted: bool = False
    _takes_extra: bool = True

    @_named_files.default
    def _make_named_files(self) -> FolderFiles:
        return FolderFiles(root=self.root, note=self.note_file)

    @property
    def folder(self) -> Path:
        """The directory of its configuration."""
        return self.root / ".eca"

    def read(self) -> None:
        """Read everything the root configures."""
        self.add_agents(self.folder / FOLDER)
        self.add_file(self.folder / "config.json")
        extra, self._takes_extra = self._extra_configs, False
        for index, text in enumerate(extra[:_MOST_EXTRA]):
            self._add_extra(index, text)

    def add_agents(self, folder: Path) -> None:
        """Add the agents in a directory, unless it leads out of the root and is not accepted."""
        if self._may_open(folder):
            super().add_agents(folder)

    def _read(self, path: Path, *, most: int = MAX_BYTES) -> str:
        """Return the text of a source; one that leads out of the root is not read before trust."""
        if not self._may_open(path):
            target = self._named_files.real_path(path)
            if target is None or not target.exists():
                raise Unreadable("expected a file, there is none", absent=True)
            raise Unreadable(
                f"leads out of the folder to {target}, which is not read until you accept it"
            )
        real = self._named_files.real_path(path) or path
        text = as_text(read_real(real, most=min(most, _LARGEST)))
        if most > _LARGEST:  # no agent's, which have a budget of their own
            self._marks -= sum(map(text.count, ",[{"))
            if self._marks < 0:
                raise Unreadable(f"expected at most {_MOST_MARKS:,} values of a folder, got more")
        return text

    def _may_open(self, path: Path) -> bool:
        """Whether a file or directory of the configuration is the folder's own, or accepted."""
        if self._named_files.is_opened(path):
            return True
        self.note_file(path)
        target = self._named_files.real_path(path)
        if target is None or not target.exists():
            return False  # there is nothing to ask about
        where: KeyPath = (f"link:{os.path.relpath(path, self.folder)}",)
        item = self._link_item(where, path, target)
        if self._in_force(item) is None:
            return False
        self._named_files.opened.add(target)
        return True

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
        waiting = self._first(name, waiting)
        tree: dict[str, Any] = {}
        for path, each in waiting:
            make = partial(self._item, name, folder, path)
            in_force = self._in_force(make(each), make)
            if in_force is None:
                continue
            if str(in_force.path[0]).startswith(f"{FOLDER}/"):
                tree = deep_merge(tree, in_force.value)
            else:
                put(tree, in_force.path, in_force.value)
        self.merged = deep_merge(self.merged, CONFIG.read(tree, self._accepting(place)))
        mistakes = self._as_written(folder)
        CONFIG.read(value, mistakes)
        for where, fault in mistakes.faults.items():
            place.faults.setdefault(where, fault)

    def _first(self, name: str, waiting: list[tuple[KeyPath, Any]]) -> list[tuple[KeyPath, Any]]:
        """Return as many settings as the user may be asked about; the rest never counts."""
        counted = waiting[: self._settings]
        if len(counted) < len(waiting):
            rest = len(waiting) - len(counted)
            message = f"{rest:,} settings do not count: a folder may have {_MOST_SETTINGS:,}"
            self.problems.append(Problem(source=name, message=message))
        self._settings -= len(counted)
        return counted

    def _apply(self, name: str, result: Cut, place: Place) -> None:
        """Let what needs no trust count, and name what never counts."""
        folder = place.surroundings.folder or self.folder
        layer = CONFIG.read(result.restrictions, self._as_written(folder))
        self.restriction = deep_merge(self.restriction, layer)
        for addition in result.additions:
            self._add_to(addition, place)
        for path, reason in result.refused[:_MOST_REFUSED]:
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
        named = self._named_files
        texts = [each for each in files_in(value) if named.is_inside(self._path(each, folder))]
        uses = uses_of(path, value, self._outside(folder))
        if not named.is_inside(Path(name)):
            uses = (named.shown(Path(name), name), *uses)
        return TrustItem(
            root=self.root,
            source=name,
            path=path,
            value=value,
            uses=uses,
            texts=tuple(dict.fromkeys(texts)),
            digest=digest_of(path, value, self._digests(path, value, folder), uses),
        )

    def _digests(self, path: KeyPath, value: Any, folder: Path) -> dict[str, str | None]:
        """Return digests of the files that a hook runs, or that a `${file:}` stands for.

        One of the user's is named, and may change.
        """
        digests: dict[str, str | None] = {}
        for name in files_in(value):
            digests[name] = self._named_files.digest(self._path(name, folder))
        for file in hook_files(path, value):
            with suppress(Unresolved):  # it is not known where it leads, so it is not run
                script = self._resolved(file, folder, folder)
                own = self._named_files.digest(script)
                digests[file] = own or str(self._named_files.real_path(script))
        return digests

    def _resolved(self, text: str, folder: Path, base: Path) -> Path:
        """Return a path, its references resolved but for the user's files.

        Raises:
            Unresolved: it depends on such a file, or on a variable that is not set.
        """
        if any(not self._named_files.is_inside(self._path(e, folder)) for e in files_in(text)):
            raise Unresolved("a file of the user's")
        resolved = self._place(folder).surroundings.resolve(text)
        return self._path(resolved.strip(), base)

    def _path(self, text: str, folder: Path) -> Path:
        return folder / expand_home(text, self.home)

    def _outside(self, folder: Path) -> Callable[[str, bool], str | None]:
        """Return the function that `uses_of` asks, for a source in a directory."""

        def name_of(text: str, of_root: bool) -> str | None:
            base = self.root if of_root else folder
            if any(kind != "file" for kind, _ in references_in(text)):
                return None  # what it depends on is named
            try:
                path = self._resolved(text, folder, base)
            except Unresolved:
                return None  # likewise
            inside = self._named_files.is_inside(path)
            name = str(path) if has_reference(text) else text
            return None if inside else self._named_files.shown(path, name)

        return name_of

    def _place(
        self, folder: Path | None = None, *, kept: Callable[[str], str | None] | None = None
    ) -> Place:
        return Place(
            FolderSurroundings(
                environ=self.environ,
                home=self.home,
                folder=folder,
                on_file=self.note_file,
                kept=kept,
                files=self._named_files,
            )
        )

    def _accepting(self, place: Place) -> Place:
        """Return the place for what the user has accepted: it may run commands."""
        surroundings = attrs.evolve(place.surroundings, commands=self.commands)
        return attrs.evolve(place, surroundings=surroundings)

    def _in_force(
        self, item: TrustItem, again: Callable[[Any], TrustItem] | None = None
    ) -> TrustItem | None:
        """Return what counts in the place of a setting, if anything does; note what waits.

        Args:
            item: the setting.
            again: makes the setting of an earlier value: it stays in force if what it names is
                unchanged.
        """
        place = (item.source, item.path)
        decisions = self.decisions
        all_of_it = decisions.accepts_all and not item.uses
        if self._is_inside_accepted or all_of_it or item.digest in decisions.accepted:
            self.accepted[place] = item
            return item
        is_refused = item.digest in decisions.refused
        self.withheld.append(attrs.evolve(item, is_refused=is_refused))
        before = decisions.before.get(place) if decisions.is_trusted else None
        if before is None or again is None or again(before.value).digest != before.digest:
            return None
        self.accepted[place] = before
        return before

    def _add_extra(self, index: int, text: str) -> None:
        """Add a file of `extraConfigs`, if it is accepted with everything in it.

        A file outside the root is not even read before that; then its settings wait one by one.
        """
        path = self._path(text, self.folder)
        self.known = self.known.with_others(self.merged)
        if not self._named_files.is_inside(path):
            where: KeyPath = (f"extraConfigs[{index}]",)
            uses = [self._named_files.shown(path, str(path))]
            item = self._extra_item(where, text, uses, {})
            if self._in_force(item) is not None:
                self._named_files.opened.add(self._named_files.real_path(path) or path)
                self.add_file(path, required=True)
            return
        self.note_file(path)
        try:
            content = self._read(path)
            value = parse(content)
        except (Unreadable, BadText) as fault:
            self._broken(str(path), fault.message, None, self._place(path.parent))
            return
        waiting: list[TrustItem] = []
        if isinstance(value, Mapping):
            parts = cut(value, self.known, self.root, self.home).waiting[: self._settings]
            waiting = [self._item(str(path), path.parent, each.path, each.value) for each in parts]
        taken = dict.fromkeys(use for each in waiting for use in each.uses)
        files = {text: content, **{each.digest: None for each in waiting}}
        item = self._extra_item((f"extraConfigs[{index}]",), text, taken, files, waiting)
        if self._in_force(item) is not None:
            self._is_inside_accepted = True
            self.add_text(str(path), content, folder=path.parent)
            self._is_inside_accepted = False

    def _extra_item(
        self,
        where: KeyPath,
        text: str,
        uses: Iterable[str],
        files: Mapping[str, str | None],
        waiting: Iterable[TrustItem] = (),
    ) -> TrustItem:
        uses = tuple(uses)
        return TrustItem(
            root=self.root,
            source=str(self.folder / "config.json"),
            path=where,
            value=text,
            uses=uses,
            digest=digest_of(where, text, files, uses),
            more=tuple(f"{text}: {line}" for each in waiting for line in each.lines),
        )

    def _link_item(self, where: KeyPath, path: Path, target: Path) -> TrustItem:
        uses = (self._named_files.shown(path, str(path)),)
        return TrustItem(
            root=self.root,
            source=str(path),
            path=where,
            value=str(target),
            uses=uses,
            digest=digest_of(where, str(target), {}, uses),
        )

    def _as_written(self, folder: Path) -> Place:
        return Place(AsWritten(environ={}, home=self.home, folder=folder))
