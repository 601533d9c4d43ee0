"""The sources of all workspace roots, and what of them applies with the user's trust."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from eca_server.config.data_file import DataFileError
from eca_server.config.files import stamp_of
from eca_server.config.mcp_settings import MCPServer
from eca_server.config.problems import Problem
from eca_server.config.reading import deep_merge
from eca_server.config.settings import Config, provider_name
from eca_server.config.sources import CONFIG, Sources
from eca_server.config.trust_items import TrustItem
from eca_server.config.trust_store import RootTrust, TrustStore, real_root
from eca_server.config.workspace_layer import UserSettings
from eca_server.config.workspace_sources import AcceptedItems, WorkspaceSources
from eca_server.printable import printable_line

_ALL_OF_A_SERVER: Final = {field.name for field in attrs.fields(MCPServer) if field.metadata}


@attrs.define(kw_only=True, eq=False, repr=False)
class WorkspaceRoots:
    """The sources of the workspace roots, read one after the other over the user's settings.

    Attributes:
        previous: the accepted settings that were in force before this load.
        accepts_all: for this session, accept every setting that uses no variable or file of the
            user's.
        extra_configs: the user's files of each root, by their paths in it.
        withheld: settings that wait for an answer.
        accepted: accepted settings that are in force.
        trusted: the trusted roots.
        restrictions: the configuration of each root that restricts the user's.
    """

    previous: AcceptedItems
    accepts_all: bool
    extra_configs: Sequence[str]
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
        decisions = _decisions(sources)
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
            if trust.is_trusted or self.accepts_all:
                self.trusted.append(root)
            own = WorkspaceSources(
                **sources.shared(),
                merged=sources.merged,
                root=root,
                user=user,
                extra_configs=[*self.extra_configs],
                trust=trust,
                accepts_all=self.accepts_all,
                accepted_before=self.previous,
            )
            own.read()
            sources.append(own)
            self.withheld += own.withheld
            self.accepted |= own.accepted
            if own.restriction:
                restriction = CONFIG.build(own.restriction)
                assert isinstance(restriction, Config)
                self.restrictions.append(restriction)

    def complete(self, config: Config, merged: Mapping[str, Any]) -> Config:
        """Return the whole configuration with the roots' restrictions and the waiting servers.

        A waiting server that the user has removed in the editor, as `merged` says, waits no more.
        """
        saved = merged.get("mcp_servers") or {}
        removed = {("mcpServers", name) for name, server in saved.items() if server is None}
        self.withheld = [each for each in self.withheld if each.path not in removed]
        servers = dict(config.mcp_servers)
        for item in self.withheld:
            if item.path[0] == "mcpServers" and len(item.path) == 2:
                name = str(item.path[1])
                known = servers.get(name)  # perhaps with changes the user made in the editor
                if known is None or not (known.command or known.url):
                    servers[name] = _waiting_server(item.value)
        restrictions = tuple(self.restrictions)
        return attrs.evolve(config, mcp_servers=servers, restrictions=restrictions)


def _decisions(sources: Sources) -> Mapping[str, RootTrust]:
    store = TrustStore(sources.environ, sources.home)
    sources.note_file(store.path)
    try:
        return store.read()
    except DataFileError as error:
        message = f"{error.reason} (until this is fixed, no folder is trusted)"
        sources.problems.append(Problem(source=str(store.path), message=message))
        return {}


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
