"""The sources of the configuration, read and merged one after the other.

The rule it keeps: nothing here raises for a mistake in a source: it becomes a `Problem`, and the
rest counts. A file that is broken now and was whole before counts as it was then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from eca_server.config.agent_files import LARGEST, MOST, BadAgent, Budget, agent_of
from eca_server.config.files import MAX_BYTES, Stamp, Unreadable, read_text, stamp_of
from eca_server.config.inheritance import inherited, where_it_inherits
from eca_server.config.interpolation import Surroundings
from eca_server.config.jsonc import BadText, Places, Spot, parse
from eca_server.config.own_layer import LayerFault, layer_path, parse_layer
from eca_server.config.problems import Problem, Source, dotted, kind_of
from eca_server.config.reading import FLAG, KeyPath, Place, deep_merge, record
from eca_server.config.schema import config_schema
from eca_server.config.settings import Config
from eca_server.config.unknown import hint, unknown_keys
from eca_server.config.upstream import without_effect

__all__ = ["CONFIG", "OPTIONS", "Sources"]

OPTIONS = "initializationOptions"
"""The name of the source that the client sends."""

# Each problem becomes a message in the editor; nobody reads a thousand.
_MOST_PROBLEMS = 20
CONFIG = record(Config)
"""Reads the whole configuration."""


@attrs.define(kw_only=True, eq=False, repr=False)
class Sources:
    """The sources so far, the earliest first."""

    environ: Mapping[str, str]
    home: Path
    before: Mapping[str, object]
    commands: Callable[[str], str] | None = None
    merged: dict[str, Any] = attrs.field(factory=dict)
    problems: list[Problem] = attrs.field(factory=list)
    sources: list[Source] = attrs.field(factory=list)
    files: dict[Path, Stamp] = attrs.field(factory=dict)
    values: dict[str, object] = attrs.field(factory=dict)
    places: dict[str, Places] = attrs.field(factory=dict)
    budget: Budget = attrs.field(factory=Budget)

    def config(self) -> Config:
        """What the sources so far make together."""
        behaviors, _ = inherited(self.merged.get("behaviors") or {})
        config = CONFIG.build({**self.merged, "behaviors": behaviors})
        assert isinstance(config, Config)
        return config

    def tell_of_bases(self) -> None:
        """Report the agents that cannot begin with another one, each where that is asked for."""
        _, faults = inherited(self.merged.get("behaviors") or {})
        for agent, message in [*faults.items()][:_MOST_PROBLEMS]:
            for name, value in reversed(self.values.items()):
                path = where_it_inherits(value, agent)
                if path is not None:
                    spot = self.places[name].spot(path) if name in self.places else None
                    self.problems.append(_problem(name, message, spot, key=dotted(path)))
                    break

    def add_options(self, options: object) -> bool:
        """Add the client's options; tell whether they ask for no other source."""
        if not options:
            self.sources.append(Source(name=OPTIONS, state="absent"))
            return False
        place = self._place()
        self._add(OPTIONS, options, place)
        pure: dict[str, Any] = {}
        if isinstance(options, Mapping):
            FLAG.attempt(options.get("pureConfig"), place.at("pureConfig"), pure, "pureConfig")
        self._report(OPTIONS, place.faults)
        return pure.get("pureConfig") is True

    def add_file(self, path: Path, *, required: bool = False) -> None:
        """Add a file; one that is not there is a problem only if it is required."""
        self.note_file(path)
        folder = path.absolute().parent
        try:
            text = self._read(path)
        except Unreadable as fault:
            if fault.absent and not required:
                self.sources.append(Source(name=str(path), state="absent"))
            else:
                spot = Spot(fault.line, 1) if fault.line else None
                self._broken(str(path), fault.message, spot, self._place(folder))
            return
        self.add_text(str(path), text, folder=folder)

    def add_agents(self, folder: Path) -> None:
        """Add the agents in a folder's Markdown files; one that is none costs itself alone."""
        self.note_file(folder)
        if self.files[folder] is None:
            return
        for path in sorted(folder.glob("*.md"))[:MOST]:
            self.note_file(path)
            place = self._place(folder)
            try:
                value = agent_of(path, self._read(path, most=LARGEST), self.budget)
            except (Unreadable, BadAgent) as fault:
                self._broken(str(path), str(fault), None, place)
                continue
            self._add(str(path), value, place)
            self._report(str(path), place.faults)
            self._tell_what_has_no_effect(str(path), value)

    def add_text(self, name: str, text: str, *, folder: Path | None) -> None:
        """Add a source by its text; a blank variable is as good as none."""
        if folder is None and not text.strip():
            self.sources.append(Source(name=name, state="absent"))
            return
        place = self._place(folder)
        try:
            value = parse(text)
        except BadText as fault:
            self._broken(name, fault.message, fault.spot, place)
            return
        self._add(name, value, place)
        self.places[name] = places = Places(text)
        self._report(name, place.faults, places)
        self._warn(name, [*unknown_keys(value, config_schema())], places)
        self._tell_what_has_no_effect(name, value)

    def add_own_layer(self, roots: Iterable[Path], kept: Callable[[str], str | None]) -> None:
        """Add what the user decided in the editor."""
        path = layer_path(self.environ, self.home)
        self.note_file(path)
        place = self._place(kept=kept)
        try:
            value = parse_layer(read_text(path), roots)
        except (Unreadable, LayerFault) as fault:
            if not (isinstance(fault, Unreadable) and fault.absent):
                self._broken(str(path), str(fault), None, place)
        else:
            self._add(str(path), value, place)
            self._report(str(path), place.faults)

    def then(self, others: Sources) -> None:
        """Add sources that were read apart, behind the ones so far."""
        self.merged = deep_merge(self.merged, others.merged)
        self.problems += others.problems
        self.sources += others.sources
        self.values |= others.values
        self.places |= others.places

    def apart(self) -> Sources:
        """Return sources without any so far, which are read from the same places."""
        return Sources(
            environ=self.environ,
            home=self.home,
            before=self.before,
            commands=self.commands,
            files=self.files,
            budget=self.budget,
        )

    def _read(self, path: Path, *, most: int = MAX_BYTES) -> str:
        """Return the text of a file that is a source of its own. Raises as `read_text`."""
        return read_text(path, most=most)

    def _add(self, name: str, value: object, place: Place) -> None:
        if isinstance(value, Mapping):
            self.sources.append(Source(name=name, state="used"))
            self._merge(name, value, place)
        else:
            self._broken(name, f"expected an object, got {kind_of(value)}", None, place)

    def _merge(self, name: str, value: object, place: Place) -> None:
        self.merged = deep_merge(self.merged, CONFIG.read(value, place))
        self.values[name] = value

    def _place(
        self, folder: Path | None = None, *, kept: Callable[[str], str | None] | None = None
    ) -> Place:
        return Place(
            Surroundings(
                environ=self.environ,
                home=self.home,
                folder=folder,
                on_file=self.note_file,
                kept=kept,
                commands=self.commands,
            )
        )

    def note_file(self, path: Path) -> None:
        """Remember how a file is before it is read."""
        self.files.setdefault(path, stamp_of(path))

    def _broken(self, name: str, message: str, spot: Spot | None, place: Place) -> None:
        self.sources.append(Source(name=name, state="broken"))
        if name in self.before:
            self._merge(name, self.before[name], place)
            message += " (until this is mended, what stood there before counts)"
        self.problems.append(_problem(name, message, spot))

    def _report(
        self, name: str, faults: Mapping[KeyPath, str], places: Places | None = None
    ) -> None:
        for path in list(faults)[:_MOST_PROBLEMS]:
            spot = places.spot(path) if places else None
            self.problems.append(_problem(name, faults[path], spot, key=dotted(path)))
        if len(faults) > _MOST_PROBLEMS:
            rest = len(faults) - _MOST_PROBLEMS
            self.problems.append(_problem(name, f"and {rest} more problems like these", None))

    def _warn(
        self, name: str, unknown: Sequence[tuple[KeyPath, Collection[str]]], places: Places
    ) -> None:
        """Warn of keys nobody reads. The client's options are its own, and are not warned about."""
        for path, known in unknown[:_MOST_PROBLEMS]:
            message = hint(str(path[-1]), known)
            problem = _problem(name, message, places.spot(path), key=dotted(path))
            self.problems.append(attrs.evolve(problem, level="warning"))
        if len(unknown) > _MOST_PROBLEMS:
            rest = len(unknown) - _MOST_PROBLEMS
            problem = _problem(name, f"and {rest} more keys like these", None)
            self.problems.append(attrs.evolve(problem, level="warning"))

    def _tell_what_has_no_effect(self, name: str, value: object) -> None:
        """Say in one sentence which keys only the upstream server acts upon."""
        found = list(without_effect(value))
        if found:
            more = (
                f", and {len(found) - _MOST_PROBLEMS} more" if len(found) > _MOST_PROBLEMS else ""
            )
            message = f"without effect here: {', '.join(found[:_MOST_PROBLEMS])}{more}"
            self.problems.append(attrs.evolve(_problem(name, message, None), level="warning"))


def _problem(name: str, message: str, spot: Spot | None, *, key: str | None = None) -> Problem:
    return Problem(
        source=name,
        line=spot.line if spot else None,
        column=spot.column if spot else None,
        key=key,
        message=message,
    )
