"""The plan of a sandbox and its two spellings: pure, so for both systems on any machine."""

import os
import sys
from pathlib import Path

import attrs
import pytest

from eca_server.agent.sandbox import bubblewrap, seatbelt
from eca_server.agent.sandbox.active import restrict
from eca_server.agent.sandbox.credentials import credential_paths, listening_sockets
from eca_server.agent.sandbox.guards import RESERVED_NAMES, is_guarded
from eca_server.agent.sandbox.hints import is_setup_failure, sandbox_hint
from eca_server.agent.sandbox.plan import Plan, make_plan, writable_roots
from eca_server.agent.sandbox.survey import Survey, TooLarge, survey
from tests.eca_server.agent.sandbox import keyrings

ROOT = Path("/home/me/work")
FILE = (1, 2, 3)


def plan(
    *guarded: str,
    links: tuple[str, ...] = (),
    hidden: dict[str, bool] | None = None,
    **more: object,
) -> Plan:
    root_survey = Survey(
        root=ROOT,
        guarded={ROOT / name: FILE for name in guarded},
        links={ROOT / name: "elsewhere" for name in links},
        skipped=frozenset(),
    )
    places = {Path(path): is_directory for path, is_directory in (hidden or {}).items()}
    visible = {Path("/tmp"): True, Path("/run"): True, Path("/run/systemd/resolve"): True}
    return make_plan([root_survey], hidden=places, visible=visible, **more)  # type: ignore[arg-type]


def test_the_deepest_path_wins() -> None:
    hidden = {"/home/me": True, "/home/me/work/keys": True, "/home/me/.netrc": False,
              "/home/me/work": True}  # fmt: skip
    mounts = plan(hidden=hidden).mounts
    assert mounts[ROOT] == "write"
    assert mounts[ROOT / "keys"] == "hidden"
    assert mounts[Path("/home/me")] == "hidden"
    assert Path("/home/me/.netrc") not in mounts  # nothing is left of what it lies in


@pytest.mark.parametrize("network", [False, True])
def test_the_network_and_its_resolver_come_together(network: bool) -> None:
    made = plan(network=network)
    command = bubblewrap.arguments("/usr/bin/bwrap", made, ROOT, can_disable_userns=True)
    assert ("--unshare-net" in command) is not network
    assert (Path("/run/systemd/resolve") in made.mounts) is network
    if sys.byteorder == "little":
        assert command[:2] == ("/bin/sh", "-c")
        assert Path(command[3]).read_bytes() == keyrings.filter_program()
    assert "--disable-userns" in command
    old = bubblewrap.arguments("/usr/bin/bwrap", made, ROOT, can_disable_userns=False)
    assert "--disable-userns" not in old


def test_the_profile_of_macos() -> None:
    made = plan(".git", "a/AGENTS.md", hidden={"/home/me/.ssh": True, "/home/me/.netrc": False})
    text = seatbelt.profile(made)
    lines = text.splitlines()
    assert lines[:2] == ["(version 1)", "(deny default)"]
    allowed = lines.index(f'(allow file-write* (subpath "{ROOT}"))')
    guard = lines.index(f'(deny file-write* (subpath "{ROOT}/.git"))')
    hides = lines.index('(deny file-read* file-write* network-outbound (subpath "/home/me/.ssh"))')
    assert allowed < guard < hides
    assert f'(deny file-write-unlink (literal "{ROOT}/a"))' in lines
    assert rf'(deny file-write* (regex #"^{ROOT}/(.*/)?\.[Vv][Ss][Cc][Oo][Dd][Ee](/|$)"))' in lines
    assert "(allow network" not in text
    assert "appleevent" not in text  # nor anything else that is not allowed by name
    assert text.count("(") == text.count(")")
    text = seatbelt.profile(plan(network=True))
    opened = text.index("(allow network*)")
    assert text.index("(deny network-outbound (remote unix-socket))") > opened


def test_nothing_in_a_path_ends_a_string_of_the_profile() -> None:
    root = Path('/w/a") (allow file-write* (subpath "/x')
    root_survey = Survey(root=root, guarded={}, links={}, skipped=frozenset())
    text = seatbelt.profile(make_plan([root_survey], hidden={}, visible={}))
    assert '(allow file-write* (subpath "/w/a\\") (allow file-write* (subpath \\"/x"))' in text
    assert '(subpath "/x"))' not in text.replace('\\"', "'")


def test_a_root_with_the_home_in_it_is_not_writable() -> None:
    home = Path("/home/me")
    roots = [home, Path("/home"), Path("/"), home / "work", Path("/srv")]
    assert writable_roots(roots, home) == (home / "work", Path("/srv"))


@pytest.mark.parametrize(
    ("path", "is_directory", "expected"),
    [
        (".git", True, True),
        (".git", False, True),
        (".github", True, False),
        (".github/workflows", True, True),
        ("workflows", True, False),
        ("a/b/agents.md", False, True),
        ("agents.md", True, False),
        ("x.code-workspace", False, True),
        ("code-workspace", False, False),
        ("src/main.py", False, False),
        *((name, False, True) for name in RESERVED_NAMES),
    ],
)
def test_the_table_of_guarded_paths(path: str, is_directory: bool, expected: bool) -> None:
    *parents, name = path.split("/")
    assert is_guarded(tuple(parents), name, is_directory=is_directory) is expected


def test_our_own_directories_are_credential_paths() -> None:
    environ = {"HOME": "/h", "XDG_DATA_HOME": "/data", "KUBECONFIG": "/a/kube:/b/kube"}
    environ["NETRC"] = "/"
    places = set(credential_paths(environ, ("/own/netrc",)))
    assert {Path("/h/.ssh"), Path("/h/.config/eca"), Path("/data/eca-python"), Path("/a/kube"),
            Path("/b/kube"), Path("/own/netrc"),
            Path("/data/eca-python/logins.json")} <= places  # fmt: skip
    assert Path("/") not in places


def test_sockets_with_a_path_are_read_from_the_table_of_the_kernel() -> None:
    table = (
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "00000: 00000002 00000000 00010000 0001 01 12 /run/a b.sock\n"
        "00000: 00000002 00000000 00010000 0001 01 13 @abstract\n"
        "00000: 00000003 00000000 00000000 0001 03 14\n"
    )
    assert list(listening_sockets(table)) == [Path("/run/a b.sock")]


def test_a_directory_that_cannot_be_listed_is_guarded_as_a_whole(tmp_path, monkeypatch):
    hidden = tmp_path / "new"
    (hidden / ".git").mkdir(parents=True)
    listed = os.scandir

    def scandir(path: Path) -> object:  # for root each directory can be listed
        if path == hidden:
            raise PermissionError
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert set(survey(tmp_path).guarded) == {hidden}


def test_packages_are_not_searched_and_a_workspace_has_a_limit(tmp_path: Path) -> None:
    for path in ("node_modules/p/.vscode", "venv/lib/.idea", "src/.idea"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "venv/pyvenv.cfg").touch()
    root_survey = survey(tmp_path)
    idea, environment = tmp_path / "src/.idea", tmp_path / "src/pyvenv.cfg"
    assert set(root_survey.guarded) == {idea}
    assert root_survey.skipped == {tmp_path / "node_modules", tmp_path / "venv"}
    environment.touch()  # an environment that was none before is looked into
    assert set(survey(tmp_path, root_survey.skipped).guarded) == {idea, environment}
    with pytest.raises(TooLarge, match="more than 4 files"):
        survey(tmp_path, max_entries=4)


@pytest.mark.parametrize(
    ("stderr", "network", "expected"),
    [
        ("touch: cannot touch 'x': Read-only file system", True, "write only in the workspace"),
        ("curl: (6) Could not resolve host: example.com", False, "without network"),
        ("curl: (6) Could not resolve host: example.com", True, ""),
        ("2 tests failed", False, ""),
        ("/home/me/sandbox/main.c:1: error", False, ""),
        ("", False, ""),
        ("bwrap: Can't mkdir /x: Permission denied", False, "could not be set up"),
    ],
)
def test_signs_of_the_sandbox_in_an_output(stderr: str, network: bool, expected: str) -> None:
    hint = sandbox_hint(stderr, "", network=network, may_leave=True)
    assert expected in hint
    assert bool(hint) is bool(expected)
    assert ("outside_sandbox" in hint) is bool(expected)
    assert "outside_sandbox" not in sandbox_hint(stderr, "", network=network, may_leave=False)


def test_a_failure_of_bubblewrap_itself_is_recognized() -> None:
    failure = "Stderr:\nbwrap: Can't find source path /x: No such file\n"
    assert is_setup_failure(["Exit code 1", failure, "..."])
    for texts in (
        ["Exit code 1", "Stderr:\nbwrap: Can't x\nand the command said this\n"],
        ["Exit code 1"],
        ["bwrap: Can't", "fine"],
    ):
        assert not is_setup_failure(texts)


def test_paths_that_running_sandboxes_could_swap_are_hidden() -> None:
    made = plan(".git", "a/.vscode", "a/AGENTS.md", hidden={"/home/me/.ssh": True})
    directories = frozenset({ROOT / ".git", ROOT / "a/.vscode"})
    made = attrs.evolve(made, directories=directories)
    assert restrict(made, []) == made
    assert restrict(made, [frozenset(made.mounts)]) == made
    beside = restrict(made, [frozenset(made.mounts), frozenset({ROOT, ROOT / ".git"})]).mounts
    expected = {
        ROOT: "write",
        ROOT / ".git": "read",
        ROOT / "a/.vscode": "hidden",
        ROOT / "a/AGENTS.md": "hidden-file",
        Path("/home/me/.ssh"): "hidden",
    }
    assert {path: beside.get(path) for path in expected} == expected
    assert ROOT / "a" not in beside
