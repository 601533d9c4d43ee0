"""The pages about the configuration, the commands and the tools, made from the code."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import attrs
import trio
from generate import table

import eca_protocol
from eca_protocol import messages as m
from eca_server.agent.commands import COMMANDS
from eca_server.config.jsonc import parse
from eca_server.config.reading import Reader, Workspace, settings_of
from eca_server.config.schema import attribute_notes
from eca_server.config.settings import Config
from eca_server.config.unknown import UPSTREAM_KEYS

__all__ = ["commands", "configuration"]

GUIDES = Path(__file__).resolve().parent / "guides"
EXAMPLES = GUIDES.with_name("examples.json")
"""Values of the keys that no guide has an example of."""

_TRUST = {
    Workspace.NEEDS_TRUST: "trust",
    Workspace.NEVER: "never",
    Workspace.RESTRICTS: "stricter",
    Workspace.SMALLER: "smaller",
    Workspace.ADDS: "more",
    Workspace.INSIDE: "inside",
}
_JSON = re.compile(r"^```json\n(.*?)^```$", re.DOTALL | re.MULTILINE)

_ABOUT = """\
# The configuration, key by key

Every key of `~/.config/eca/config.json`, of `.eca/config.json` in a folder, of `ECA_CONFIG` and of
the editor's `initializationOptions`, made from the settings that the server reads.
`eca-server config schema` prints the same as a JSON Schema, with which an editor completes the
file. Files may have comments and trailing commas, and texts `${{env:NAME}}`, `${{file:path}}` and
`${{cmd:COMMAND}}`. A relative path begins at the folder of its configuration file, unless the key
says otherwise; elsewhere paths are absolute or begin with `~/`. A null unsets the value of an
earlier file. NAME is a name of your choice, and `[]` an item of a list.

A later source wins: the defaults, the editor's `initializationOptions`, `ECA_CONFIG`, your file,
the file of each opened folder in order (`--config-file` replaces these files), the files that you
name in `extraConfigs`, and last what you saved in the editor.

The column *folder* says what a key does in the configuration of an opened folder
([trust](../guides/trust.md)):

{classes}
"""

_ABOUT_TOOLS = """\
The descriptions that the model reads. The tools of the editor exist if the editor supports them,
`skill` exists if there are [skills](../guides/skills.md), `search_tools` and `call_tool` exist with
`mcpToolSearch`; see [tools and approvals](../guides/tools.md)."""

_ABOUT_UPSTREAM = """\
These are read by upstream's server and have no effect here. A key with a consequence is named in a
warning, once."""


_VARIABLES = {
    "ECA_CONFIG": "a configuration as JSON",
    "XDG_CONFIG_HOME": "the folder with `eca/`, your configuration; default: `~/.config`",
    "XDG_DATA_HOME": (
        "the folder with `eca-python/`: chats, logins, recordings, your decisions, and what you "
        "save in the editor; default: `~/.local/share`, on Windows `%LOCALAPPDATA%`"
    ),
    "XDG_CACHE_HOME": (
        "the folder with `eca-python/`: lists of models and files, which may be deleted; default: "
        "`~/.cache`"
    ),
    "NAME_API_KEY": "the key of the provider NAME, in capitals (`OPENAI_API_KEY`)",
    "OLLAMA_HOST": "the address of Ollama",
    "NETRC": "the netrc file, in place of `~/.netrc`; `netrcFile` takes precedence",
    "ECA_CLIENT_CERT": "`network.clientCert`, if it is not set",
    "ECA_CLIENT_KEY": "`network.clientKey`, if it is not set",
    "ECA_CLIENT_KEY_PASSPHRASE": "`network.clientKeyPassphrase`, if it is not set",
    "HTTPS_PROXY": "as `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`: [proxies](../guides/models.md)",
    "SSL_CERT_FILE": "as `SSL_CERT_DIR`: [authorities](../guides/models.md)",
    "OTEL_EXPORTER_OTLP_ENDPOINT": (
        "as `OTEL_TRACES_EXPORTER`, `OTEL_SERVICE_NAME` and others of OpenTelemetry: "
        "[traces](../guides/models.md); `OTEL_SDK_DISABLED=true` turns them off"
    ),
}
_SET_VARIABLES = {
    "ECA_AGENT": "`1`: an agent runs the program",
    "ECA_CHAT_ID": "the id of the chat, if it runs for one",
    "ECA_SANDBOX": "the kind of the sandbox, if it runs in one: `bubblewrap` or `sandbox-exec`",
    "ECA_ACP_AGENT": "`1` for [ACP agents](../guides/agents.md)",
}
_ABOUT_VARIABLES = """\
The variables that the server reads. A relative path in one of the `XDG` variables is ignored.
`ecp run --help` names those of evaluations."""

_ABOUT_SET_VARIABLES = """\
The server sets these for commands, background jobs, hooks and tools of your own:"""


class _Row(NamedTuple):
    path: tuple[str, ...]
    more: tuple[str, ...]
    kind: str
    default: str
    trust: Workspace
    note: str


def configuration() -> tuple[str, str]:
    """Return the reference of the configuration."""
    classes = table(
        ["folder", "meaning"], [[f"*{name}*", each.value] for each, name in _TRUST.items()]
    )
    every = sorted(_rows(Config, (), None), key=lambda row: (len(row.path) > 1, row.path[0]))
    others = {key for row in every for key in row.more}
    rows = [row for row in every if ".".join(row.path) not in others]
    parts = [_ABOUT.format(classes=classes)]
    documents = list(_documents())
    for title, group in groupby(rows, key=lambda row: row.path[0] if len(row.path) > 1 else ""):
        parts.append(f"## {title or 'Keys of the top level'}")
        head = ["key", "type", "default", "folder", "meaning"]
        parts.append(table(head, [_cells(row, documents) for row in group]))
    parts += ["## Keys of upstream's server", _ABOUT_UPSTREAM]
    keys = [[f"`{key.replace('*', 'NAME')}`", why or ""] for key, why in UPSTREAM_KEYS.items()]
    parts.append(table(["key", "consequence"], keys))
    parts += ["## Environment variables", _ABOUT_VARIABLES, _meanings(_VARIABLES)]
    parts += [_ABOUT_SET_VARIABLES, _meanings(_SET_VARIABLES)]
    return "configuration.md", "\n\n".join(parts) + "\n"


def _meanings(variables: Mapping[str, str]) -> str:
    return table(["variable", "meaning"], [[f"`{name}`", why] for name, why in variables.items()])


def _rows(cls: type, prefix: tuple[str, ...], trust: Workspace | None) -> Iterator[_Row]:
    """Yield the rows of a settings class, with those of the objects in it."""
    notes = attribute_notes(cls)
    fields = attrs.fields_dict(cls)
    for name, reader, keys, own_trust in settings_of(cls):
        path = (*prefix, *keys[0])
        inherited = Workspace.NEVER if trust is Workspace.NEVER else own_trust
        inner, end = _inner(reader)
        if inner is None or end or reader.schema.get("type"):
            more = tuple(".".join((*prefix, *key)) for key in keys[1:])
            default = _default(fields[name].default)
            yield _Row(path, more, _kind(reader), default, inherited, notes.get(name, ""))
        if inner is not None:
            yield from _rows(inner, (*path, *end), inherited)


def _inner(reader: Reader) -> tuple[type | None, tuple[str, ...]]:
    """Return the settings class inside of a value, and the steps to it."""
    if reader.record is not None:
        return reader.record, ()
    if reader.members is None:
        return None, ()
    inner, end = _inner(reader.members)
    step = "[]" if reader.schema.get("type") == "array" else "NAME"
    return inner, (step, *end)


def _kind(reader: Reader) -> str:
    schema = reader.schema
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if reader.record is not None and not schema:
        return "object"
    kind = schema.get("type", "any")
    if reader.members is not None:
        return f"{'list' if kind == 'array' else 'object'} of {_kind(reader.members)}"
    names = [kind] if isinstance(kind, str) else [each for each in kind if each != "null"]
    return " or ".join("list" if name == "array" else name for name in names)


def _default(value: Any) -> str:
    if value is None or value is attrs.NOTHING or isinstance(value, attrs.Factory):
        return ""
    if attrs.has(type(value)) or value == ():
        return ""
    if isinstance(value, tuple):
        plain: Any = [attrs.asdict(item) if attrs.has(type(item)) else item for item in value]
    else:
        plain = value
    return _code(json.dumps(plain))


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _cells(row: _Row, documents: Sequence[tuple[str, Any]]) -> list[str]:
    also = "".join(f"<br>or `{key}`" for key in row.more)
    key = f"`{'.'.join(row.path)}`{also}"
    example = _example(row.path, documents)
    note = "<br>".join(part for part in (_escaped(row.note), example) if part)
    return [key, row.kind, row.default, f"*{_TRUST[row.trust]}*", note]


def _documents() -> Iterator[tuple[str, Any]]:
    """Yield the configurations, which the tests read, with the names of the guides they are in."""
    for guide in sorted(GUIDES.glob("*.md")):
        for match in _JSON.finditer(guide.read_text("utf-8")):
            yield guide.stem, parse(match[1])
    yield "", parse(EXAMPLES.read_text("utf-8"))


def _example(path: Sequence[str], documents: Iterable[tuple[str, Any]]) -> str:
    for guide, document in documents:
        for value in _values(document, path):
            text = json.dumps(value, ensure_ascii=False)
            shown = _code(text) if len(text) <= 48 else "an object" if text[0] == "{" else "a list"
            link = f" ([{guide}](../guides/{guide}.md))" if guide else ""
            return f"Example: {_escaped(shown)}{link}"
    return ""


def _values(value: Any, path: Sequence[str]) -> Iterator[Any]:
    if not path:
        yield value
    elif path[0] == "[]" and isinstance(value, list):
        for each in value:
            yield from _values(each, path[1:])
    elif isinstance(value, Mapping):
        for name in value if path[0] == "NAME" else [path[0]]:
            if name in value:
                yield from _values(value[name], path[1:])


def commands() -> tuple[str, str]:
    """Return the list of the commands and of the tools."""
    rows = [
        [
            f"`/{each.name}`",
            _escaped(each.description),
            "<br>".join(
                f"`{argument.name}`: {_escaped(argument.description)}"
                for argument in each.arguments
            ),
        ]
        for each in COMMANDS
    ]
    tools = [[f"`{tool.name}`", _escaped(tool.description)] for tool in trio.run(_tools)]
    parts = [
        "# Commands and tools",
        "## Commands",
        "A prompt that begins with `/` runs one of them; see [commands](../guides/commands.md).",
        table(["command", "effect", "arguments"], rows),
        "## Tools",
        _ABOUT_TOOLS,
        table(["tool", "description"], tools),
    ]
    return "commands.md", "\n\n".join(parts) + "\n"


async def _tools() -> Sequence[m.ServerTool]:
    """Return the tools that the server announces to a client with every ability."""
    options = m.InitializationOptions(extras={"pureConfig": True})
    with TemporaryDirectory() as scratch:
        async with eca_protocol.connect(
            command=[sys.executable, "-P", "-m", "eca_server"],
            workspace_folders=[scratch],
            initialization_options=options,
            diagnostics=_unused,
            definition=_unused,
            references=_unused,
            on_question=_unused,
        ) as client:
            await client.wait_for_config()
            return [tool for server in client.tool_servers.values() for tool in server.tools or ()]


def _unused(_params: Any) -> Any:
    """Stand for a handler, so that its capability is announced; nothing is asked here."""
    raise AssertionError("the server asked a question without a turn")


def _escaped(text: str) -> str:
    return re.sub(r"\n+", "<br>", text.strip()).replace("|", "\\|")
