"""The sources of one workspace root: `.eca/config.json`, `.eca/agents/*.md`, its `extraConfigs`.

Invariants: without the user's trust, a setting that could loosen a permission has no effect
(`workspace_layer`). An accepted setting applies as it was accepted. A changed setting waits for a
new answer; until then the accepted value stays in force.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import attrs

from eca_server.config.agent_files import FOLDER
from eca_server.config.files import MAX_BYTES, Unreadable, as_text, expand_home, read_real, stamp_of
from eca_server.config.interpolation import (
    NullResolver,
    UnresolvedReference,
    has_reference,
    references_in,
)
from eca_server.config.jsonc import InvalidText, parse
from eca_server.config.problems import Problem, Source, dotted
from eca_server.config.reading import (
    InvalidValue,
    KeyPath,
    Place,
    Workspace,
    deep_merge,
    settings_of,
    value_at,
)
from eca_server.config.settings import Config
from eca_server.config.sources import CONFIG, Sources
from eca_server.config.trust_items import (
    TrustItem,
    digest_of,
    files_in,
    hook_files,
    inserted_text,
    uses_of,
)
from eca_server.config.trust_store import RootTrust
from eca_server.config.workspace_files import WorkspaceFiles, WorkspaceResolver
from eca_server.config.workspace_layer import (
    Addition,
    ClassifiedSettings,
    UserSettings,
    classify,
    put,
)

AcceptedItems: TypeAlias = Mapping[tuple[str, KeyPath], TrustItem]
"""The accepted settings that are in force, by their source and their path in it."""

_DEFAULTS: Final[Mapping[tuple[str, ...], list[Any]]] = {("ignore_files",): [{"type": "gitignore"}]}
"""Defaults of lists to which a folder adds, for a user who has configured none."""

_LARGEST: Final = 2**20
"""Limit of one source, in bytes."""
_MOST_MARKS: Final = 10_000
"""Limit of commas and opening brackets in all sources: an upper bound of their values."""
_MOST_SETTINGS: Final = 500
"""Limit of settings that the user may be asked about."""
_MOST_EXTRA: Final = 50
"""Limit of files in `extraConfigs`."""
_MOST_FORBIDDEN: Final = 20
"""Limit of warnings about forbidden settings of one source."""


@attrs.define(kw_only=True, eq=False, repr=False)
class WorkspaceSources(Sources):
    """The sources of a root, merged over those of the user.

    Attributes:
        trust: the user's decisions about the root.
        accepts_all: for this session, accept every setting that uses no variable or file of the
            user's.
        accepted_before: the accepted settings that were in force before this load.
        extra_configs: paths of further files: the user's relative ones, then the root's own.
        restriction: the root's restrictions, read and merged.
        withheld: settings that wait for an answer.
        accepted: accepted settings that are in force.
    """

    root: Path
    user: UserSettings
    trust: RootTrust
    accepts_all: bool
    accepted_before: AcceptedItems
    restriction: dict[str, Any] = attrs.field(factory=dict)
    withheld: list[TrustItem] = attrs.field(factory=list)
    accepted: dict[tuple[str, KeyPath], TrustItem] = attrs.field(factory=dict)
    _named_files: WorkspaceFiles = attrs.field(init=False)
    _extra_configs: list[str] = attrs.field(factory=list)
    _marks: int = _MOST_MARKS
    _settings: int = _MOST_SETTINGS
    _is_inside_accepted: bool = False
    _takes_extra: bool = True

    @_named_files.default
    def _make_named_files(self) -> WorkspaceFiles:
        return WorkspaceFiles(root=self.root, note=self.note_file)

    @property
    def directory(self) -> Path:
        """The directory of the root's configuration."""
        return self.root / ".eca"

    def read(self) -> None:
        """Read every source of the root."""
        self.add_agents(self.directory / FOLDER)
        self.add_file(self.directory / "config.json")
        extra, self._takes_extra = self._extra_configs, False
        for index, text in enumerate(extra[:_MOST_EXTRA]):
            self._add_extra(index, text)

    def add_agents(self, directory: Path) -> None:
        """Add the agents in a directory; one outside the root must be accepted first."""
        if self._may_open(directory):
            super().add_agents(directory)

    def _read(self, path: Path, *, most: int = MAX_BYTES) -> str:
        """Return the text of a source; one outside the root must be accepted first."""
        if not self._may_open(path):
            target = self._named_files.real_path(path)
            if target is None or stamp_of(target) is None:
                raise Unreadable("the file does not exist", absent=True)
            raise Unreadable(
                f"leads out of the folder to {target}, which is not read until you accept it"
            )
        real = self._named_files.real_path(path) or path
        text = as_text(read_real(real, most=min(most, _LARGEST)))
        if most > _LARGEST:  # agents' files have a budget of their own
            self._marks -= sum(map(text.count, ",[{"))
            if self._marks < 0:
                raise Unreadable(f"expected at most {_MOST_MARKS:,} values of a folder, got more")
        return text

    def _may_open(self, path: Path) -> bool:
        """Return whether a file or directory of the configuration is in the root, or accepted."""
        if self._named_files.is_opened(path):
            return True
        self.note_file(path)
        target = self._named_files.real_path(path)
        if target is None or stamp_of(target) is None:
            return False
        where: KeyPath = (f"link:{os.path.relpath(path, self.directory)}",)
        uses = [self._named_files.shown(path, str(path))]
        item = self._extra_item(where, str(target), uses, {}, source=path)
        if self._in_force(item) is None:
            return False
        self._named_files.opened.add(target)
        return True

    def _merge(self, name: str, value: object, place: Place) -> None:
        """Merge the settings of a source that apply; the others wait or are rejected."""
        assert isinstance(value, Mapping)
        self.values[name] = value
        directory = place.resolver.directory or self.directory
        waiting: list[tuple[KeyPath, Any]]
        if (
            directory == self.directory / FOLDER and not self._is_inside_accepted
        ):  # not `extraConfigs`
            waiting = [((f"{FOLDER}/{Path(name).name}",), value)]
        else:
            result = classify(value, self.user, self.root, self.home)
            self._apply(name, result, place)
            waiting = result.waiting
        waiting = self._first(name, waiting)
        tree: dict[str, Any] = {}
        for path, each in waiting:
            make = partial(self._item, name, directory, path)
            in_force = self._in_force(make(each), make)
            if in_force is None:
                continue
            if str(in_force.path[0]).startswith(f"{FOLDER}/"):
                tree = deep_merge(tree, in_force.value)
            else:
                put(tree, in_force.path, in_force.value)
        layer = CONFIG.read(tree, self._accepting(place))
        for setting in settings_of(Config):  # paths outside are added, as are those inside
            if setting.workspace is Workspace.INSIDE and setting.name in layer:
                layer[setting.name] = self._added((setting.name,), layer[setting.name])
        self.merged = deep_merge(self.merged, layer)
        as_written_place = self._unresolved_place(directory)
        CONFIG.read(value, as_written_place)
        for where, error in as_written_place.errors.items():
            place.errors.setdefault(where, error)

    def _first(self, name: str, waiting: list[tuple[KeyPath, Any]]) -> list[tuple[KeyPath, Any]]:
        """Return as many settings as the user may be asked about, and report the ignored rest."""
        counted = waiting[: self._settings]
        if len(counted) < len(waiting):
            rest = len(waiting) - len(counted)
            message = f"{rest:,} settings do not count: a folder may have {_MOST_SETTINGS:,}"
            self.problems.append(Problem(source=name, message=message))
        self._settings -= len(counted)
        return counted

    def _apply(self, name: str, result: ClassifiedSettings, place: Place) -> None:
        """Apply the settings that need no trust, and warn of the forbidden ones."""
        directory = place.resolver.directory or self.directory
        layer = CONFIG.read(result.restrictions, self._unresolved_place(directory))
        self.restriction = deep_merge(self.restriction, layer)
        for addition in result.additions:
            self._add_to(addition, place)
        for path, reason in result.forbidden[:_MOST_FORBIDDEN]:
            self.problems.append(
                Problem(source=name, key=dotted(path), message=reason, level="warning")
            )
        if self._takes_extra:
            self._extra_configs += result.extra_configs

    def _add_to(self, addition: Addition, place: Place) -> None:
        where = attrs.evolve(place, path=addition.path)
        try:
            value = addition.setting.reader.read(addition.value, where)
        except InvalidValue as error:
            place.errors[error.path] = error.message
            return
        if addition.setting.workspace is Workspace.INSIDE:  # without a path that left meanwhile
            value = [each for each in value if each["path"].is_inside]
        if addition.setting.workspace is not Workspace.SMALLER:
            value = self._added(addition.names, value)
        layer: dict[str, Any] = {}
        put(layer, addition.names, value)
        self.merged = deep_merge(self.merged, layer)

    def _added(self, names: tuple[str, ...], items: list[Any]) -> list[Any]:
        """Return the items of a list so far, and these."""
        before = value_at(self.merged, names)
        before = _DEFAULTS.get(names, []) if before is None else before
        return [*before, *(each for each in items if each not in before)]

    def _item(
        self,
        name: str,
        directory: Path,
        path: KeyPath,
        value: Any,
        accepted: Mapping[Path, bytes] = MappingProxyType({}),
    ) -> TrustItem:
        """Return the item of a setting; `accepted`: the contents of hook files to run instead."""
        named = self._named_files
        files = {each: self._path(each, directory) for each in files_in(value)}
        uses = uses_of(path, value, self._outside(directory, accepted))
        scripts = self._scripts(path, value, directory, accepted)
        if not named.is_inside(Path(name)):
            uses = (named.shown(Path(name), name), *uses)
        return TrustItem(
            root=self.root,
            source=name,
            path=path,
            value=value,
            uses=uses,
            texts=tuple(
                inserted_text(each, named.content(path))
                for each, path in files.items()
                if named.is_inside(path)
            ),
            scripts={script: each for script, each in scripts.values() if each is not None},
            digest=digest_of(
                path,
                value,
                # A script outside the root has its real path instead: its content may change.
                {each: _digest(named.content(file)) for each, file in files.items()}
                | {
                    each: _digest(content) or str(named.real_path(script))
                    for each, (script, content) in scripts.items()
                },
                uses,
            ),
        )

    def _scripts(
        self, path: KeyPath, value: Any, directory: Path, accepted: Mapping[Path, bytes]
    ) -> dict[str, tuple[Path, bytes | None]]:
        """Return the path and the content of each file that a hook runs, by its name as written."""
        scripts: dict[str, tuple[Path, bytes | None]] = {}
        for file in hook_files(path, value):
            with suppress(UnresolvedReference):  # a hook with an unknown path is not run
                script = self._resolved(file, directory, self.root)
                scripts[file] = script, accepted.get(script) or self._named_files.content(script)
        return scripts

    def _resolved(self, text: str, directory: Path, base: Path) -> Path:
        """Return the path that a text names, its references resolved.

        Raises:
            UnresolvedReference: the text refers to a file of the user's, or to an unset variable.
        """
        if any(not self._named_files.is_inside(self._path(e, directory)) for e in files_in(text)):
            raise UnresolvedReference("a file of the user's")
        resolved = self._place(directory).resolver.resolve(text)
        return self._path(resolved.strip(), base)

    def _path(self, text: str, directory: Path) -> Path:
        return directory / expand_home(text, self.home)

    def _outside(
        self, directory: Path, accepted: Mapping[Path, bytes]
    ) -> Callable[[str, bool], str | None]:
        """Return the `outside` callback of `uses_of` for a source in a directory."""

        def name_of(text: str, of_root: bool) -> str | None:
            base = self.root if of_root else directory
            if any(kind != "file" for kind, _ in references_in(text)):
                return None  # `uses_of` names the references themselves
            try:
                path = self._resolved(text, directory, base)
            except UnresolvedReference:
                return None
            inside = path in accepted or self._named_files.is_inside(path)
            name = str(path) if has_reference(text) else text
            return None if inside else self._named_files.shown(path, name)

        return name_of

    def _resolver(self, **options: Any) -> WorkspaceResolver:
        return WorkspaceResolver(files=self._named_files, **options)

    def _accepting(self, place: Place) -> Place:
        """Return the place for accepted settings, which may run commands."""
        resolver = attrs.evolve(place.resolver, commands=self.commands)
        return attrs.evolve(place, resolver=resolver)

    def _in_force(
        self, item: TrustItem, again: Callable[..., TrustItem] | None = None
    ) -> TrustItem | None:
        """Return the setting in force at a setting's place, or None; record a waiting one.

        `again`: makes the item of an earlier value, which stays in force while its digest is
        unchanged; the files of a hook run as they were accepted.
        """
        place = (item.source, item.path)
        trust = self.trust
        is_accepted_unseen = self.accepts_all and not item.uses
        if self._is_inside_accepted or is_accepted_unseen or item.digest in trust.accepted:
            self.accepted[place] = item
            return item
        is_refused = item.digest in trust.refused
        is_trusted = trust.is_trusted or self.accepts_all
        previous = self.accepted_before.get(place) if is_trusted else None
        if previous is not None and (
            again is None or again(previous.value, previous.scripts).digest != previous.digest
        ):
            previous = None
        is_changed = previous is not None
        self.withheld.append(attrs.evolve(item, is_refused=is_refused, is_changed=is_changed))
        if previous is None:
            return None
        self._named_files.stored.update(previous.scripts)
        self.accepted[place] = previous
        return previous

    def _add_extra(self, index: int, text: str) -> None:
        """Add a file of `extraConfigs`, if it is accepted with everything in it.

        A file outside the root is read once it is accepted; then its settings wait one by one.
        """
        path = self._path(text, self.root)
        self.user = self.user.with_others(self.merged)
        if not self._named_files.is_inside(path):
            where: KeyPath = (f"extraConfigs[{index}]",)
            outside = [self._named_files.shown(path, str(path))]
            item = self._extra_item(where, text, outside, {})
            if self._in_force(item) is not None:
                self._named_files.opened.add(self._named_files.real_path(path) or path)
                self.add_file(path)
            return
        self.note_file(path)
        try:
            content = self._read(path)
            value = parse(content)
        except (Unreadable, InvalidText) as error:
            if isinstance(error, Unreadable) and error.absent:
                self.sources.append(Source(name=str(path), state="absent"))
            else:
                self._add_broken(str(path), error.message, None, self._place(path.parent))
            return
        parts: list[tuple[KeyPath, Any]] = []
        if isinstance(value, Mapping):
            parts = classify(value, self.user, self.root, self.home).waiting[: self._settings]

        def make(name: str, accepted: Mapping[Path, bytes] = MappingProxyType({})) -> TrustItem:
            make_part = partial(self._item, str(path), path.parent, accepted=accepted)
            waiting = [make_part(*each) for each in parts]
            uses = dict.fromkeys(use for each in waiting for use in each.uses)
            files = {name: content, **{each.digest: None for each in waiting}}
            return self._extra_item((f"extraConfigs[{index}]",), name, uses, files, waiting)

        if self._in_force(make(text), make) is not None:
            self._is_inside_accepted = True
            self.add_text(str(path), content, directory=path.parent)
            self._is_inside_accepted = False

    def _extra_item(
        self,
        where: KeyPath,
        text: str,
        uses: Iterable[str],
        files: Mapping[str, str | None],
        waiting: Iterable[TrustItem] = (),
        *,
        source: Path | None = None,
    ) -> TrustItem:
        uses = tuple(uses)
        return TrustItem(
            root=self.root,
            source=str(source or self.directory / "config.json"),
            path=where,
            value=text,
            uses=uses,
            scripts={path: each for item in waiting for path, each in item.scripts.items()},
            digest=digest_of(where, text, files, uses),
            more=tuple(f"{text}: {line}" for each in waiting for line in each.lines),
        )

    def _unresolved_place(self, directory: Path) -> Place:
        return Place(NullResolver(environ={}, home=self.home, directory=directory))


def _digest(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()
