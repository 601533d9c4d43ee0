"""The pages of the site that are made from the code: settings, protocol, requirements, API.

Nothing of them is kept in the repository; `conf.py` has them written before each build.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

import settings_pages
from generate import table

import eca_protocol
from eca_protocol.acp import ACP
from eca_protocol.acp import messages as acp_messages
from eca_protocol.endpoint import Method
from eca_protocol.methods import ECA
from eca_protocol.revisions import EVER, Revision, Window
from eca_protocol.schema import json_schema
from eca_protocol.testing.requirements import ALL_REQUIREMENTS

_SYSTEMS = "eca_protocol.platforms"
"""The package with a module for each system, which imports on no other one."""

_RECEIVERS = {
    "client_to_server": "server",
    "server_to_client": "client",
    "both": "either",
}

_ABOUT_MESSAGES = """\
Every method of every edition, and every type of the current one, from the tables that the code runs
by. `eca-server schema` prints them as data, for each edition."""

_ABOUT_DUTIES = """\
Each requirement with the side that it binds, its level and its editions. Tests and the findings of
the conformance suite name these ids. *observed*: not written in a text, but clients or servers in
use need it."""

_ABOUT_ACP = """\
`eca_protocol.acp` has the methods and messages of the Agent Client Protocol (ACP), wire version 1,
for agents and for their clients. `ACP` is the table of methods, `ACP_CODEC` its codec and
`ACP_DIALECT` its rules for JSON-RPC; `open_peer` makes a peer of them over a stream of lines:

```python
from eca_protocol import memory_pair
from eca_protocol.acp import messages as m
from eca_protocol.acp import open_peer


def initialize(params: m.InitializeRequest) -> m.InitializeResponse:
    return m.InitializeResponse(protocol_version=1)


here, there = memory_pair()
agent = open_peer(there, side="server", handlers={"initialize": initialize})
client = open_peer(here, side="client", handlers={})
```

Then `async with agent: await agent.serve()`; a client sends its requests with
`client.call(METHOD, PARAMS)`, and reads in a task, `client.start_soon(client.serve)`.

An agent that an editor starts uses `FdTransport(*descriptors)` within
`with owned_stdio() as descriptors:`, and its client the `transport` of `spawn(COMMAND)`. All three
are names of `eca_protocol`. Meanwhile a `print` of the agent goes to stderr.
"""

_API = """\
# The API of `eca_protocol`

Most programs need only the names of the package itself:

{top}

All its modules:

```{{toctree}}
:maxdepth: 1

{rooms}
```
"""


def write(folder: Path) -> None:
    """Write all of them into a folder; a page that has not changed is not touched."""
    folder.mkdir(exist_ok=True)
    pages = dict(
        [
            settings_pages.configuration(),
            settings_pages.commands(),
            _protocol(),
            _requirements(),
            _acp(),
            *_api(),
        ]
    )
    for stale in {path.name for path in folder.iterdir()} - set(pages):
        (folder / stale).unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def _protocol() -> tuple[str, str]:
    schema = json_schema(Revision.CURRENT)
    definitions: Mapping[str, Mapping[str, Any]] = schema["$defs"]
    parts = [
        "# The protocol, message by message",
        _ABOUT_MESSAGES,
        "## Methods",
    ]
    for chapter, methods in groupby(ECA, key=_chapter):
        head = ["method", "kind", "to", "params", "result", "editions"]
        parts += [f"### {chapter}", table(head, map(_method, methods))]
    parts.append("## Types")
    parts += [
        _type(name, definition)
        for name, definition in sorted(definitions.items())
        if not _is_message(definition)
    ]
    return "protocol.md", "\n\n".join(parts) + "\n"


def _is_message(definition: Mapping[str, Any]) -> bool:
    return "jsonrpc" in definition.get("properties", {})


def _chapter(method: Method) -> str:
    chapter, slash, _ = method.name.partition("/")
    return chapter if slash else "lifecycle"


def _method(method: Method) -> list[str]:
    result = _hint(method.result) if method.kind == "request" else ""
    to = _RECEIVERS[method.direction]
    editions = _window(method.window)
    return [f"`{method.name}`", method.kind, to, _hint(method.params), result, editions]


def _hint(hint: Any) -> str:
    if hint is None:
        return "null"
    names = [each.__name__ for each in getattr(hint, "__args__", (hint,))]
    return " or ".join(f"`{name}`" if name.startswith("Unknown") else _link(name) for name in names)


def _link(name: str) -> str:
    return f"[`{name}`](#type-{name.lower()})"


def _type(name: str, definition: Mapping[str, Any]) -> str:
    parts = [f"(type-{name.lower()})=\n### `{name}`", _escaped(definition.get("description", ""))]
    required = set(definition.get("required", ()))
    rows = [
        [f"`{field}`", _shape(shape), "" if field in required else "optional", _note(shape)]
        for field, shape in definition.get("properties", {}).items()
    ]
    if rows:
        parts.append(table(["member", "type", "", ""], rows))
    else:
        parts.append(f"Is {_shape(definition)}.")
    return "\n\n".join(part for part in parts if part)


def _shape(shape: Any) -> str:  # noqa: PLR0911 - one for each form
    match shape:
        case {"$ref": str(target)}:
            return _link(target.rpartition("/")[2])
        case {"const": value}:
            return f"`{value!r}`".replace("'", '"')
        case {"enum": values}:
            return " \\| ".join(f'`"{value}"`' for value in values)
        case {"anyOf": members} | {"oneOf": members}:
            return " \\| ".join(map(_shape, members))
        case {"type": "array", "items": item}:
            return f"{_shape(item)}[]"
        case {"type": str(name)}:
            return name
    return "any JSON value"


def _note(shape: Any) -> str:
    return _escaped(
        " ".join(str(shape.get(key, "")) for key in ("description", "$comment")).strip()
    )


def _requirements() -> tuple[str, str]:
    parts = [
        "# The requirements, one by one",
        _ABOUT_DUTIES,
    ]
    for section, rows in groupby(ALL_REQUIREMENTS.values(), key=lambda row: row.section):
        table_rows = [
            [f"`{row.id}`", row.side, row.level, _window(row.window), _escaped(row.statement)]
            for row in rows
        ]
        parts.append(f"## {section}")
        parts.append(table(["id", "binds", "level", "editions", "requirement"], table_rows))
    return "requirements.md", "\n\n".join(parts) + "\n"


def _acp() -> tuple[str, str]:
    rows = [
        [
            f"`{row.name}`",
            row.kind,
            {"client_to_server": "agent", "server_to_client": "client"}[row.direction],
            f"{{py:obj}}`{row.params.__name__}`",
            f"{{py:obj}}`{row.result.__name__}`" if row.kind == "request" else "",
        ]
        for row in ACP
    ]
    parts = ["# The Agent Client Protocol", _ABOUT_ACP, "## Methods"]
    parts.append(table(["method", "kind", "to", "params", "result"], rows))
    for module in pkgutil.iter_modules(acp_messages.__path__, f"{acp_messages.__name__}."):
        title = module.name.rpartition(".")[2].capitalize()
        parts.append(f"## {title}\n\n```{{eval-rst}}\n.. automodule:: {module.name}\n```")
    return "acp.md", "\n\n".join(parts) + "\n"


def _window(window: Window) -> str:
    since, until = window.since, window.until
    if window == EVER:
        return "all"
    if until is Revision.CURRENT:
        return f"since {since.value}"
    return since.value if since is until else f"{since.value} to {until.value}"


def _api() -> Iterator[tuple[str, str]]:
    names = [module.__name__ for module in _public(eca_protocol)]
    for name in names:
        slug = name.replace(".", "-")
        yield f"api-{slug}.rst", f"{name}\n{'=' * len(name)}\n\n.. automodule:: {name}\n"
    rooms = "\n".join(f"api-{name.replace('.', '-')}" for name in names)
    exported = sorted({*eca_protocol.__all__} - {*eca_protocol._MODULES})
    top = table(["name", "meaning"], map(_at_home, exported))
    yield "api.md", _API.format(top=top, rooms=rooms)


_VALUES = {
    "ECA": "The table of the protocol's methods.",
    "SERVER_COMMAND": "The command of the server in this Python environment.",
    "ApprovalDecision": "A decision about a tool call: allow, allow for the session, or reject.",
}
"""The exported names that are neither classes nor functions."""


def _at_home(name: str) -> list[str]:
    """Describe a public name of the package, with a link to the module that documents it."""
    value = getattr(eca_protocol, name)
    for module in _public(eca_protocol):
        if name in module.__all__ and getattr(module, name) is value:
            says = _VALUES.get(name) or (value.__doc__ or "").partition("\n")[0]
            link = f"{{py:obj}}`{name} <{module.__name__}.{name}>`"
            return [link, _escaped(says)]
    raise LookupError(f"no public module has {name}")


def _public(package: ModuleType) -> Iterator[ModuleType]:
    """Yield the modules with an `__all__`; a package that has one stands for its modules."""
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if info.name.rpartition(".")[2].startswith("_") or info.name == _SYSTEMS:
            continue
        module = importlib.import_module(info.name)
        if getattr(module, "__all__", None) and module.__doc__:
            yield module
        elif info.ispkg:
            yield from _public(module)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n\n", "<br>").replace("\n", " ")
