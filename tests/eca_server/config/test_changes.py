"""A second load: changed and broken files; and hostile files, which cost only themselves."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

MODEL = {"defaultModel": "a/b"}


def write(path: Path) -> None:
    path.write_text('{"defaultModel": "c/d"}')


def replace(path: Path) -> None:
    """Save as editors do: replace the file by a new one of the same size and time."""
    times = path.stat()
    new = path.with_name("new")
    new.write_text(path.read_text().replace("a/b", "c/d"))
    os.utime(new, ns=(times.st_atime_ns, times.st_mtime_ns))
    new.replace(path)


def add_agents(path: Path) -> None:
    path.with_name("agents").mkdir()


def rewrite_the_key(path: Path) -> None:
    path.with_name("key").write_text("sk-longer")


def turn_the_link(path: Path) -> None:
    target = path.with_name("target.json")
    target.write_text(path.read_text())
    path.unlink()
    path.symlink_to(target)


@pytest.mark.parametrize(
    "change", [write, replace, Path.unlink, add_agents, rewrite_the_key, turn_the_link]
)
def test_a_change_to_any_of_the_files_is_seen(house, change):
    path = house.in_root(0, {**MODEL, "providers": {"p": {"key": "${file:key}"}}})
    house.write(path.with_name("key"), "sk-1")
    loaded = house.load()
    assert loaded.is_current()
    change(path)
    assert not loaded.is_current()


def test_a_link_of_the_user_that_leads_nowhere_keeps_the_content_and_is_reported(house):
    rules = {"toolCall": {"approval": {"deny": {"eca": {}}}}}
    target = house.write(house.folder / "dotfiles" / "config.json", rules)
    house.in_user({}).unlink()
    file = house.home / ".config" / "eca" / "config.json"
    file.symlink_to(target)
    before = house.load()
    assert "eca" in before.config.tool_call.approval.deny
    target.unlink()
    assert not before.is_current()
    loaded = house.load(before)
    assert loaded.config == before.config
    (problem,) = loaded.problems
    assert (problem.source, problem.level) == (str(file), "error")
    assert problem.message.startswith("the link leads to no file")
    assert house.problem().message == "the link leads to no file"


@pytest.mark.parametrize("content", [b"{", b'{"defaultModel": "c/', b"[]", b"\xff", None])
def test_a_file_that_breaks_counts_as_it_was_until_it_is_fixed_or_removed(house, content):
    path = house.in_root(0, {**MODEL, "lspTimeoutSeconds": 5})
    before = house.load()
    path.unlink()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    house.in_root(1, {"welcomeMessage": "hello"})
    loaded = house.load(before)
    assert (loaded.config.default_model, loaded.config.lsp_timeout) == ("a/b", 5)
    assert loaded.config.welcome_message == "hello"
    (problem,) = loaded.problems
    assert problem.source == str(path)
    assert problem.message.endswith("its previous content stays in force)")
    again = house.load(loaded)
    assert again.config == loaded.config
    if content is None:
        path.rmdir()
    else:
        path.write_text('{"defaultModel": "c/d"}')
        assert not again.is_current()
    fixed = house.load(again)
    assert (fixed.config.default_model, fixed.problems) == ("c/d" if content else None, ())


def test_the_file_that_was_asked_for_counts_as_it_was_when_it_is_gone(house):
    house.config_file = house.write(house.folder / "c.json", MODEL)
    before = house.load()
    house.config_file.unlink()
    loaded = house.load(before)
    assert (loaded.config.default_model, len(loaded.problems)) == ("a/b", 1)


def test_a_prompts_file_is_looked_for_beside_the_file_that_names_it(house):
    folder = house.in_root(0, {"behavior": {"a": {"systemPromptFile": "prompts/a.md"}}}).parent
    house.in_user({"behavior": {"b": {"systemPromptFile": "~/b.md"}}})
    house.environ["ECA_CONFIG"] = '{"behavior": {"c": {"systemPromptFile": "c.md"}}}'
    behaviors = house.load().config.behaviors
    files = [behaviors[name].system_prompt_file for name in "abc"]
    assert files == [str(folder / "prompts" / "a.md"), str(house.home / "b.md"), None]
    problem = house.problem()
    assert (problem.source, problem.key) == ("ECA_CONFIG", "behavior.c.systemPromptFile")


def test_an_impossible_path_is_a_problem_and_no_crash(house):
    house.in_root(0, {"providers": {"p": {"key": "${file:/a\\u0000b}"}}})
    house.in_root(1, '{"providers": {"q": {"key": "${file:/a\\u0000b}"}}}')
    loaded = house.load()
    assert [problem.key for problem in loaded.problems] == ["providers.p.key", "providers.q.key"]
    assert loaded.is_current()
    assert Path("/a\0b") in loaded.files


def make(house, kind: str) -> Path:
    path = house.roots[0] / ".eca" / "config.json"
    path.parent.mkdir(parents=True)
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")
        case "loop":
            path.symlink_to(path)
        case "large":
            path.write_bytes(b" " * (5 * 2**20))
        case "huge":
            path.touch()
            os.truncate(path, 2**42)
        case "not UTF-8":
            path.write_bytes(b'{\n"defaultModel": "\xff"}')
        case "deep":
            path.write_text('{"a":' * 100_000)
        case "long number":
            path.write_text(f'{{"connectTimeoutSeconds": {"9" * 10_000}}}')
    return path


@pytest.mark.parametrize(
    "kind",
    ["pipe", "directory", "device", "loop", "large", "not UTF-8", "huge", "deep", "long number"],
)
def test_it_is_named_and_the_rest_counts_also_where_it_is_a_reference(house, kind):
    path = make(house, kind)
    house.in_root(1, {"defaultModel": "a/b"})
    problem = house.problem()
    assert problem.source == str(path)
    assert problem.line == (2 if kind == "not UTF-8" else None)
    house.options = {"welcomeMessage": f"${{file:{path}}}"}
    loaded = house.load()
    assert loaded.config.default_model == "a/b"
    if kind not in {"deep", "long number"}:
        reference, _ = loaded.problems
        assert reference.key == "welcomeMessage"
        assert str(path) in reference.message


@pytest.mark.parametrize("code", [errno.EACCES, errno.ESTALE])
@pytest.mark.parametrize("place", ["root", "target of a link"])
def test_a_folder_that_cannot_be_accessed_counts_as_absent(house, monkeypatch, code, place):
    hidden = house.roots[0]
    if place != "root":
        (house.roots[0] / ".eca").mkdir(parents=True)
        hidden = house.folder / "elsewhere"
        (house.roots[0] / ".eca" / "agents").symlink_to(hidden / "agents")
        (house.roots[0] / ".eca" / "config.json").symlink_to(hidden / "config.json")
    house.in_root(1, {"defaultModel": "a/b"})
    stat = os.stat

    def refuse(path: Any, **options: Any) -> os.stat_result:
        if not isinstance(path, int) and os.path.realpath(path).startswith(str(hidden)):
            raise OSError(code, os.strerror(code), str(path))
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", refuse)
    assert house.config().default_model == "a/b"


MANY = {f"s{number}": {"command": "c"} for number in range(600)}
DEEP = json.loads("[" * 140 + "]" * 140)


@pytest.mark.parametrize(
    ("servers", "waiting", "words"),
    [
        ({"s": {"command": "c" * 2**20}}, 0, "expected at most 1048576 bytes, got more"),
        ({"s": {"args": ["a"] * 10_000}}, 0, "expected at most 10,000 values of a folder"),
        (MANY, 500, "100 settings do not count: a folder may have 500"),
        ({"s": DEEP}, 0, "128"),
    ],
    ids=["bytes", "values", "settings", "depth"],
)
@pytest.mark.parametrize("is_extra", [False, True])
def test_a_folder_configures_a_bounded_amount(untrusted, servers, waiting, words, is_extra):
    content = {"mcpServers": servers}
    if is_extra:
        untrusted.write(untrusted.roots[0] / ".eca" / "extra.json", content)
        content = {"extraConfigs": [".eca/extra.json"]}
    untrusted.in_root(0, content)
    loaded = untrusted.load(trusts_workspace=is_extra)
    if not is_extra:
        assert len(loaded.withheld) == waiting
    assert len(loaded.config.mcp_servers) == waiting
    assert any(words in str(problem) for problem in loaded.problems)


def test_a_folder_names_a_bounded_number_of_files(untrusted):
    names = "".join(f"${{file:{number}}}" for number in range(2_100))
    untrusted.in_root(0, {"prompts": {"chat": names}})
    assert sum(path.name.isdigit() for path in untrusted.load().files) <= 2_000


def test_what_is_refused_is_not_reported_without_end(house):
    house.in_root(0, {"providers": {"openai": {f"k{number}": 1 for number in range(1_000)}}})
    assert len(house.load(known_providers=lambda: ["openai"]).problems) < 100
