"""`/doctor`: what was found, what is missing, and where to set it; each provider asked on demand.

The rule it keeps: nothing is sent unless the user says so; of a key it names the variable or the
setting it came from, never the key.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import trio

from eca_protocol import json
from eca_protocol.messages import CommandArgument
from eca_server.chat import Turn
from eca_server.commands.command import (
    Command,
    Situation,
    arguments_of,
    told_of_sources,
    without_keys,
)
from eca_server.commands.provider_trial import try_providers
from eca_server.commands.trust import report_trust
from eca_server.config import Problem, Source
from eca_server.config.tool_settings import SandboxSettings
from eca_server.credentials import Credential, Location
from eca_server.llm.backend import BackendError, Request
from eca_server.llm.configured import ProviderFacts
from eca_server.llm.history import Message, TextPart
from eca_server.llm.models import Models
from eca_server.sandbox import capability
from eca_server.secret import mask, mask_url
from eca_server.tools.approval import policy_of
from eca_server.version import version

if TYPE_CHECKING:
    from eca_server.mcp.manager import Manager
    from eca_server.mcp.server import Server

__all__ = ["DOCTOR", "report"]

_MOST_MODELS = 10
_LONGEST_REASON = 500  # characters


def report(
    *,
    version: str,
    python: str,
    platform: str,
    json_engine: str,
    sources: Iterable[Source],
    problems: Iterable[Problem],
    providers: Sequence[ProviderFacts],
    selected_model: str | None,
    logins: Iterable[str] = (),
    behavior: str = "agent",
    approval: Iterable[str] = (),
    servers: Iterable[str] = (),
    sandbox: str = "off",
    trust: Iterable[str] = (),
) -> str:
    """The whole report, as lines that read well in a terminal and as Markdown.

    Args:
        version: ours.
        python: the interpreter's version.
        platform: the system and its version.
        json_engine: which library reads and writes JSON.
        sources: where the configuration was looked for.
        problems: what is wrong in them; those of keys and URLs are added here.
        providers: what can be talked to.
        selected_model: `provider/model` of a prompt that names none.
        logins: the providers whose key `/login` stored.
        behavior: whose rules of approval are told.
        approval: what decides on tool calls.
        servers: how the MCP servers are.
        sandbox: whether commands run in one, and whether this machine can do it.
        trust: which folders are trusted, and what of them is withheld.
    """
    credentials = [facts.credential for facts in providers if facts.credential is not None]
    of_places = (
        found.problem
        for facts in providers
        for found in (facts.credential, facts.location)
        if found is not None and found.problem is not None
    )
    found = dict.fromkeys((*problems, *of_places))
    lines = [
        f"ECA for Python {version}",
        "",
        f"- Python: {python}",
        f"- Platform: {platform}",
        f"- JSON engine: {json_engine}",
        "",
        *told_of_sources(sources),
        *(["", "Problems:", "", *(f"- {problem}" for problem in found)] if found else []),
        "",
        "Workspace trust:",
        "",
        *(tuple(trust) or ("- no folder is opened",)),
        "",
        "Providers:",
        "",
        *(line for facts in providers for line in _provider(facts)),
        "",
        f"Stored logins: {', '.join(sorted(logins)) or 'none'}",
        "",
        f"Selected model: {selected_model or 'none'}",
        "",
        "MCP servers:",
        "",
        *(f"- {line}" for line in tuple(servers) or ("none",)),
        "",
        f"Tool calls in the behaviour {behavior} (the most specific rule counts, deny before all):",
        "",
        *(f"- {line}" for line in approval),
        "",
        f"Sandbox of commands (toolCall.sandbox): {sandbox}",
    ]
    keys = [each.key for each in credentials if each.key is not None]
    return without_keys("\n".join(lines), keys)


def _provider(facts: ProviderFacts) -> Iterator[str]:
    yield f"- {facts.name} ({facts.api})"
    if facts.location is not None:
        yield f"  - url: {_url(facts.location)}"
    yield f"  - key: {_key(facts.credential)}"
    models = list(dict.fromkeys((*facts.models, *(model.name for model in facts.listed))))
    shown = ", ".join(models[:_MOST_MODELS]) or "none"
    rest = len(models) - _MOST_MODELS
    yield f"  - models: {shown}{f' and {rest} more' if rest > 0 else ''}"


def _url(location: Location) -> str:
    if location.url is None:
        return "missing"
    shown = mask_url(location.url)
    return f"{shown} (from {location.source})" if location.source else shown


def _key(credential: Credential | None) -> str:
    if credential is None:
        return "none needed"
    if credential.key is not None:
        return f"found in {credential.source}"
    if credential.problem is not None:
        return f"unusable in {credential.source}"
    return f"missing (looked for in {', '.join(credential.variables)})"


async def _servers(manager: Manager | None) -> list[str]:
    """How each MCP server is, after a moment for those that are starting."""
    if manager is None:
        return []
    with trio.move_on_after(SERVER_SECONDS):
        for server in manager:
            await server.listed()
    return [_server(server) for server in manager]


async def _sandbox(settings: SandboxSettings) -> str:
    """Return the mode, and whether this machine can do it; where it is off, nothing is tried."""
    if settings.mode == "off":
        return "off"
    found = await trio.to_thread.run_sync(capability)
    network = "network allowed" if settings.network else "no network"
    more = f", {len(settings.writable)} more writable folders" if settings.writable else ""
    return f"{settings.mode}; {found.state}; {network}{more}"


def _server(server: Server) -> str:
    offers = {"tool": server.tools, "prompt": server.prompts, "resource": server.resources}
    counts = ", ".join(
        f"{len(each)} {kind}{'s' * (len(each) != 1)}" for kind, each in offers.items() if each
    )
    told = f"{server.name}: {server.state.value}{f' ({counts})' if counts else ''}"
    if server.fault is None:
        return told
    reason = " ".join(mask(str(server.fault), *server.settings.secrets).split())
    link = f" Log in here: {server.fault.url}" if server.fault.url else ""
    return f"{told}: {reason[:_LONGEST_REASON]}.{link}"


async def _run(turn: Turn, situation: Situation) -> None:
    stored = await trio.to_thread.run_sync(situation.logins.read)
    problems = [*situation.loaded.problems, *([stored.problem] if stored.problem else [])]
    text = report(
        version=version(),
        python=sys.version.split()[0],
        platform=platform.platform(),
        json_engine=json.ENGINE,
        sources=situation.loaded.sources,
        problems=problems,
        providers=situation.models.providers,
        selected_model=situation.model,
        logins=stored.keys,
        behavior=turn.chat.session.profile.agent_name(situation.behavior),
        approval=policy_of(situation.loaded.config, situation.behavior).describe(),
        servers=await _servers(situation.mcp),
        sandbox=await _sandbox(situation.loaded.config.tool_call.sandbox),
        trust=report_trust(situation.loaded, [root.path for root in situation.workspace.roots]),
    )
    text = f"{text}\n\n{await _trial(situation.models)}"
    if arguments_of(situation.text).lower() != ONLINE:
        turn.say(text, role="system")
        return
    turn.say(text, role="system")
    turn.progress("Asking the providers")
    verdicts = await try_providers(situation.models)
    lines = [f"- {verdict.provider}: {verdict.words}" for verdict in verdicts]
    told = "\n".join(["Asked just now:", "", *(lines or ["- there is no provider to ask"])])
    if all(verdict.works for verdict in verdicts):
        turn.say(told, role="system")
    else:
        turn.fail(told)


async def _trial(models: Models) -> str:
    """Ask the embedded model for one answer, and say how that went."""
    request = Request(messages=[Message(role="user", parts=(TextPart("works"),))])
    try:
        with trio.fail_after(TRIAL_SECONDS):
            said = await models.find(EMBEDDED).text(request)
    except (BackendError, trio.TooSlowError) as error:
        said = f"failed ({error})"
    return f"Embedded model: {said}"


SERVER_SECONDS = 2.0
EMBEDDED = "simulator/echo"
TRIAL_SECONDS = 5.0
ONLINE = "online"

DOCTOR = Command(
    name="doctor",
    description="What was found: configuration, providers, keys by name, models.",
    run=_run,
    steering="between requests",
    arguments=(
        CommandArgument(name=ONLINE, description=f"The word `{ONLINE}`: each provider is asked."),
    ),
)
