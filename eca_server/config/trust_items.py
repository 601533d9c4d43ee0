"""The settings of a workspace folder that need the user's trust, each with a digest.

Invariant: the user accepts exactly what was shown. A digest covers the key, the JSON as written and
the content of the files that the setting runs, so a change of any of them needs a new answer. The
user's variables and files that a setting uses are named.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import attrs

from eca_server.config.interpolation import has_reference, references_in
from eca_server.config.problems import dotted
from eca_server.config.reading import KeyPath
from eca_server.config.settings import provider_name
from eca_server.json_members import object_in
from eca_server.printable import printable_line
from eca_server.secret import HIDDEN, mask

_OF_ROOT: Final = ("rules", "commands", "skills")
"""Settings whose relative paths begin at the root."""

_SHOWN_TEXT: Final = 200  # characters


@attrs.frozen(kw_only=True, repr=False)
class TrustItem:
    """A setting of a workspace folder that applies only if the user accepts it.

    Attributes:
        path: its path in the source; for an agent's file, `("agents/NAME.md",)`.
        value: its JSON as written, references unresolved; for an agent's file, the definition.
        uses: the user's variables, as `$NAME`, and the files outside the root that it uses.
        texts: the folder's own files whose text it inserts, each with the start of the text.
        scripts: the contents of the folder's own files that it runs.
        digest: the digest of all of it, including the files that it runs or inserts.
        is_refused: whether the user declined to be asked about it.
        is_changed: whether an earlier, accepted version of it is in force.
        more: descriptions of settings that come with it, as those of a file in `extraConfigs`.
    """

    root: Path
    source: str
    path: KeyPath
    value: Any
    uses: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    scripts: Mapping[Path, bytes] = attrs.field(factory=dict)
    digest: str
    is_refused: bool = False
    is_changed: bool = False
    more: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The dotted key."""
        return str(self.path[0]) if len(self.path) == 1 else dotted(self.path)

    @property
    def lines(self) -> tuple[str, ...]:
        """The effects of the setting, a line for each, in printable form."""
        used = f" (uses {', '.join(self.uses)})" if self.uses else ""
        texts = f" (inserts the text of {', '.join(self.texts)})" if self.texts else ""
        first, *rest = _effects(self.path, self.value)
        return tuple(printable_line(e) for e in (f"{first}{used}{texts}", *rest, *self.more))


def digest_of(
    path: KeyPath, value: Any, files: Mapping[str, str | None], uses: Sequence[str]
) -> str:
    """Return the digest of a setting."""
    parts = [list(path), value, dict(files), list(uses)]
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def uses_of(
    path: KeyPath, value: Any, outside: Callable[[str, bool], str | None]
) -> tuple[str, ...]:
    """Return the user's variables and files that a setting uses, in the order of its JSON.

    Args:
        path: its path in the source.
        value: its JSON as written.
        outside: returns the display name of a path outside the root, else None; its flag says
            that a relative path begins at the root instead of the source's directory.
    """
    uses: dict[str, None] = {}
    shell_like = path[0] == "mcpServers"
    for text in _texts(value):
        for kind, name in references_in(text, shell_like=shell_like):
            if kind == "env":
                uses[f"${name}"] = None
            elif kind != "file":
                uses[f"${{{kind}:{name}}}"] = None
            elif (shown := outside(name, False)) is not None:
                uses[shown] = None
    of_root = path[0] in (*_OF_ROOT, "hooks")
    for text in _paths(path, value):
        if (shown := outside(text, of_root)) is not None:
            uses[shown] = None
    if path[0] == "providers" and isinstance(value, Mapping) and len(path) == 2:
        for key in ("keyEnv", "urlEnv"):
            if isinstance(value.get(key), str):
                uses[f"${value[key].strip()}"] = None
        own_key = value.get("key")
        if not isinstance(own_key, str) or not own_key.strip() or has_reference(own_key):
            uses[f"${provider_name(str(path[1]))}_API_KEY"] = None
    return tuple(uses)


def files_in(value: Any) -> Iterator[str]:
    """Yield the name in each `${file:}` of a setting."""
    for text in _texts(value):
        yield from (name for kind, name in references_in(text) if kind == "file")


def inserted_text(name: str, content: bytes | None) -> str:
    """Return the display of a file whose text a setting inserts: its name and its text, cut."""
    text = mask((content or b"").decode(errors="replace").strip())
    more = f" and {len(text) - _SHOWN_TEXT:,} more characters" if len(text) > _SHOWN_TEXT else ""
    return f"{name}: {json.dumps(text[:_SHOWN_TEXT], ensure_ascii=False)}{more}"


def hook_files(path: KeyPath, value: Any) -> Iterator[str]:
    """Yield each file that a hook runs, as written."""
    if path[0] == "hooks" and isinstance(value, Mapping):
        for action in _list(value.get("actions")):
            file = action.get("file") if isinstance(action, Mapping) else None
            if isinstance(file, str) and file.strip():
                yield file.strip()


def _paths(path: KeyPath, value: Any) -> Iterator[str]:
    """Yield the paths that a setting runs, lets commands change, or sends to the model."""
    yield from hook_files(path, value)
    if path[0] in _OF_ROOT:
        paths = (each.get("path") for each in _list(value) if isinstance(each, Mapping))
        yield from (each.strip() for each in paths if isinstance(each, str))
    if path[:2] == ("toolCall", "sandbox"):
        writable = _list(value.get("writable") if isinstance(value, Mapping) else value)
        yield from (each.strip() for each in writable if isinstance(each, str))
    if path == ("compactPromptFile",) and isinstance(value, str):
        yield value.strip()
    if str(path[0]).startswith(("agent", "behavior")):
        file = value.get("systemPromptFile") if isinstance(value, Mapping) else None
        if isinstance(file, str):
            yield file.strip()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield name
            yield from _texts(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from _texts(each)


def _effects(path: KeyPath, value: Any) -> list[str]:
    kind, name = str(path[0]), str(path[1]) if len(path) > 1 else ""
    if kind.startswith("agents/"):
        [(agent, own)] = value["agent"].items()
        return _agent(agent, own, file=kind)
    describe = _DESCRIBERS.get(kind)
    if describe is not None and len(path) == 2 and isinstance(value, Mapping):
        return describe(name, value)
    if path[:3] == ("toolCall", "approval", "allow"):
        calls = str(path[3]) if len(path) > 3 else _json(value)
        return [f"lets calls of {calls} run without asking{_when(value)}"]
    if path == ("toolCall", "approval", "byDefault") and value == "allow":
        return ["lets calls that no rule covers run without asking"]
    if kind in _OF_ROOT:
        return [f"reads {kind} outside the folder: {_json(value)}"]
    is_file = kind.startswith(("extraConfigs", "link:"))
    does = f"reads more configuration: {value}" if is_file else f"sets {dotted(path)}"
    return [does if is_file else f"{does} to {_json(value)}"]


def _server(name: str, value: Mapping[str, Any]) -> list[str]:
    address = f"connects to the MCP server {name}: {_url(value.get('url'))}"
    if value.get("url") and not value.get("command"):
        return [address]
    where = f" in {_text(value['cwd'])}" if value.get("cwd") else ""
    env = value.get("env")
    variables = f" with {_json(env)} set" if isinstance(env, Mapping) and env else ""
    command = " ".join([_text(value.get("command")), *map(_text, _list(value.get("args")))])
    started = f"starts the MCP server {name}: {command}{where}{variables}"
    return [started, address] if value.get("url") else [started]


def _hook(name: str, value: Mapping[str, Any]) -> list[str]:
    actions = [each for each in _list(value.get("actions")) if isinstance(each, Mapping)]
    keys = ("shell", "file")
    commands = [_text(each[key]) for each in actions for key in keys if each.get(key)]
    moment = _text(value.get("type"))
    lines = [f"runs the hook {name} at {moment}: {command}" for command in commands]
    return lines or [f"defines the hook {name}, which runs nothing"]


def _tool(name: str, value: Mapping[str, Any]) -> list[str]:
    return [f"offers the model the tool {name}, which runs: {_text(value.get('command'))}"]


def _provider(name: str, value: Mapping[str, Any]) -> list[str]:
    api, command = value.get("api"), " ".join(map(_text, _list(value.get("command"))))
    is_acp, is_unknown = _text(api).strip() == "acp", has_reference(api)
    agent = f"lets the ACP agent {name} answer, which runs: {command}"
    lines = [agent] if command and (is_acp or is_unknown) else []
    if lines and not is_unknown and not value.get("url"):
        return lines
    models = value.get("models")
    names = f", with the models {', '.join(models)}" if isinstance(models, Mapping) else ""
    auth = object_in(value, "auth")
    logins = [f"logs in to {name} at {_url(auth[key])}" for key in _LOGIN_URLS if auth.get(key)]
    return [*lines, f"adds the provider {name} at {_url(value.get('url'))}{names}", *logins]


def _agent(name: str, value: Mapping[str, Any], file: str = "") -> list[str]:
    place = f" (in {file})" if file else ""
    lines = [f"defines or changes the agent {name}{place}: {', '.join(value) or 'nothing'}"]
    tool_call = object_in(value, "toolCall")
    approval = object_in(tool_call, "approval")
    lines += [
        f"sets {key} of the agent {name} to {_json(each)}"
        for key, each in value.items()
        if key in _SHOWN_OF_AN_AGENT
    ]
    if tool_call.get("approval", "") is None:
        lines.append(f"unsets toolCall.approval, all rules for calls, in {name}")
    lines += [
        f"unsets toolCall.approval.{key}, {rules}, in {name}"
        for key, rules in _UNSET_RULES.items()
        if approval.get(key, "") is None
    ]
    lines += [
        f"{'unsets' if rule is None else 'sets'} {verdict}.{selector}, a rule for calls"
        f"{_when(rule)}, in {name}"
        for verdict in ("deny", "ask")
        for selector, rule in object_in(approval, verdict).items()
    ]
    lines += [
        f"lets calls of {selector} run without asking in {name}{_when(rule)}"
        for selector, rule in object_in(approval, "allow").items()
    ]
    verdict = approval.get("byDefault")
    if verdict == "allow":
        lines.append(f"lets calls that no rule covers run without asking in {name}")
    elif verdict is not None:
        lines.append(
            f"sets the verdict for calls that no rule covers to {_json(verdict)} in {name}"
        )
    return lines


def _when(rule: Any) -> str:
    matchers = object_in(rule, "argsMatchers")
    parts = (
        f"its {name} matches {' or '.join(map(_text, _list(each)))}"
        for name, each in matchers.items()
    )
    condition = " and ".join(parts)
    return f" when {condition}" if condition else ""


def _url(value: Any) -> str:
    """Return an address with its keys hidden; the host is shown, whatever it looks like."""
    text = _text(value) if value else "an unspecified address"
    try:
        netloc = urlsplit(text.strip()).netloc
    except ValueError:  # no address, so nothing connects to it
        netloc = ""
    host = netloc.rpartition("@")[2]
    end = text.find(netloc) + len(netloc)
    before, after = text[: end - len(host)], text[end:]
    return f"{mask(before)}{host}{mask(after)}"


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "nothing" if value is None else _json(value)


def _json(value: Any) -> str:
    """Return JSON whose keys are hidden; a path or an option that resembles one is shown."""
    return json.dumps(_without_keys(value), ensure_ascii=False)


def _without_keys(value: Any, name: str = "") -> Any:
    if isinstance(value, Mapping):
        return {key: _without_keys(each, key) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_keys(each, name) for each in value]
    if not isinstance(value, str):
        return value
    if _ADDRESS.fullmatch(value):
        return _url(value)
    shown = mask(f"{name}={value}").removeprefix(f"{name}=")
    return shown if _KEY.fullmatch(shown) else value


_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
_KEY: Final = re.compile(rf"(?:(?:bearer|basic) )?{re.escape(HIDDEN)}", re.IGNORECASE)


_SHOWN_OF_AN_AGENT: Final = ("inherit", "disabledTools", "enabledTools", "systemPromptFile")
"""The keys of an agent that may loosen a permission, or read a file."""

_LOGIN_URLS: Final = ("url", "authorizeUrl", "deviceUrl", "tokenUrl")
"""The keys of a provider's `auth` that are addresses."""

_UNSET_RULES: Final = {
    "deny": "all rules that deny calls",
    "ask": "all rules for calls that need approval",
    "byDefault": "the verdict for calls that no rule covers",
}
"""The rules that an agent may unset by null, each with its description."""

_DESCRIBERS: Final[Mapping[str, Callable[[str, Mapping[str, Any]], list[str]]]] = {
    "agent": _agent,
    "behavior": _agent,
    "customTools": _tool,
    "hooks": _hook,
    "mcpServers": _server,
    "providers": _provider,
}
"""The description function for members of each key."""
