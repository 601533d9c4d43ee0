"""From all the places a configuration may stand in to one `Config`.

The later wins: our defaults, `initializationOptions`, the variable `ECA_CONFIG`, the user's
file, the file of each workspace root in order; `--config-file` stands in place of these files.
Then come the files that the user names in `extraConfigs` (what those name there is not read), and
last what the user decided in the editor, which this server keeps (`own_layer`). A root's file may
tighten what the user has configured; the rest of it counts if the user trusts it (`folder`).
Nothing here raises for what a user wrote: it becomes a `Problem`, and the rest counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from eca_server.config.agent_files import FOLDER
from eca_server.config.command_output import CommandOutputs
from eca_server.config.files import Stamp, stamp_of
from eca_server.config.folder import Accepted, Decisions, FolderSources
from eca_server.config.folders import home_folder, user_folder
from eca_server.config.mcp_settings import MCPServer
from eca_server.config.problems import Problem, Source
from eca_server.config.reading import deep_merge
from eca_server.config.settings import Config
from eca_server.config.sources import CONFIG, OPTIONS, Sources
from eca_server.config.trust_items import TrustItem
from eca_server.config.trust_store import RootTrust, TrustFault, TrustStore, real_root
from eca_server.config.workspace_layer import Known, provider_name
from eca_server.printable import printable_line
from eca_server.secret import Secret

__all__ = ["Loaded", "load"]

_ALL_OF_A_SERVER: Final = {field.name for field in attrs.fields(MCPServer) if field.metadata}


@attrs.frozen(kw_only=True)
class Loaded:
    """What `load` found.

    Attributes:
        config: everything that could be read and counts, merged.
        problems: everything that could not, in the order of the sources.
        sources: every place that was looked at, the earliest first.
        files: every file whose content or absence counts, as it was just before it was read.
        values: the JSON of each source that could be read, by its name.
        is_pure: the client's options are the only source, as they want it.
        withheld: settings of opened folders that wait for the user's trust.
        accepted: settings of opened folders that count since the user trusts them.
        trusted_roots: the workspace roots that the user trusts.
        may_ask: the user may be asked about what is withheld; the editor has not ruled it out.
        secrets: the output of each `${cmd:...}`.
        awaits_commands: a `${cmd:...}` was not run, since none was to be.
    """

    config: Config
    problems: tuple[Problem, ...]
    sources: tuple[Source, ...]
    files: Mapping[Path, Stamp] = attrs.field(factory=dict, repr=False)
    values: Mapping[str, object] = attrs.field(factory=dict, repr=False)
    is_pure: bool = False
    withheld: tuple[TrustItem, ...] = ()
    accepted: Accepted = attrs.field(factory=dict, repr=False)
    trusted_roots: frozenset[Path] = frozenset()
    may_ask: bool = True
    secrets: tuple[Secret, ...] = ()
    awaits_commands: bool = False

    def is_current(self) -> bool:
        """Whether every file is still as it was; asks the disk."""
        return all(stamp_of(path) == stamp for path, stamp in self.files.items())


def load(
    *,
    initialization_options: object,
    roots: Iterable[Path],
    environ: Mapping[str, str],
    config_file: Path | None = None,
    home: Path | None = None,
    before: Loaded | None = None,
    kept: Callable[[str], str | None] = lambda _: None,
    trusts_workspace: bool = False,
    known_providers: Callable[[], Collection[str]] = tuple,
    logins: Callable[[], Collection[str]] = tuple,
    is_first: bool = False,
    runs_commands: bool = True,
) -> Loaded:
    """Read, check and merge the whole configuration; reads files, raises nothing of its own.

    Args:
        initialization_options: as the client sent them, any JSON; `pureConfig: true` in them
            makes them the only source, `workspaceTrusted` says whether the editor trusts the
            roots. Their `chatBehavior` is no layer (ruling W-28).
        roots: the workspace roots, in the client's order; their files merge deep like the rest.
        environ: the environment variables.
        config_file: read in place of the user's and the workspace's files.
        home: the user's home; by default what `environ` says.
        before: what was loaded before, from the same places.
        kept: what a `${kept:NAME}` of our own layer stands for.
        trusts_workspace: every root is trusted for this session, but for what takes variables or
            files of the user's.
        known_providers: returns the names of the providers that need no configuration.
        logins: returns the names of the providers with a stored login.
        is_first: read only the user's own settings without agents in files: what the answer to
            `initialize` needs.
        runs_commands: run what `${cmd:...}` names, which takes time; else it is unresolved.
    """
    home = home or home_folder(environ)
    roots = tuple(roots)
    commands = CommandOutputs(environ, home, may_run=runs_commands)
    known = before.values if before else {}
    sources = Sources(environ=environ, home=home, before=known, commands=commands)
    is_pure = sources.add_options(initialization_options)
    folders = _Folders(environ=environ, home=home, before=before)
    folders.may_ask = not is_pure
    if is_pure:
        _join_spellings(sources, known_providers)
    else:
        sources.add_text("ECA_CONFIG", environ.get("ECA_CONFIG", ""), folder=None)
        if config_file is not None:
            sources.add_file(config_file, required=True)
        else:
            folder = user_folder(environ, home)
            if not is_first:
                sources.add_agents(folder / FOLDER)
            sources.add_file(folder / "config.json")
        _join_spellings(sources, known_providers)
        last = sources.apart()
        for path in sources.config().extra_configs:
            last.add_file(Path(path), required=True)
        last.add_own_layer(roots, kept)
        if config_file is None and not is_first:
            editor = _editor_trust(initialization_options)
            folders.accepts_all = trusts_workspace or editor is True
            folders.may_ask = editor is not False
            folders.read(roots, sources, last, known_providers, logins)
        sources.then(last)
        folders.drop_removed(sources.merged)
    sources.tell_of_bases()
    return Loaded(
        config=folders.complete(sources.config()),
        problems=tuple(sources.problems),
        sources=tuple(sources.sources),
        files=sources.files,
        values=sources.values,
        is_pure=is_pure,
        withheld=tuple(folders.withheld),
        accepted=folders.accepted,
        trusted_roots=frozenset(folders.trusted),
        may_ask=folders.may_ask,
        secrets=tuple(commands.secrets),
        awaits_commands=commands.are_waiting,
    )


@attrs.define(kw_only=True, eq=False, repr=False)
class _Folders:
    """The opened folders, read one after the other over the user's settings."""

    environ: Mapping[str, str]
    home: Path
    before: Loaded | None
    accepts_all: bool = False
    may_ask: bool = True
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
        """Read the roots' sources; `last` are sources of the user's that count over them."""
        decided = self._decided(sources)
        for root in roots:
            is_configured = (root / ".eca").exists()  # else nothing is held against the user's
            known = Known(
                merged=deep_merge(sources.merged, last.merged),
                providers=frozenset(map(provider_name, logins() if is_configured else ())),
                known_providers=frozenset(
                    map(provider_name, known_providers() if is_configured else ())
                ),
            )
            known = known.with_others(sources.merged).with_others(_defined_in(last.merged))
            trust = decided.get(real_root(root), RootTrust())
            is_trusted = trust.is_trusted or self.accepts_all
            if is_trusted:
                self.trusted.append(root)
            folder = FolderSources(
                environ=self.environ,
                home=self.home,
                before=sources.before,
                commands=sources.commands,
                merged=sources.merged,
                files=sources.files,
                budget=sources.budget,
                root=root,
                known=known,
                decisions=Decisions(
                    is_trusted=is_trusted,
                    accepts_all=self.accepts_all,
                    accepted=frozenset(trust.accepted),
                    refused=frozenset(trust.refused),
                    before=self.before.accepted if self.before else {},
                ),
            )
            folder.read()
            sources.then(folder)
            self.withheld += folder.withheld
            self.accepted |= folder.accepted
            if folder.restriction:
                restriction = CONFIG.build(folder.restriction)
                assert isinstance(restriction, Config)
                self.restrictions.append(restriction)

    def drop_removed(self, merged: Mapping[str, Any]) -> None:
        """Drop the servers that wait and that the user has removed in the editor."""
        servers = merged.get("mcp_servers") or {}
        removed = {("mcpServers", name) for name, server in servers.items() if server is None}
        self.withheld = [each for each in self.withheld if each.path not in removed]

    def complete(self, config: Config) -> Config:
        """Return the configuration with the folders' restrictions, and the servers that wait."""
        servers = dict(config.mcp_servers)
        for item in self.withheld:
            if item.path[0] == "mcpServers" and len(item.path) == 2:
                name = str(item.path[1])
                known = servers.get(name)  # or what the user has changed of it in the editor
                if known is None or not (known.command or known.url):
                    servers[name] = _waiting_server(item.value)
        restrictions = tuple(self.restrictions)
        return attrs.evolve(config, mcp_servers=servers, restrictions=restrictions)

    def _decided(self, sources: Sources) -> Mapping[str, RootTrust]:
        store = TrustStore(self.environ, self.home)
        sources.note_file(store.path)
        try:
            return store.read()
        except TrustFault as fault:
            message = f"{fault} (until this is mended no folder is trusted)"
            sources.problems.append(Problem(source=str(store.path), message=message))
            return {}


def _join_spellings(sources: Sources, known_providers: Callable[[], Collection[str]]) -> None:
    """Join the editor's `myProvider` with the provider that is `my-provider` elsewhere.

    Editors spell their options' keys in camelCase.
    """
    written = {name: _providers_in(value) for name, value in sources.values.items()}
    of_options = written.pop(OPTIONS, set()).difference(*written.values())
    odd = {name for name in of_options if name != provider_name(name).lower().replace("_", "-")}
    if not odd:
        return
    merged = dict(sources.merged.get("providers") or {})
    for name in odd & merged.keys():
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
    """What the last sources define: a server that the editor has merely changed is not theirs."""
    servers = merged.get("mcp_servers") or {}
    whole = {
        name: server
        for name, server in servers.items()
        if server is not None and server.keys() >= _ALL_OF_A_SERVER
    }
    return {**merged, "mcp_servers": whole}


def _waiting_server(value: Any) -> MCPServer:
    """An MCP server that waits for trust, as it is written and in printable form.

    The client shows it, and a user who starts it there consents to what was shown.
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
    """Whether the editor trusts the roots; None: it does not say."""
    trusted = options.get("workspaceTrusted") if isinstance(options, Mapping) else None
    return trusted if isinstance(trusted, bool) else None
