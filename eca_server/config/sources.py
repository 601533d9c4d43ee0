"""The sources of the configuration, read and merged one after the other.

A mistake in a source never raises: it becomes a `Problem`, and the rest of the source applies. A
file that became unreadable keeps its previous values.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import attrs

from eca_server.config.agent_files import LARGEST, MOST, Budget, InvalidAgentFile, parse_agent_file
from eca_server.config.data_file import DataFileError
from eca_server.config.files import MAX_BYTES, Stamp, Unreadable, read_text, stamp_of
from eca_server.config.inheritance import inherit_path, resolve_inheritance
from eca_server.config.interpolation import ReferenceResolver
from eca_server.config.jsonc import InvalidText, Position, Positions, duplicate_keys, parse
from eca_server.config.problems import Problem, Source, dotted, kind_of
from eca_server.config.reading import FLAG, KeyPath, Place, deep_merge, record
from eca_server.config.saved_settings import SavedSettings
from eca_server.config.settings import Config
from eca_server.config.unknown import unknown_keys, without_effect

OPTIONS = "initializationOptions"
"""The name of the source that the client sends."""

# Each problem becomes a message in the editor.
_MOST_PROBLEMS = 20
CONFIG = record(Config)
"""The reader of the whole configuration."""


@attrs.define(kw_only=True, eq=False, repr=False)
class Sources:
    """The sources read so far, the earliest first.

    Attributes:
        previous: the JSON of each source in the previous load, by its name.
        commands: returns the output of a `${cmd:...}`; None: commands are not run.
        files: the stamp of each file that was looked for.
        budget: the YAML that may still be read.
    """

    environ: Mapping[str, str]
    home: Path
    previous: Mapping[str, object]
    commands: Callable[[str], str] | None = None
    merged: dict[str, Any] = attrs.field(factory=dict)
    problems: list[Problem] = attrs.field(factory=list)
    sources: list[Source] = attrs.field(factory=list)
    files: dict[Path, Stamp] = attrs.field(factory=dict)
    values: dict[str, object] = attrs.field(factory=dict)
    positions: dict[str, Positions] = attrs.field(factory=dict)
    budget: Budget = attrs.field(factory=Budget)

    def config(self) -> Config:
        """Return the configuration of the sources so far."""
        behaviors, _ = resolve_inheritance(self.merged.get("behaviors") or {})
        config = CONFIG.build({**self.merged, "behaviors": behaviors})
        assert isinstance(config, Config)
        return config

    def report_missing_bases(self) -> None:
        """Report each agent whose base is missing or circular, at its `inherit` key."""
        _, errors = resolve_inheritance(self.merged.get("behaviors") or {})
        for agent, message in [*errors.items()][:_MOST_PROBLEMS]:
            for name, value in reversed(self.values.items()):
                path = inherit_path(value, agent)
                if path is not None:
                    self._add_problem(name, message, path)
                    break

    def add_options(self, options: object) -> bool:
        """Add the client's options; return whether they demand to be the only source."""
        if not options:
            self.sources.append(Source(name=OPTIONS, state="absent"))
            return False
        place = self._place()
        self._add(OPTIONS, options, place)
        pure_options: dict[str, Any] = {}
        if isinstance(options, Mapping):
            FLAG.attempt(
                options.get("pureConfig"), place.at("pureConfig"), pure_options, "pureConfig"
            )
        self._report(OPTIONS, place.errors)
        return pure_options.get("pureConfig") is True

    def add_file(self, path: Path, *, required: bool = False) -> None:
        """Add a file; a missing one is a problem only if it is required."""
        self.note_file(path)
        directory = path.absolute().parent
        try:
            text = self._read(path)
        except Unreadable as error:
            if error.absent and not required:
                self.sources.append(Source(name=str(path), state="absent"))
            else:
                is_link = error.absent and os.path.islink(path)  # noqa: PTH114 - it raises nothing
                message = "the link leads to no file" if is_link else error.message
                position = Position(error.line, 1) if error.line else None
                self._add_broken(str(path), message, position, self._place(directory))
            return
        self.add_text(str(path), text, directory=directory)

    def add_agents(self, directory: Path) -> None:
        """Add the agents in a directory's Markdown files; report and skip an invalid file."""
        self.note_file(directory)
        if self.files[directory] is None:
            return
        for path in sorted(directory.glob("*.md"))[:MOST]:
            self.note_file(path)
            place = self._place(directory)
            try:
                text = self._read(path, most=LARGEST)
                value, unknown = parse_agent_file(path, text, self.budget)
            except (Unreadable, InvalidAgentFile) as error:
                self._add_broken(str(path), str(error), None, place)
                continue
            self._add(str(path), value, place)
            self._report(str(path), place.errors)
            for message in unknown[:_MOST_PROBLEMS]:
                self._add_problem(str(path), message, level="warning")
            self._warn_of_upstream_keys(str(path), value)

    def add_text(self, name: str, text: str, *, directory: Path | None) -> None:
        """Add a source by its text; a blank variable counts as absent."""
        if directory is None and not text.strip():
            self.sources.append(Source(name=name, state="absent"))
            return
        place = self._place(directory)
        try:
            value = parse(text)
        except InvalidText as error:
            hint = (
                "" if directory else " (it holds the configuration itself, not the path of a file)"
            )
            self._add_broken(name, f"{error.message}{hint}", error.position, place)
            return
        self._add(name, value, place)
        self.positions[name] = Positions(text)
        self._report(name, place.errors)
        for path in islice(duplicate_keys(text), _MOST_PROBLEMS):
            message = "the key appears more than once; only the last one applies"
            self._add_problem(name, message, path, level="warning")
        self._warn(name, value)
        self._warn_of_upstream_keys(name, value)

    def add_saved_settings(
        self, roots: Iterable[Path], stored_secret: Callable[[str], str | None]
    ) -> None:
        """Add the settings saved from the editor."""
        saved = SavedSettings(self.environ, self.home)
        name = str(saved.path)
        self.note_file(saved.path)
        place = self._place(stored_secret=stored_secret)
        try:
            content = saved.read()
        except DataFileError as error:
            self._add_broken(name, error.reason, None, place)
        else:
            if content is not None:
                self._add(name, content.merged(roots), place)
                self._report(name, place.errors)

    def append(self, others: Sources) -> None:
        """Append sources that were read separately."""
        self.merged = deep_merge(self.merged, others.merged)
        self.problems += others.problems
        self.sources += others.sources
        self.values |= others.values
        self.positions |= others.positions

    def shared(self) -> dict[str, Any]:
        """Return the fields that separately read sources of one load share."""
        names = ("environ", "home", "previous", "commands", "files", "budget")
        return {name: getattr(self, name) for name in names}

    def _read(self, path: Path, *, most: int = MAX_BYTES) -> str:
        """Return the text of a source's file. Raises as `read_text`."""
        return read_text(path, most=most)

    def _add(self, name: str, value: object, place: Place) -> None:
        if isinstance(value, Mapping):
            self.sources.append(Source(name=name, state="used"))
            self._merge(name, value, place)
        else:
            self._add_broken(name, f"expected an object, got {kind_of(value)}", None, place)

    def _merge(self, name: str, value: object, place: Place) -> None:
        self.merged = deep_merge(self.merged, CONFIG.read(value, place))
        self.values[name] = value

    def _place(
        self,
        directory: Path | None = None,
        *,
        stored_secret: Callable[[str], str | None] | None = None,
    ) -> Place:
        resolver = self._resolver(
            environ=self.environ,
            home=self.home,
            directory=directory,
            on_file=self.note_file,
            stored_secret=stored_secret,
        )
        return Place(resolver)

    def _resolver(self, **options: Any) -> ReferenceResolver:
        return ReferenceResolver(commands=self.commands, **options)

    def note_file(self, path: Path) -> None:
        """Record the stamp of a file before it is read."""
        self.files.setdefault(path, stamp_of(path))

    def _add_broken(self, name: str, message: str, position: Position | None, place: Place) -> None:
        self.sources.append(Source(name=name, state="broken"))
        if name in self.previous:
            self._merge(name, self.previous[name], place)
            message += " (until this is fixed, its previous content stays in force)"
        self._add_problem(name, message, position=position)

    def _report(self, name: str, errors: Mapping[KeyPath, str]) -> None:
        for path in list(errors)[:_MOST_PROBLEMS]:
            self._add_problem(name, errors[path], path)
        if len(errors) > _MOST_PROBLEMS:
            self._add_problem(name, f"more such problems: {len(errors) - _MOST_PROBLEMS}")

    def _warn(self, name: str, value: object) -> None:
        """Warn of unknown keys. The client's options have keys of its own and are exempt."""
        from eca_server.config.schema import config_schema  # noqa: PLC0415 - not for a start

        unknown = [*unknown_keys(value, config_schema())]
        for path, message in unknown[:_MOST_PROBLEMS]:
            self._add_problem(name, message, path, level="warning")
        if len(unknown) > _MOST_PROBLEMS:
            rest = f"more such keys: {len(unknown) - _MOST_PROBLEMS}"
            self._add_problem(name, rest, level="warning")

    def _warn_of_upstream_keys(self, name: str, value: object) -> None:
        ineffective = list(without_effect(value))
        if ineffective:
            more = (
                f", and {len(ineffective) - _MOST_PROBLEMS} more"
                if len(ineffective) > _MOST_PROBLEMS
                else ""
            )
            message = f"no effect in this server: {', '.join(ineffective[:_MOST_PROBLEMS])}{more}"
            self._add_problem(name, message, level="warning")

    def _add_problem(
        self,
        name: str,
        message: str,
        path: KeyPath | None = None,
        *,
        position: Position | None = None,
        level: Literal["error", "warning"] = "error",
    ) -> None:
        """Add a problem of a source, at a key's position if its text is known."""
        if path is not None and name in self.positions:
            position = self.positions[name].position(path)
        self.problems.append(
            Problem(
                source=name,
                line=position.line if position else None,
                column=position.column if position else None,
                key=None if path is None else dotted(path),
                message=message,
                level=level,
            )
        )
