import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol import platforms
from eca_server.agent.tools.ripgrep import find_ripgrep
from eca_server.system.child_process import (
    absolute_entries,
    chat_environment,
    find_own_program,
    find_program,
    find_shell,
    harden_environment,
    note_opened_folders,
)

GIT = shutil.which("git")
SETTING = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.bareRepository",
    "GIT_CONFIG_VALUE_0": "explicit",
}


def a_program(directory: Path, name: str) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("entry", ["", ".", "bin", "./bin", "../ws/bin"])
def test_a_program_of_the_current_folder_is_never_meant_by_name(tmp_path, monkeypatch, entry):
    folder = tmp_path / "ws"
    for name in ("bash", "sh", "rg", "git"):
        for directory in (folder, folder / "bin"):
            a_program(directory, name)
    monkeypatch.chdir(folder)
    only = {"PATH": entry}
    monkeypatch.setenv("PATH", entry)
    assert find_program("git", entry) is None
    assert find_ripgrep() is None
    assert find_shell(only) == "/bin/sh"
    real = a_program(tmp_path / "real", "bash")
    assert find_shell({"PATH": os.pathsep.join([entry, str(real.parent)])}) == str(real)


def test_the_server_itself_runs_no_program_of_an_opened_folder(tmp_path, monkeypatch):
    home, folder, links = tmp_path / "home", tmp_path / "ws", tmp_path / "links"
    environment = folder / ".venv"
    environment.mkdir(parents=True)
    links.mkdir()
    for name in ("bash", "git", "rg"):
        (links / name).symlink_to(a_program(environment, name))
    path = os.pathsep.join([str(environment), str(links)])
    monkeypatch.setenv("PATH", path)
    note_opened_folders([tmp_path], home)
    assert find_own_program("git", path) == str(environment / "git")
    note_opened_folders([folder], home)
    assert find_own_program("git", path) is None
    assert find_ripgrep() is None
    assert find_shell({"PATH": path}) == "/bin/sh"
    real = a_program(tmp_path / "real", "git")
    assert find_own_program("git", os.pathsep.join([path, str(real.parent)])) == str(real)
    assert find_program("git", path) == str(environment / "git")  # one that the user has named


def test_a_program_is_found_by_the_endings_of_the_system(tmp_path, monkeypatch):
    monkeypatch.setattr(platforms, "program_files", lambda path: [f"{path}.com", f"{path}.exe"])
    a_program(tmp_path, "npx")  # a script for shells, beside the program
    assert find_program("npx", str(tmp_path)) is None
    real = a_program(tmp_path, "npx.exe")
    assert find_program("npx", str(tmp_path)) == str(real)


def test_what_is_ours_alone_reaches_no_child():
    kinds = ("", "_TRACES", "_METRICS", "_LOGS")
    ours = {"ECA_CONFIG": "x", **{f"OTEL_EXPORTER_OTLP{kind}_HEADERS": "key" for kind in kinds}}
    others = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SERVICE_NAME": "y"}
    assert harden_environment(ours | others) == others | SETTING
    assert harden_environment({"PATH": ".:/bin::bin:/usr/bin:"})["PATH"] == "/bin:/usr/bin"
    assert "PATH" not in harden_environment({"PATH": ".:"})


def test_git_settings_of_the_user_stay_and_ours_comes_behind_them():
    theirs = {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "user.name",
        "GIT_CONFIG_VALUE_0": "me",
        "GIT_CONFIG_KEY_1": "safe.bareRepository",
        "GIT_CONFIG_VALUE_1": "all",
    }
    assert harden_environment(theirs) == theirs | {
        "GIT_CONFIG_COUNT": "3",
        "GIT_CONFIG_KEY_2": "safe.bareRepository",
        "GIT_CONFIG_VALUE_2": "explicit",
    }
    assert harden_environment({"GIT_CONFIG_COUNT": ""}) == SETTING
    assert harden_environment({"GIT_CONFIG_COUNT": "many"}) == {"GIT_CONFIG_COUNT": "many"}


@given(st.dictionaries(st.sampled_from(["A", "B", "PATH", "GIT_CONFIG_COUNT"]), st.text()))
def test_nothing_else_of_an_environment_changes(environ):
    hardened = harden_environment(environ)
    for name in {"A", "B"} & environ.keys():
        assert hardened[name] == environ[name]
    assert all(Path(each).is_absolute() for each in hardened.get("PATH", "/").split(os.pathsep))
    assert absolute_entries(hardened.get("PATH", "")) == hardened.get("PATH", "")


@pytest.mark.skipif(GIT is None, reason="there is no git")
def test_git_runs_no_program_of_a_bare_repository_it_was_not_pointed_to(tmp_path):
    assert GIT is not None
    bare, mark = tmp_path / "docs", tmp_path / "mark"
    subprocess.run([GIT, "init", "-q", "--bare", str(bare)], check=True)
    with (bare / "config").open("a") as config:
        config.write(f'[core]\nbare = false\nworktree = .\nfsmonitor = "touch {mark}; false"\n')
    plain = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [GIT, "status"]
    subprocess.run(
        command, cwd=bare, env=harden_environment(plain), check=False, capture_output=True
    )
    assert not mark.exists()
    subprocess.run(command, cwd=bare, env=plain, check=False, capture_output=True)
    assert mark.exists(), "the repository of this test has to be dangerous"


@pytest.mark.parametrize(
    ("chat_id", "expected"),
    [("c", "c"), ("x" * 256, "x" * 256), *((odd, None) for odd in ("", "a\0b", "a\nb", "x" * 257))],
)
def test_a_child_knows_that_an_agent_runs_it_and_for_which_chat(chat_id, expected):
    before = {"PATH": "/bin", "ECA_CHAT_ID": "of a server around us"}
    environment = chat_environment(before, chat_id)
    assert (environment.pop("ECA_AGENT"), environment.pop("ECA_CHAT_ID", None)) == ("1", expected)
    assert environment == {"PATH": "/bin", "GIT_EDITOR": "true"}
