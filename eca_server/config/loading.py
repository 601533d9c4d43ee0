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
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from eca_server.config.agent_files import FOLDER
from eca_server.config.command_output import NOT_RUN, CommandOutputs
from eca_server.config.directories import home_directory, user_directory
from eca_server.config.files import Stamp, expand_home, stamp_of
from eca_server.config.problems import Problem, Source
from eca_server.config.reading import deep_merge
from eca_server.config.settings import Config, provider_name
from eca_server.config.sources import OPTIONS, Sources
from eca_server.secret import Secret

if TYPE_CHECKING:
    from eca_server.config.trust_items import TrustItem
    from eca_server.config.workspace_roots import WorkspaceRoots
    from eca_server.config.workspace_sources import AcceptedItems


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
        expires: the time, by `platforms.uptime`, from which each `${cmd:...}` is due to run again.
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
    watched: Iterable[Path] = (),
    is_first: bool = False,
    runs_commands: bool = True,
) -> LoadedConfig:
    """Read, check and merge the whole configuration.

    Args:
        initialization_options: any JSON. With `pureConfig: true` they are the only source;
            `workspaceTrusted` trusts the roots, or not; `chatBehavior` is no layer (W-28).
        roots: the workspace roots, in the client's order.
        environ: the environment variables.
        config_file: replaces the user's and the workspace's files.
        home: the user's home; by default from `environ`.
        previous: the previous result from the same sources.
        stored_secret: resolves `${kept:NAME}` in the saved settings.
        trusts_workspace: trust the roots now, except settings with the user's variables or files.
        known_providers: returns the names of the providers that need no configuration.
        logins: returns the names of the providers with a stored login.
        watched: further files after whose change the configuration is not current.
        is_first: read only the user's own settings, without agents in files: enough to answer
            `initialize`.
        runs_commands: run the commands of `${cmd:...}`, which takes time, or leave them as text.
    """
    home = home or home_directory(environ)
    commands = CommandOutputs(environ, home, may_run=runs_commands)
    before = previous.values if previous else {}
    sources = Sources(environ=environ, home=home, previous=before, commands=commands)
    sources.files.update((path, stamp_of(path)) for path in watched)
    is_pure = sources.add_options(initialization_options)
    if not is_pure:
        _add_user_sources(sources, config_file, reads_agents=not is_first)
    _join_spellings(sources, known_providers)
    workspace = None
    if not is_pure:
        last = Sources(**sources.shared())
        of_roots = _add_extra_configs(sources, last, config_file)
        last.add_saved_settings(roots := tuple(roots), stored_secret)
        if roots and config_file is None and not is_first:
            workspace = _workspace_roots(
                previous,
                accepts_all=trusts_workspace or _editor_trust(initialization_options) is True,
                extra_configs=of_roots,
            )
            workspace.read(roots, sources, last, known_providers, logins)
        sources.append(last)
    sources.report_missing_bases()
    asks = not is_pure and _editor_trust(initialization_options) is not False
    return _loaded(sources, commands, workspace, is_pure=is_pure, may_ask=asks)


def _add_extra_configs(sources: Sources, last: Sources, config_file: Path | None) -> list[str]:
    """Add the files of `extraConfigs`; return those whose paths begin at each workspace root."""
    of_roots = []
    for text in sources.config().extra_configs:
        path = expand_home(text, last.home)
        if path.is_absolute():
            last.add_file(path)
        else:
            of_roots.append(text)
    if config_file is not None:
        _report_skipped(of_roots, sources, config_file)
    return of_roots


def _report_skipped(of_roots: Iterable[str], sources: Sources, config_file: Path) -> None:
    """Warn about files in workspace roots: `--config-file` replaces all files of the roots."""
    names = [
        name
        for name, value in sources.values.items()
        if isinstance(value, Mapping) and "extraConfigs" in value
    ]
    message = f"skipped, as `--config-file {config_file}` replaces the files of workspace folders"
    for text in of_roots:
        problem = Problem(
            source=names[-1],
            key="extraConfigs",
            message=f"`{text}`: {message}; write an absolute path",
            level="warning",
        )
        sources.problems.append(problem)


def _workspace_roots(
    previous: LoadedConfig | None, *, accepts_all: bool, extra_configs: Sequence[str]
) -> WorkspaceRoots:
    # The answer to `initialize` needs no roots.
    from eca_server.config.workspace_roots import WorkspaceRoots  # noqa: PLC0415

    accepted = previous.accepted if previous else {}
    return WorkspaceRoots(previous=accepted, accepts_all=accepts_all, extra_configs=extra_configs)


def _loaded(
    sources: Sources,
    commands: CommandOutputs,
    workspace: WorkspaceRoots | None,
    *,
    is_pure: bool,
    may_ask: bool,
) -> LoadedConfig:
    loaded = LoadedConfig(
        config=sources.config(),
        problems=tuple(each for each in sources.problems if NOT_RUN not in each.message),
        sources=tuple(sources.sources),
        files=sources.files,
        values=sources.values,
        is_pure=is_pure,
        may_ask=may_ask,
        secrets=tuple(commands.secrets),
        awaits_commands=commands.has_skipped,
        expires=commands.expires,
    )
    if workspace is None:
        return loaded
    return attrs.evolve(
        loaded,
        config=workspace.complete(loaded.config, sources.merged),
        withheld=tuple(workspace.withheld),
        accepted=workspace.accepted,
        trusted_roots=frozenset(workspace.trusted),
    )


def _add_user_sources(sources: Sources, config_file: Path | None, *, reads_agents: bool) -> None:
    """Add the user's sources that those of the workspace override."""
    sources.add_text("ECA_CONFIG", sources.environ.get("ECA_CONFIG", ""), directory=None)
    if config_file is not None:
        sources.add_file(config_file, required=True)
        return
    directory = user_directory(sources.environ, sources.home)
    if reads_agents:
        sources.add_agents(directory / FOLDER)
    file = directory / "config.json"
    # The rules of a user whose link is broken would be missing without a word.
    sources.add_file(file, required=os.path.islink(file))  # noqa: PTH114 - it raises nothing


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


def _editor_trust(options: object) -> bool | None:
    """Return whether the editor trusts the roots, or None if it does not say."""
    trusted = options.get("workspaceTrusted") if isinstance(options, Mapping) else None
    return trusted if isinstance(trusted, bool) else None
