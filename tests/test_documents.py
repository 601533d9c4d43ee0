"""The documents say what is so: their examples are run, their settings read, their links followed.

A block of code is run, and prints the block of `text` behind it:

- `python` runs in this process; a block with test functions has them called instead.
- `sh` runs in bash, in a folder where only Python and the console scripts are. With a name (`sh
  run`) `.ci/run` runs it. `sh form` is a form with placeholders; each of its options exists.
- `json` is a configuration that the server takes without a complaint, `yaml` a manifest of `ecp`.
- `text`, `markdown`, `jsonc`, `elisp` and `lua` are output, files and settings of editors.
"""

import fnmatch
import importlib
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import attrs
import pytest

import eca_protocol
from eca_server.agent.chat.subagents import SPAWN_TOOL
from eca_server.agent.commands import COMMANDS
from eca_server.agent.tools.native import NATIVE_NAMES
from eca_server.config.loading import load
from eca_server.ecp.manifest.reading import load_manifest
from eca_server.models.apis import APIS
from eca_server.models.known_providers import KNOWN_PROVIDERS
from tests.eca_server import fork_server

REPOSITORY = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    *(
        REPOSITORY / name
        for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
    ),
    *sorted((REPOSITORY / "docs").glob("*.md")),
    *sorted((REPOSITORY / "docs" / "guides").glob("*.md")),
]
README = REPOSITORY / "README.md"
SDKS = re.compile(r"^(?:from|import) (?:acp|lsprotocol|mcp)\b", re.MULTILINE)
"""Imports of other protocols' SDKs, which take seconds."""

BLOCK = re.compile(r"^```([\w{}-]+)(?: (\w+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NOT_RUN = {"text", "markdown", "jsonc", "elisp", "lua", "{toctree}"}
PROGRAMS = {"python": f'"{sys.executable}" "$@"', "pass": "echo a-key"}


@attrs.frozen
class Block:
    """A block of code, and the text behind it, which it prints."""

    path: Path
    line: int
    kind: str
    name: str | None
    code: str
    printed: str | None

    @property
    def id(self) -> str:
        return f"{self.path.stem}:{self.line}"


def blocks(path: Path) -> Iterator[Block]:
    text = path.read_text("utf-8")
    matches = list(BLOCK.finditer(text))
    for match, after in zip(matches, [*matches[1:], None], strict=False):
        printed = after[3] if after is not None and after[1] == "text" else None
        line = text.count("\n", 0, match.start()) + 1
        yield Block(path, line, match[1], match[2], match[3], printed)


BLOCKS = [block for path in DOCUMENTS for block in blocks(path)]
EXAMPLES = REPOSITORY / "docs" / "examples.json"


def of_kind(kind: str, name: str | None = None) -> pytest.MarkDecorator:
    chosen = [
        pytest.param(block, id=block.id, marks=[pytest.mark.long] * bool(SDKS.search(block.code)))
        for block in BLOCKS
        if (block.kind, block.name) == (kind, name)
    ]
    return pytest.mark.parametrize("block", chosen)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder and a home where nothing is configured, with the programs of the tree under test."""
    scripts = tmp_path / "bin"
    fork_server.write_programs(scripts)
    for name, command in PROGRAMS.items():
        script = scripts / name
        script.write_text(f"#!/bin/sh\nexec {command}\n")
        script.chmod(0o755)
    (tmp_path / "shop").mkdir()
    monkeypatch.setenv("PATH", str(scripts), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "ECA_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(eca_protocol, "SERVER_COMMAND", (*fork_server.command(), "server"))
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The pages that are generated from the settings."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "docs"))
    return importlib.import_module("settings_pages")


def test_every_block_is_of_a_known_kind():
    kinds = {block.kind for block in BLOCKS}
    assert kinds - NOT_RUN == {"python", "sh", "json", "yaml"}


@pytest.mark.usefixtures("environment")
@of_kind("python")
def test_an_example_prints_what_the_document_says(block, tmp_path, capsys):
    path = tmp_path / "example.py"
    path.write_text(block.code, "utf-8")
    names = runpy.run_path(str(path), run_name="__main__")
    tests = [function for name, function in names.items() if name.startswith("test_")]
    for test in tests:
        test()
    assert capsys.readouterr().out == (block.printed or "")
    assert block.printed or tests


@pytest.mark.usefixtures("environment")
@of_kind("sh")
def test_a_command_succeeds_and_prints_what_the_document_says(block):
    done = subprocess.run(
        ["bash", "-e", "-c", block.code],
        capture_output=True, text=True, check=False, timeout=100, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    if block.printed is not None:
        assert done.stdout == block.printed


@pytest.mark.long(but=3)
@pytest.mark.usefixtures("environment")
@of_kind("sh", "form")
def test_each_option_of_a_form_exists(block):
    for line in block.code.splitlines():
        ours = shlex.split(re.split(r" -- |#", line)[0])
        options = [word.partition("=")[0] for word in ours if word.startswith("--")]
        known = _help(*takewhile(lambda word: not re.match(r"--|[A-Z]", word), ours))
        assert not [option for option in options if option not in known], line


@cache
def _help(*command: str) -> str:
    help_command = [*command, "--help"]
    return subprocess.run(
        help_command, capture_output=True, text=True, check=True, env=os.environ
    ).stdout


def test_each_block_with_a_name_is_run_by_the_checks():
    checks = (REPOSITORY / ".ci" / "run").read_text("utf-8")
    named = [block for block in BLOCKS if block.kind == "sh" and block.name not in {None, "form"}]
    assert {block.name for block in named} == {"run", "test", "evaluate", "install"}
    for block in named:
        assert f"run_block {block.path.relative_to(REPOSITORY)} {block.name} " in checks


@pytest.mark.usefixtures("environment")
@of_kind("json")
def test_a_configuration_is_one_that_the_server_takes(block, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(block.code, "utf-8")
    environ = {**os.environ, "TEAM": "x", "TRACKER_SECRET": "x"}
    loaded = load(initialization_options=None, roots=(), environ=environ, config_file=path)
    assert not loaded.problems
    if loaded.config.default_model is not None:
        provider, _, model = loaded.config.default_model.partition("/")
        assert model in loaded.config.providers[provider].models


def test_the_configuration_of_examples_is_one_that_the_server_takes(environment: Path) -> None:
    extra = environment / "work" / "eca.json"
    extra.parent.mkdir()
    extra.write_text("{}")
    environ = {"HOME": str(environment)}
    loaded = load(initialization_options=None, roots=(), environ=environ, config_file=EXAMPLES)
    assert not loaded.problems


def test_the_guide_of_models_names_every_api_and_known_provider() -> None:
    words = re.findall(r"[\w-]+", (REPOSITORY / "docs/guides/models.md").read_text())
    missing = {*KNOWN_PROVIDERS, *APIS} - {*words}
    assert not missing


def test_every_key_of_the_configuration_reference_has_a_meaning_and_an_example(pages):
    _, page = pages.configuration()
    settings = page.partition("## Keys of the top level")[2].partition("## Keys of upstream")[0]
    rows = [row for row in settings.splitlines() if row.startswith("| `")]
    assert len(rows) > 100
    unexplained = [row for row in rows if re.search(r"\* \| +(\||Example: )", row)]
    missing = [row for row in rows if "Example: " not in row]
    assert not unexplained, "write the line of each in the docstring of its class"
    assert not missing, f"give each an example in a guide or in {EXAMPLES}"


def own_files(root: Path) -> Iterator[Path]:
    """Yield the files below a directory, without entering those of other packages."""
    for directory, names, files in os.walk(root):
        names[:] = [name for name in names if name not in {"node_modules", "__pycache__"}]
        yield from (Path(directory, name) for name in files)


def test_the_map_of_the_code_names_files_and_constants_that_exist() -> None:
    text = (REPOSITORY / "CONTRIBUTING.md").read_text("utf-8")
    roots = ("eca_protocol", "eca_server", "tests", "docs", "fuzz", ".ci", ".github")
    files = [path for root in roots for path in own_files(REPOSITORY / root)]
    ends = {
        "/".join(parts[first:last]) + "/" * (last < len(parts))
        for parts in (path.relative_to(REPOSITORY).parts for path in files)
        for last in range(1, len(parts) + 1)
        for first in range(last)
    }
    named = re.findall(r"`([\w./*-]+(?:\.py|\.txt|\.json|/))`", text)
    assert len(named) > 100
    missing = [name for name in named if name not in ends and not fnmatch.filter(ends, name)]
    assert missing == []
    sources = "".join(path.read_text("utf-8") for path in files if path.suffix == ".py")
    constants = re.findall(r"`(_?[A-Z]+_[A-Z_]+)`", text)
    assert [name for name in constants if not re.search(rf"\b{name}\b", sources)] == []


@pytest.mark.parametrize("directory", ["docs/guides", "tests/eca_server"])
def test_every_command_of_a_chat_is_in_a_guide_and_in_a_test(directory: str) -> None:
    paths = [*(REPOSITORY / directory).rglob("*.md"), *(REPOSITORY / directory).rglob("*.py")]
    text = "".join(path.read_text("utf-8") for path in paths)
    named = {*re.findall(r"(?<![\w.*])/([a-z-]+)\b(?!/)", text)}
    names = [each.name for each in COMMANDS]
    assert len(names) == len({*names})
    missing = [name for name in names if name not in named]
    assert not missing, f"write about each, as `/NAME`, in a file of {directory}"


def test_every_variable_of_the_server_is_in_the_configuration_reference(pages):
    _, page = pages.configuration()
    server = (REPOSITORY / "eca_server").rglob("*.py")
    text = "".join(path.read_text("utf-8") for path in server)
    names = {*re.findall(r'"((?:ECA|XDG)_[A-Z_]+)"', text)}
    internal = {"ECA_ARGUMENT_", "XDG_RUNTIME_DIR"}
    assert names > internal
    assert not {name for name in names - internal if f"| `{name}` |" not in page}


def test_the_reference_of_tools_has_every_native_tool(pages):
    _, page = pages.commands()
    listed = {*re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)}
    assert listed == {*NATIVE_NAMES, SPAWN_TOOL} - {"search_tools", "call_tool"}


def test_the_reference_of_the_api_has_each_name_of_the_package(pages):
    api = dict(importlib.import_module("generated_pages")._api())
    assert "api-eca_protocol-client.rst" in api
    listed = {*re.findall(r"^\| \{py:obj\}`(\w+) <", api["api.md"], re.MULTILINE)}
    assert listed == {*eca_protocol.__all__} - {"messages", "methods", "sync"}


@of_kind("yaml")
def test_a_manifest_is_valid(block, tmp_path):
    path = tmp_path / "manifest.yaml"
    path.write_text(block.code, "utf-8")
    assert not load_manifest(path).warnings


def anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings, as hosts and the site make them."""
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", path.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_every_link_to_a_file_or_heading_leads_somewhere(path):
    text = BLOCK.sub("", path.read_text("utf-8"))
    for target in re.findall(r"\]\(((?!\w+:)[^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        if name.startswith(("generated/", "../generated/")):
            continue  # Sphinx follows these
        file = (path.parent / name).resolve() if name else path
        assert file.is_file(), target
        assert not anchor or file.suffix != ".md" or anchor in anchors(file), target


def test_the_readme_is_short():
    assert len(README.read_text("utf-8").split()) <= 900


def test_each_module_that_contributing_names_by_its_path_exists() -> None:
    text = (REPOSITORY / "CONTRIBUTING.md").read_text("utf-8")
    paths = set(re.findall(r"(?:tests|docs|eca_protocol|eca_server|\.ci)/[\w/]+\.py\b", text))
    assert paths
    assert [path for path in sorted(paths) if not (REPOSITORY / path).is_file()] == []
