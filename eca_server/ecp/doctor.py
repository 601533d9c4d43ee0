"""`ecp doctor`: the installation and settings for evaluating agents. Keys are never shown."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path

from eca_protocol.ecp.methods import PROTOCOL_VERSION
from eca_server.ecp.graders.settings import read_settings
from eca_server.ecp.manifest.model import Unusable
from eca_server.ecp.manifest.reading import GRADER_GROUP
from eca_server.version import version


def describe_installation(environment: Mapping[str, str]) -> str:
    """Return a line for each fact."""
    rows = [
        ("runtime", f"eca-protocol {version()}, protocol {PROTOCOL_VERSION}"),
        ("Python", f"{platform.python_version()} at {sys.executable}"),
        ("folder", str(Path.cwd())),
        ("git", shutil.which("git") or "not found"),
        *_judge(environment),
        ("graders", ", ".join(e.name for e in entry_points(group=GRADER_GROUP)) or "built-in only"),
    ]
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name:<{width}}  {value}\n" for name, value in rows)


def _judge(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    try:
        judge = read_settings(environment).judge
    except Unusable as fault:
        return [("judge", f"cannot be used: {fault}")]
    key = "set" if environment.get(judge.key_variable, "").strip() else "not set"
    return [
        ("judge", f"{judge.model}, temperature {judge.temperature:g}, {judge.deadline:g} s"),
        ("judge's key", f"{judge.key_variable} is {key}"),
        ("judge's URL", "OPENAI_BASE_URL is set" if judge.url else "the provider's default"),
    ]
