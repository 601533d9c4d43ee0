"""The load of all configuration sources into one `Config`.

A later source wins: the defaults, `initializationOptions`, the variable `ECA_CONFIG`, the user's
file, the file of each workspace root in order; `--config-file` replaces these files. Then come the
files that the user names in `extraConfigs` (not recursively), and last the settings saved from the
editor (`saved_settings`). A root's file may restrict the user's configuration; its other settings
apply only with the user's trust (`workspace_sources`). A mistake in a source never raises: it
becomes a `Problem`, and the rest applies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from eca_server.config.agent_files import FOLDER
from eca_server.config.command_output import NOT_RUN, CommandOutputs
from eca_server.config.directories import home_directory, user_directory
from eca_server.config.files import Stamp, expand_home, stamp_of
from eca_server.config.mcp_settings import MCPServer
from eca_server.config.problems import Problem, Source
from eca_server.config.reading import deep_merge
from eca_server.config.settings import Config
from eca_server.config.sources import CONFIG, OPTIONS, Sources
from eca_server.config.trust_items import TrustItem
from eca_server.config.trust_store import RootTrust, TrustStore, TrustStoreError, real_root
from eca_server.config.workspace_layer import UserSettings, provider_name
from eca_server.config.workspace_sources import AcceptedItems, RootDecisions, WorkspaceSources
from eca_server.printable import printable_line
from eca_server.secret import Secret

_ALL_OF_A_SERVER: Final = {field.name for field in attrs.fields(MCPServer) if field.metadata}


@attrs.frozen(kw_only=True, repr=False)
class LoadedConfig:
    """The result of `load`.

    Attributes:
        problems: everything that could not be read, in the order of the sources; without commands
            that are not run yet.
        sources: every source, the earliest first.
        files: the stamp of each file that was looked for, taken just before it was read.
        values: the JSON of each readable source, by its name.
        is_pure: whether the client's options are the only source, as `pureConfig` demands.
        withheld: settings of workspace folders that wait for the user's trust.
        accepted: settings of workspace folders that apply because the user trusts them.
        may_ask: whether the user may be asked about `withheld`; the editor can forbid it.
        secrets: the output of each `${cmd:...}`.
        awaits_commands: whether a `${cmd:...}` was skipped because `runs_commands` was false.
        expires: the time, by `time.monotonic`, from which each `${cmd:...}` is due to run again.
    """

    config: Config
    problems: tuple[Problem, ...]
    sources: tuple[Source, ...]
    files: Mapping[Path, Stamp] = attrs.field(factory=dict)
    values: Mapping[str, object] = attrs.field(factory=dict)
    is_pure: bool = False
    withheld: tuple[TrustItem, ...] = ()
    accepted: AcceptedItems = attrs.field(factory=dict)
    trusted_roots: frozenset[Path] = frozenset()
    may_ask: bool = True
    secrets: tuple[Secret, ...] = ()
    awaits_commands: bool = False
    expires: float = math.inf

    def is_current(self) -> bool:
        """Return whether every file is unchanged; reads the disk."""
        return all(stamp_of(path) == stamp for path, stamp in self.files.items())


def load(
    *,
    initialization_options: object,
    roots: Iterable[Path],
    environ: Mapping[str, str],
    config_file: Path | None = None,
    home: Path | None = None,
    previous: LoadedConfig | None = None,
    stored_secret: Callable[[str], str | None] = lambda _: None,
    trusts_workspace: bool = False,
    known_providers: Callable[[], Collection[str]] = tuple,
    logins: Callable[[], Collection[str]] = tuple,
    is_first: bool = False,
    runs_commands: bool = True,
) -> LoadedConfig:
    """Read, check and merge the whole configuration.

    Args:
        initialization_options: as the client sent them, any JSON; `pureConfig: true` makes them
            the only source, `workspaceTrusted` says whether the editor trusts the roots. Their
            `chatBehavior` is no layer (ruling W-28).
        roots: the workspace roots, in the client's order.
        environ: the environment variables.
        config_file: replaces the user's and the workspace's files.
        home: the user's home; by default from `environ`.
        previous: the previous result from the same sources.
        stored_secret: resolves `${stored_secret:NAME}` in the saved settings.
        trusts_workspace: trust every root for this session, except settings that use variables or
            files of the user's.
        known_providers: returns the names of the providers that need no configuration.
        logins: returns the names of the providers with a stored login.
        is_first: read only the user's own settings, without agents in files: enough to answer
            `initialize`.
        runs_commands: run the commands of `${cmd:...}`, which takes time; else they stay
            unresolved.
    """
    home = home or home_directory(environ)
    commands = CommandOutputs(environ, home, may_run=runs_commands)
    before = previous.values if previous else {}
    sources = Sources(environ=environ, home=home, previous=before, commands=commands)
    is_pure = sources.add_options(initialization_options)
    workspace = _WorkspaceRoots(environ=environ, home=home, previous=previous)
    workspace.may_ask = not is_pure
    if not is_pure:
        _add_user_sources(sources, config_file, reads_agents=not is_first)
    _join_spellings(sources, known_providers)
    if not is_pure:
        last = sources.empty_copy()
        for text in sources.config().extra_configs:
            path = expand_home(text, home)
            if path.is_absolute():
                last.add_file(path)
            else:
                workspace.extra_configs.append(text)
        last.add_saved_settings(roots := tuple(roots), stored_secret)
        if config_file is None and not is_first:
            editor = _editor_trust(initialization_options)
            workspace.accepts_all = trusts_workspace or editor is True
            workspace.may_ask = editor is not False
            workspace.read(roots, sources, last, known_providers, logins)
        sources.append(last)
        workspace.drop_removed(sources.merged)
    sources.report_missing_bases()
    return workspace.loaded(sources, commands, is_pure=is_pure)


def _add_user_sources(sources: Sources, config_file: Path | None, *, reads_agents: bool) -> None:
    """Add the user's sources that those of the workspace override."""
    sources.add_text("ECA_CONFIG", sources.environ.get("ECA_CONFIG", ""), directory=None)
    if config_file is not None:
        sources.add_file(config_file, required=True)
        return
    directory = user_directory(sources.environ, sources.home)
    if reads_agents:
        sources.add_agents(directory / FOLDER)
    sources.add_file(directory / "config.json")


@attrs.define(kw_only=True, eq=False, repr=False)
class _WorkspaceRoots:
    """The sources of the workspace roots, read one after the other over the user's settings."""

    environ: Mapping[str, str]
    home: Path
    previous: LoadedConfig | None
    accepts_all: bool = False
    may_ask: bool = True
    extra_configs: list[str] = attrs.field(factory=list)
    withheld: list[TrustItem] = attrs.field(factory=list)
    accepted: dict[Any, TrustItem] = attrs.field(factory=dict)
    trusted: list[Path] = attrs.field(factory=list)
    restrictions: list[Config] = attrs.field(factory=list)

    def read(
        self,
        roots: Iterable[Path],
        sources: Sources,
        last: Sources,
        known_providers: Callable[[], Collection[str]],
        logins: Callable[[], Collection[str]],
    ) -> None:
        """Read the roots' sources; `last` holds the user's sources that override them."""
        decisions = self._decisions(sources)
        for root in roots:
            is_configured = bool(self.extra_configs) or stamp_of(root / ".eca") is not None
            user = UserSettings(
                merged=deep_merge(sources.merged, last.merged),
                providers=frozenset(map(provider_name, logins() if is_configured else ())),
                known_providers=frozenset(
                    map(provider_name, known_providers() if is_configured else ())
                ),
            )
            user = user.with_others(sources.merged).with_others(_defined_in(last.merged))
            trust = decisions.get(real_root(root), RootTrust())
            is_trusted = trust.is_trusted or self.accepts_all
            if is_trusted:
                self.trusted.append(root)
            own = WorkspaceSources(
                environ=self.environ,
                home=self.home,
                previous=sources.previous,
                commands=sources.commands,
                merged=sources.merged,
                files=sources.files,
                budget=sources.budget,
                root=root,
                user=user,
                extra_configs=[*self.extra_configs],
                decisions=RootDecisions(
                    is_trusted=is_trusted,
                    accepts_all=self.accepts_all,
                    accepted=frozenset(trust.accepted),
                    refused=frozenset(trust.refused),
                    previous=self.previous.accepted if self.previous else {},
                ),
            )
            own.read()
            sources.append(own)
            self.withheld += own.withheld
            self.accepted |= own.accepted
            if own.restriction:
                restriction = CONFIG.build(own.restriction)
                assert isinstance(restriction, Config)
                self.restrictions.append(restriction)

    def drop_removed(self, merged: Mapping[str, Any]) -> None:
        """Drop waiting servers that the user has removed in the editor."""
        servers = merged.get("mcp_servers") or {}
        removed = {("mcpServers", name) for name, server in servers.items() if server is None}
        self.withheld = [each for each in self.withheld if each.path not in removed]

    def loaded(self, sources: Sources, commands: CommandOutputs, *, is_pure: bool) -> LoadedConfig:
        return LoadedConfig(
            config=self.complete(sources.config()),
            problems=tuple(each for each in sources.problems if NOT_RUN not in each.message),
            sources=tuple(sources.sources),
            files=sources.files,
            values=sources.values,
            is_pure=is_pure,
            withheld=tuple(self.withheld),
            accepted=self.accepted,
            trusted_roots=frozenset(self.trusted),
            may_ask=self.may_ask,
            secrets=tuple(commands.secrets),
            awaits_commands=commands.has_skipped,
            expires=commands.expires,
        )

    def complete(self, config: Config) -> Config:
        """Return the configuration with the roots' restrictions and the waiting servers."""
        servers = dict(config.mcp_servers)
        for item in self.withheld:
            if item.path[0] == "mcpServers" and len(item.path) == 2:
                name = str(item.path[1])
                known = servers.get(name)  # perhaps with changes the user made in the editor
                if known is None or not (known.command or known.url):
                    servers[name] = _waiting_server(item.value)
        restrictions = tuple(self.restrictions)
        return attrs.evolve(config, mcp_servers=servers, restrictions=restrictions)

    def _decisions(self, sources: Sources) -> Mapping[str, RootTrust]:
        store = TrustStore(self.environ, self.home)
        sources.note_file(store.path)
        try:
            return store.read()
        except TrustStoreError as error:
            message = f"{error} (until this is fixed, no folder is trusted)"
            sources.problems.append(Problem(source=str(store.path), message=message))
            return {}


def _join_spellings(sources: Sources, known_providers: Callable[[], Collection[str]]) -> None:
    """Merge the editor's `myProvider` with `my-provider` of another source.

    Editors spell the keys of their options in camelCase.
    """
    written = {name: _providers_in(value) for name, value in sources.values.items()}
    of_options = written.pop(OPTIONS, set()).difference(*written.values())
    camel_cased = {
        name for name in of_options if name != provider_name(name).lower().replace("_", "-")
    }
    if not camel_cased:
        return
    merged = dict(sources.merged.get("providers") or {})
    for name in camel_cased & merged.keys():
        others = [each for each in (*merged, *known_providers()) if each != name]
        same = next((each for each in others if provider_name(each) == provider_name(name)), None)
        if same is not None:
            ours = {same: merged.pop(name)}
            merged.update(deep_merge(ours, {same: merged[same]}) if same in merged else ours)
    sources.merged["providers"] = merged


def _providers_in(value: object) -> set[str]:
    providers = value.get("providers") if isinstance(value, Mapping) else None
    return set(providers) if isinstance(providers, Mapping) else set()


def _defined_in(merged: Mapping[str, Any]) -> dict[str, Any]:
    """Return the last sources' settings without servers that the editor only changed."""
    servers = merged.get("mcp_servers") or {}
    whole = {
        name: server
        for name, server in servers.items()
        if server is not None and server.keys() >= _ALL_OF_A_SERVER
    }
    return {**merged, "mcp_servers": whole}


def _waiting_server(value: Any) -> MCPServer:
    """Return a waiting MCP server, as written and in printable form.

    The client shows it; a user who starts it there accepts what was shown.
    """
    value = value if isinstance(value, Mapping) else {}
    command, url, args = value.get("command"), value.get("url"), value.get("args")
    return MCPServer(
        command=printable_line(command) if isinstance(command, str) else None,
        url=printable_line(url) if isinstance(url, str) else None,
        args=tuple(printable_line(str(each)) for each in args) if isinstance(args, list) else (),
        disabled=True,
        awaits_trust=True,
    )


def _editor_trust(options: object) -> bool | None:
    """Return whether the editor trusts the roots, or None if it does not say."""
    trusted = options.get("workspaceTrusted") if isinstance(options, Mapping) else None
    return trusted if isinstance(trusted, bool) else None
