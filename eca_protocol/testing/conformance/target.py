"""The server under test: its start, and its configuration for the scripted model.

A target is a command, or, for fast tests of the kit itself, a function inside the suite. Each
process has its own directories: HOME, XDG_*, TMPDIR and a workspace.
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

__all__ = [
    "API",
    "KEY",
    "MODEL",
    "OTHER_MODEL",
    "Directories",
    "Serve",
    "Target",
    "temporary_directory",
]

API = Literal["openai-chat", "anthropic"]

Serve = Callable[[Transport, Mapping[str, Any]], Awaitable[int]]
"""A server inside the suite: called with its transport and configuration; returns the exit code."""

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
_EDITION_CAPABILITIES: Final[Mapping[Revision | None, Mapping[str, Any]]] = {
    Revision.DRAFT: {"doc": True, "edit": True, "fix": True},
    Revision.CURRENT: {"chatCapabilities": {}},
}
"""The capabilities that announce a client's edition."""
_SECRET_ENDINGS: Final = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")


@attrs.frozen(kw_only=True)
class Directories:
    """The directories of one process, created on first use.

    Attributes:
        root: the parent directory.
    """

    root: Path

    @property
    def home(self) -> Path:
        """The user's home."""
        return self._directory("home")

    @property
    def workspace(self) -> Path:
        """The only root of the workspace."""
        return self._directory("workspace")

    @property
    def temporary(self) -> Path:
        """The directory of temporary files."""
        return self._directory("tmp")

    def _directory(self, name: str) -> Path:
        directory = self.root / name
        directory.mkdir(parents=True, exist_ok=True)
        return directory


@attrs.frozen(kw_only=True)
class Target:
    """The program under test, and its configuration.

    Placeholders in `command`, `config_args`, the values of `env` and the template: `{{url}}`,
    `{{key}}`, `{{model}}`, `{{workspace}}`, and `{{file}}`, the path of the written template.

    Attributes:
        command: its command line; empty with `serve`.
        serve: the server inside the suite.
        cwd: its working directory; None: the current one.
        env: additional environment variables; secrets in the environment are not inherited.
        template: its configuration in its own form; None: `ECA_CONFIG` in upstream's.
        template_name: the name of the written file.
        config_args: additional arguments of the command.
        api: the API of its model.
        edition: the requested edition; None: the target's own.
        personality: the client that the suite acts as.
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
        """True if it accepts configuration beyond its model."""
        return self.template is None

    def model_url(self, url: str) -> str:
        """Return the base URL to configure; clients of the Messages API add `/v1` themselves."""
        return url.removesuffix("/v1") if self.api == "anthropic" else url

    def configuration(self, url: str, more: Mapping[str, Any]) -> dict[str, Any]:
        """Return the content of `ECA_CONFIG`: the scripted model, with `more` merged into it."""
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
        """Return the params of `initialize` with that workspace.

        The edition is announced by a client's capabilities, and by this project's option.
        """
        who = self.personality
        assistant = {**_EDITION_CAPABILITIES.get(self.edition, {}), **who.assistant}
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
        self, directories: Directories, url: str, more: Mapping[str, Any]
    ) -> tuple[list[str], dict[str, str]]:
        """Write the configuration; return the command line and the environment.

        Raises:
            OSError: the configuration cannot be written.
        """
        values = {
            "url": self.model_url(url),
            "key": KEY,
            "model": MODEL,
            "workspace": str(directories.workspace),
        }
        home = str(directories.home)
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.upper().endswith(_SECRET_ENDINGS)
        }
        env |= {
            "HOME": home,
            "USERPROFILE": home,
            "XDG_CONFIG_HOME": str(directories.home / ".config"),
            "XDG_DATA_HOME": str(directories.home / ".local" / "share"),
            "XDG_STATE_HOME": str(directories.home / ".local" / "state"),
            "XDG_CACHE_HOME": str(directories.home / ".cache"),
            "TMPDIR": str(directories.temporary),
        }
        if self.template is None:
            env["ECA_CONFIG"] = json.dumps(self.configuration(url, more)).decode()
        else:
            file = directories.root / self.template_name
            file.write_text(filled(self.template, values), "utf-8")
            values["file"] = str(file)
        env |= {name: filled(value, values) for name, value in self.env.items()}
        arguments = (*self.command, *self.config_args)
        return [filled(argument, values) for argument in arguments], env


def filled(text: str, values: Mapping[str, str]) -> str:
    """Replace the `{{name}}` placeholders in a text."""
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two configurations: objects are merged, other values of `more` win."""
    result = dict(base)
    for key, value in more.items():
        current = result.get(key)
        if isinstance(current, Mapping) and isinstance(value, Mapping):
            result[key] = merged(current, value)
        else:
            result[key] = value
    return result


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """Yield a new directory by its real path, since servers compare paths."""
    with tempfile.TemporaryDirectory(prefix="eca-conformance-", ignore_cleanup_errors=True) as root:
        yield Path(root).resolve()
