"""The configuration of a workspace folder, classified into settings that apply and that wait.

Invariants: without the user's trust a folder may only restrict the user's configuration, or name
texts of its own. Some settings are never allowed in a folder. A provider, an MCP server, a hook or
a tool of the user's is never merged with one of the folder's. Each field declares its trust class
(`reading.Workspace`). The input is the JSON as written, its references unresolved.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from eca_server.config.agent_settings import AGENT_ALIASES, BUILT_IN_AGENTS, MOST_STEPS
from eca_server.config.files import expand_home, is_inside
from eca_server.config.inheritance import resolve_inheritance, with_built_in
from eca_server.config.interpolation import has_reference
from eca_server.config.reading import KeyPath, Reader, Setting, Workspace, settings_of, value_at
from eca_server.config.settings import Config, provider_name
from eca_server.printable import printable_line

_MISSING: Final = object()
_NAMED: Final[Mapping[tuple[str, ...], str]] = {
    ("custom_tools",): "a tool",
    ("hooks",): "a hook",
    ("mcp_servers",): "an MCP server",
}
"""Settings with names of the user's choice, which are never merged with those of a folder."""
_OF_THE_USER: Final = "{} of this name exists already; a folder cannot change it"
_NEVER: Final = "a folder cannot set this; set it in your own configuration"
_INVISIBLE: Final = "a name in a folder may not contain invisible characters"
_BUILT_IN_PROVIDER: Final = "a folder cannot change the address or access of a built-in provider"


@attrs.frozen(kw_only=True, repr=False)
class UserSettings:
    """The user's own settings, with which those of a folder are compared.

    Attributes:
        merged: the user's settings, read and merged, by the names of the fields.
        owned: the user's MCP servers, hooks and tools: the name of the field, the name in it.
        providers: the user's providers and those with a stored login, by `provider_name`.
        known_providers: the providers that need no configuration, by `provider_name`.
    """

    merged: Mapping[str, Any]
    owned: frozenset[tuple[str, str]] = frozenset()
    providers: frozenset[str] = frozenset()
    known_providers: frozenset[str] = frozenset()

    def with_others(self, merged: Mapping[str, Any]) -> UserSettings:
        """Return a copy that includes the named settings of other sources."""
        owned = {(field, name) for (field,) in _NAMED for name in merged.get(field) or ()}
        providers = map(provider_name, merged.get("providers") or ())
        return attrs.evolve(
            self, owned=self.owned | owned, providers=self.providers.union(providers)
        )

    @property
    def agents(self) -> frozenset[str]:
        """The names of the agents that exist without the folder."""
        return frozenset({*BUILT_IN_AGENTS, *with_built_in(self.merged.get("behaviors") or {})})


@attrs.frozen(repr=False)
class Addition:
    """A setting that is merged by a rule of its own: the smaller value, or more items."""

    names: tuple[str, ...]
    setting: Setting
    path: KeyPath
    value: Any


@attrs.frozen(kw_only=True, repr=False)
class ClassifiedSettings:
    """The settings of one source of a folder.

    Attributes:
        restrictions: the JSON that restricts tool calls; applies without trust.
        additions: settings that are merged in a way that cannot loosen a permission.
        waiting: settings that apply only with trust, each a path and its JSON.
        forbidden: settings that never apply, each with the reason.
        extra_configs: the paths of `extraConfigs`, as written.
    """

    restrictions: dict[str, Any] = attrs.field(factory=dict)
    additions: list[Addition] = attrs.field(factory=list)
    waiting: list[tuple[KeyPath, Any]] = attrs.field(factory=list)
    forbidden: list[tuple[KeyPath, str]] = attrs.field(factory=list)
    extra_configs: list[str] = attrs.field(factory=list)


def classify(
    value: Mapping[str, Any], user: UserSettings, root: Path, home: Path
) -> ClassifiedSettings:
    """Classify the JSON of a folder's source by the trust classes of its settings."""
    result = ClassifiedSettings()
    _Classifier(result, user, root, home).record(Config, value, (), ())
    return result


def put(tree: dict[str, Any], path: KeyPath, value: object) -> None:
    """Put a value into nested mappings, which are created where they are missing."""
    for step in path[:-1]:
        tree = tree.setdefault(str(step), {})
    tree[str(path[-1])] = value


@attrs.frozen(repr=False)
class _Classifier:
    result: ClassifiedSettings
    user: UserSettings
    root: Path
    home: Path

    def record(
        self, cls: type, value: Mapping[str, Any], path: KeyPath, names: tuple[str, ...]
    ) -> None:
        """Classify an object whose keys are the settings of a class."""
        for setting in settings_of(cls):
            for key in setting.keys:
                value_there, where = _find(value, key, path)
                if value_there is not _MISSING:
                    self._setting(cls, setting, value_there, where, (*names, setting.name))

    def _setting(
        self, cls: type, setting: Setting, value: Any, path: KeyPath, names: tuple[str, ...]
    ) -> None:
        reader, use = setting.reader, setting.workspace
        if use is Workspace.NEVER:
            self.result.forbidden.append((path, _NEVER))
        elif value is None and (names in _NAMED or names == ("providers",)):
            self.result.forbidden.append((path, _NEVER))  # null would unset the user's own
        elif use is Workspace.RESTRICTS and isinstance(value, Mapping):
            self._rules(value, path)
        elif use is Workspace.RESTRICTS and _restricts(setting.name, value):
            put(self.result.restrictions, path, value)
        elif self._is_addition(cls, setting, value, names):
            self.result.additions.append(Addition(names, setting, path, value))
        elif use is Workspace.INSIDE and isinstance(value, list):
            self._paths(setting, value, path, names)
        elif names == ("extra_configs",) and isinstance(value, list):
            self.result.extra_configs.extend(each for each in value if isinstance(each, str))
        elif reader.record is not None and isinstance(value, Mapping):
            self.record(reader.record, value, path, names)
        elif reader.members is not None and isinstance(value, Mapping):
            self._members(reader.members, value, path, names)
        else:
            self.result.waiting.append((path, value))

    def _rules(self, rules: Mapping[str, Any], path: KeyPath) -> None:
        """Apply rules that restrict; a null, which would unset a rule of the user's, waits."""
        for name, rule in rules.items():
            if rule is None:
                self.result.waiting.append(((*path, name), rule))
            else:
                put(self.result.restrictions, (*path, name), rule)

    def _members(
        self, reader: Reader, value: Mapping[str, Any], path: KeyPath, names: tuple[str, ...]
    ) -> None:
        """Classify an object with names of the folder's choice: each member waits by itself."""
        for name, member in value.items():
            where = (*path, name)
            if printable_line(name) != name:
                self.result.forbidden.append(((*path, printable_line(name)), _INVISIBLE))
            elif (names[0], name) in self.user.owned and names in _NAMED:
                self.result.forbidden.append((where, _OF_THE_USER.format(_NAMED[names])))
            elif names == ("providers",):
                self._provider(reader, name, member, where)
            elif names == ("behaviors",) and isinstance(member, Mapping):
                self._agent(reader, name, member, where)
            else:
                self._wait(reader, where, member)

    def _provider(self, reader: Reader, name: str, value: Any, path: KeyPath) -> None:
        own_name = provider_name(name)
        if own_name in self.user.providers:
            self.result.forbidden.append((path, _OF_THE_USER.format("a provider or login")))
        elif own_name in self.user.known_providers and isinstance(value, Mapping):
            for key, member in value.items():
                if key == "models":
                    self.result.waiting.append(((*path, key), member))
                else:
                    self.result.forbidden.append(((*path, key), _BUILT_IN_PROVIDER))
        else:
            self._wait(reader, path, value)

    def _agent(self, reader: Reader, name: str, value: Mapping[str, Any], path: KeyPath) -> None:
        """Apply the restrictions of an existing agent; a new agent waits as a whole."""
        own_name = AGENT_ALIASES.get(name, name)
        if own_name not in self.user.agents or reader.record is None:
            self._wait(reader, path, value)
            return
        waiting: list[tuple[KeyPath, Any]] = []
        inner = attrs.evolve(self, result=attrs.evolve(self.result, waiting=waiting))
        inner.record(reader.record, value, path, ("behaviors", own_name))
        if waiting:  # one question for the whole agent
            rest: dict[str, Any] = {}
            for where, each in waiting:
                put(rest, where, each)
            self.result.waiting.append((path, value_at(rest, path)))

    def _wait(self, reader: Reader, path: KeyPath, value: Any) -> None:
        if reader.record is not None and isinstance(value, Mapping):
            for setting in settings_of(reader.record):
                for key in setting.keys:
                    if setting.workspace is Workspace.NEVER and value.get(key[0]) is not None:
                        self.result.forbidden.append(((*path, *key), _NEVER))
                        value = {name: each for name, each in value.items() if name != key[0]}
        self.result.waiting.append((path, value))

    def _is_addition(self, cls: type, setting: Setting, value: Any, names: tuple[str, ...]) -> bool:
        if setting.workspace is Workspace.ADDS:
            return isinstance(value, list) and not has_reference(value)
        if setting.workspace is not Workspace.SMALLER or not isinstance(value, bool | int | float):
            return False
        if setting.name == "max_steps" and value == 0:
            return False  # 0 means the default
        own = value_at(self.user.merged, names)
        if own is None and names[0] == "behaviors":
            behaviors, _ = resolve_inheritance(self.user.merged.get("behaviors") or {})
            own = value_at(behaviors, names[1:])
        if own is None:
            is_steps = setting.name == "max_steps"
            own = MOST_STEPS if is_steps else attrs.fields_dict(cls)[setting.name].default
        return own is None or value <= own

    def _paths(
        self, setting: Setting, value: list[Any], path: KeyPath, names: tuple[str, ...]
    ) -> None:
        inside = [entry for each in value if (entry := self._inside(each)) is not None]
        outside = [each for each in value if self._inside(each) is None]
        if inside:
            self.result.additions.append(Addition(names, setting, path, inside))
        if outside:
            self.result.waiting.append((path, outside))

    def _inside(self, entry: Any) -> dict[str, str] | None:
        """Return an entry with its path made absolute, or None for a path outside the root."""
        text = entry.get("path") if isinstance(entry, Mapping) else None
        if not isinstance(text, str) or has_reference(text) or "\0" in text:
            return None
        path = expand_home(text.strip(), self.home)
        path = path if path.is_absolute() else self.root / path
        stays = ".." not in path.parts and is_inside(path, self.root)
        return {"path": str(path)} if stays else None


def _find(value: Any, key: tuple[str, ...], path: KeyPath) -> tuple[Any, KeyPath]:
    for step in key:
        if not isinstance(value, Mapping) or step not in value:
            return _MISSING, path
        value, path = value[step], (*path, step)
    return value, path


def _restricts(name: str, value: Any) -> bool:
    """Return whether a value of a `RESTRICTS` setting can only restrict tool calls."""
    if name == "by_default":
        return value in ("ask", "deny")
    if name == "manual_approval":
        return value is True or (isinstance(value, list) and not has_reference(value))
    lists = name in ("disabled_tools", "enabled_tools")
    return lists and isinstance(value, list) and not has_reference(value)
