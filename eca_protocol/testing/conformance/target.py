"""The server under test: how it is started, and how it learns of the scripted model.

A target is a command of any language, or for fast tests of the kit itself a function inside the
suite. Each process has folders of its own: HOME, XDG_*, TMPDIR and a workspace.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from eca_protocol import json
from eca_protocol.revisions import Revision
from eca_protocol.streams import Transport
from eca_protocol.testing.conformance.personalities import PLAIN, Personality

__all__ = ["API", "KEY", "MODEL", "OTHER_MODEL", "Folders", "Serve", "Target", "own_folder"]

API = Literal["openai-chat", "anthropic"]

Serve = Callable[[Transport, Mapping[str, Any]], Awaitable[int]]
"""A server inside the suite: its transport, what `ECA_CONFIG` would hold; gives the exit code."""

KEY: Final = "not-a-real-key"
MODEL: Final = "conformance/scripted"
OTHER_MODEL: Final = "conformance/other"

_MODELS: Final[Mapping[str, Any]] = {
    "scripted": {
        "limit": {"context": 100_000, "output": 10_000},
        "cost": {"input": 1000.0, "output": 2000.0},
    },
    "other": {},
}
_TELLING: Final[Mapping[Revision | None, Mapping[str, Any]]] = {
    Revision.DRAFT: {"doc": True, "edit": True, "fix": True},
    Revision.CURRENT: {"chatCapabilities": {}},
}
"""The capabilities by which a client tells that it speaks an edition."""
_SECRET_ENDINGS: Final = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")


@attrs.frozen(kw_only=True)
class Folders:
    """The folders of one process, made when they are asked for.

    Attributes:
        root: what holds them all.
    """

    root: Path

    @property
    def home(self) -> Path:
        """The user's home."""
        return self._made("home")

    @property
    def workspace(self) -> Path:
        """The one root of the workspace."""
        return self._made("workspace")

    @property
    def temporary(self) -> Path:
        """Where temporary files go."""
        return self._made("tmp")

    def _made(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@attrs.frozen(kw_only=True)
class Target:
    """What is tested, and how it is told of its model.

    In `command`, `config_args`, the values of `env` and the template these stand for what the run
    puts in: `{{url}}`, `{{key}}`, `{{model}}`, `{{workspace}}`, and `{{file}}`, where the template
    was written to.

    Attributes:
        command: what starts it; empty if `serve` is it.
        serve: the server inside the suite.
        cwd: where it is started; None: where we are.
        env: variables beside those it inherits; keys in our own environment are not passed on.
        template: its configuration, if it has not upstream's; None: `ECA_CONFIG`.
        template_name: what the written file is called.
        config_args: arguments behind the command.
        api: which API its model speaks.
        edition: the edition it is told to speak; None: what it turns out to speak.
        personality: the client that the suite plays.
    """

    command: tuple[str, ...] = ()
    serve: Serve | None = None
    cwd: Path | None = None
    env: Mapping[str, str] = attrs.field(factory=dict)
    template: str | None = None
    template_name: str = "config.json"
    config_args: tuple[str, ...] = ()
    api: API = "openai-chat"
    edition: Revision | None = None
    personality: Personality = PLAIN

    @property
    def takes_config(self) -> bool:
        """Whether it can be given more configuration than its model."""
        return self.template is None

    def model_url(self, url: str) -> str:
        """The base as it is configured: clients of the Messages API add `/v1` themselves."""
        return url.removesuffix("/v1") if self.api == "anthropic" else url

    def configuration(self, url: str, more: Mapping[str, Any]) -> dict[str, Any]:
        """What `ECA_CONFIG` holds: the scripted model, and `more` merged into it."""
        provider = {
            "api": self.api,
            "url": self.model_url(url),
            "key": KEY,
            "fetchModels": False,
            "models": _MODELS,
        }
        base = {
            "providers": {"conformance": provider},
            "defaultModel": MODEL,
            "catalog": {"refresh": False},
        }
        return merged(base, more)

    def initialize_params(self, root: Path) -> dict[str, Any]:
        """What the suite says in `initialize`, with that folder as the workspace.

        An edition is told in the words of a client that speaks it, and by the option that servers
        of ours know.
        """
        who = self.personality
        assistant = {**_TELLING.get(self.edition, {}), **who.assistant}
        options = who.options
        if self.edition is not None:
            options = {**(options or {}), "protocolRevision": self.edition.value}
        params: dict[str, Any] = {
            "clientInfo": who.client,
            "capabilities": {"codeAssistant": assistant},
            "workspaceFolders": [{"name": root.name, "uri": root.as_uri()}],
        }
        if options is not None:
            params["initializationOptions"] = options
        if who.process_id != "nothing":
            params["processId"] = os.getpid() if who.process_id == "number" else None
        return params

    def prepare(
        self, folders: Folders, url: str, more: Mapping[str, Any]
    ) -> tuple[list[str], dict[str, str]]:
        """Write what it is configured by; its command line and environment.

        Raises:
            OSError: the configuration cannot be written.
        """
        values = {
            "url": self.model_url(url),
            "key": KEY,
            "model": MODEL,
            "workspace": str(folders.workspace),
        }
        home = str(folders.home)
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.upper().endswith(_SECRET_ENDINGS)
        }
        env |= {
            "HOME": home,
            "USERPROFILE": home,
            "XDG_CONFIG_HOME": str(folders.home / ".config"),
            "XDG_DATA_HOME": str(folders.home / ".local" / "share"),
            "XDG_STATE_HOME": str(folders.home / ".local" / "state"),
            "XDG_CACHE_HOME": str(folders.home / ".cache"),
            "TMPDIR": str(folders.temporary),
        }
        if self.template is None:
            env["ECA_CONFIG"] = json.dumps(self.configuration(url, more)).decode()
        else:
            file = folders.root / self.template_name
            file.write_text(filled(self.template, values), "utf-8")
            values["file"] = str(file)
        env |= {name: filled(value, values) for name, value in self.env.items()}
        words = (*self.command, *self.config_args)
        return [filled(word, values) for word in words], env


def filled(text: str, values: Mapping[str, str]) -> str:
    """A text with its `{{name}}`s replaced."""
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Two configurations as one: objects are merged, whatever else is in `more` wins."""
    result = dict(base)
    for key, value in more.items():
        there = result.get(key)
        if isinstance(there, Mapping) and isinstance(value, Mapping):
            result[key] = merged(there, value)
        else:
            result[key] = value
    return result


@contextmanager
def own_folder() -> Iterator[Path]:
    """A folder of the run's own, by its real path: servers compare paths."""
    with tempfile.TemporaryDirectory(prefix="eca-conformance-", ignore_cleanup_errors=True) as root:
        yield Path(root).resolve()
