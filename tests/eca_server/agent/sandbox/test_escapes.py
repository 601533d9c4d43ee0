"""Attempts to get out of the sandbox, in a real one: each of them must leave nothing behind."""

import ctypes
import os
import platform
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_server.agent.sandbox import sandbox as module
from eca_server.agent.sandbox import survey
from eca_server.agent.sandbox.detect import capability
from tests.eca_server.agent.context.conftest import write
from tests.eca_server.agent.sandbox.conftest import SECRET, World, needs_bubblewrap, python
from tests.eca_server.agent.tools.file_tools import texts, until
from tests.eca_server.workspace.conftest import run_git

pytestmark = needs_bubblewrap


def tree(directory: Path) -> dict[str, str]:
    """Return every file below a directory, with its content or target."""
    return {
        str(path.relative_to(directory)): str(path.readlink()) if path.is_symlink()
        else path.read_text(errors="surrogateescape")
        for path in directory.rglob("*")
        if path.is_symlink() or path.is_file()
    }  # fmt: skip


async def test_a_command_reads_other_files_and_writes_in_the_workspace_and_its_own_tmp(world):
    world.write("notes.txt", "a note")
    text = await world.output_of(
        "cat ~/notes.txt; mkdir -p a/b && echo new >a/b/file && rm -r a/b/.x; ls -A; "
        "cd /tmp && echo x >eca-own && ls; echo $TMPDIR"
    )
    assert "a note" in text
    assert ".vscode" in text  # a reserved name, which does not stay
    assert "eca-own" in text
    assert not Path("/tmp", "eca-own").exists()
    assert tree(world.root) == {"a/b/file": "new\n"}
    assert [path.name for path in world.root.iterdir()] == ["a"]


async def test_several_roots_and_configured_directories_are_writable_and_no_others(world):
    other, cache = world.home / "work/other", world.home / ".cache/pip"
    other.mkdir()
    cache.mkdir(parents=True)
    await world.output_of(
        f"touch ../other/yes; touch ../no; mkdir ../third; touch {cache}/yes {cache.parent}/no",
        roots=(world.root, other),
        writable=(cache,),
    )
    assert sorted(tree(world.home)) == [".cache/pip/yes", "work/other/yes"]
    assert not (world.home / "work/third").exists()


async def test_git_reads_a_repository(world):
    run_git(world.root, "init", "-q")
    run_git(world.root, "commit", "-q", "--allow-empty", "-m", "the first")
    assert "the first" in await world.output_of("git status && git log --oneline")


@pytest.mark.parametrize(
    "command",
    [
        "echo x >>~/.bashrc",
        "mkdir -p ~/.config/autostart",
        "touch ../sibling",
        "ln -s ~ out && touch out/sibling",
        "mv ../project ../moved",
        "cd .. && rm -r project; mkdir -p evil",
        "touch /proc/self/root$HOME/x /proc/self/cwd/../x",
        "mount -o remount,rw / && touch ~/x",
        "umount -l ~ ; touch ~/x",
        "unshare -Urm sh -c 'mount -o remount,rw,bind / ; touch ~/x'",
        "chmod 777 ~ ; chmod u+w ~/.bashrc; echo x >~/.bashrc",
    ],
)
async def test_nothing_is_written_outside_of_the_workspace(world, command):
    world.write(".bashrc", "as it was")
    world.write("work/project/kept", "here")
    await world.run(command)
    outside = {path: text for path, text in tree(world.home).items() if "work/project" not in path}
    assert outside == {".bashrc": "as it was"}
    assert world.root.is_dir()


async def test_only_the_workspace_and_private_directories_are_writable(world):
    text = await world.output_of(
        python(
            "import os",
            "for line in open('/proc/self/mountinfo'):",
            "    place = line.split()[4]",
            "    if os.path.isdir(place):",
            "        try: open(place + '/eca-probe', 'w').close(); print('wrote', place)",
            "        except OSError: pass",
            "print('done')",
        )
    )
    wrote = {line.split()[1] for line in text.splitlines() if line.startswith("wrote")}
    private = {"/tmp", "/var/tmp", "/run", "/dev", "/dev/shm"}
    assert "done" in text
    assert str(world.root) in wrote
    assert wrote - {str(world.root)} <= private


async def test_the_environment_of_the_server_is_read_only(world, monkeypatch):
    own = world.root / "tools/.venv"
    monkeypatch.setattr(survey, "_OWN_ENVIRONMENT", own)
    module = world.write("work/project/tools/.venv/lib/module.py", "harmless")
    world.write("work/project/tools/.venv/pyvenv.cfg")
    text = await world.output_of(
        "cat tools/.venv/lib/module.py; echo evil >tools/.venv/lib/module.py; "
        "mv tools old; mv tools/.venv tools/old; rm -rf tools; touch written"
    )
    assert "harmless" in text
    assert module.read_text() == "harmless"
    assert (world.root / "written").exists()


async def test_the_user_s_configuration_is_read_only(world):
    own = world.write("work/project/eca/config.json", "harmless")
    command = "cat eca/config.json; echo evil >eca/config.json; mv eca old; touch eca/other here"
    text = await world.output_of(command, configuration=lambda: {own, Path("/elsewhere")})
    assert "harmless" in text
    assert tree(world.root) == {"eca/config.json": "harmless", "eca/other": "", "here": ""}
    await world.output_of("touch more", configuration=lambda: {world.root})
    assert not (world.root / "more").exists()


async def test_kernel_settings_cannot_be_changed(world):
    before = Path("/proc/sys/kernel/core_pattern").read_text()
    text = await world.output_of(
        "echo '|/bin/sh' >/proc/sys/kernel/core_pattern; echo h >/proc/sysrq-trigger; "
        "echo 1 >/proc/irq/default_smp_affinity; echo 9 >/proc/self/oom_score_adj; "
        "grep CapEff /proc/self/status; cat /proc/self/oom_score_adj"
    )
    assert Path("/proc/sys/kernel/core_pattern").read_text() == before
    assert "CapEff:\t0000000000000000" in text
    assert "\n9\n" not in text


@pytest.mark.skipif(not capability().can_disable_userns, reason="this bubblewrap is older than 0.8")
async def test_no_further_namespaces_are_made(world):
    assert "made" not in await world.output_of("unshare -Ur true && echo made")


KEYS = [".ssh/id_ed25519", ".aws/credentials", ".gnupg/secring", ".netrc", ".config/gcloud/x.db",
        ".local/share/eca-python/logins.json", ".config/eca/config.json", ".mozilla/p/key4.db",
        ".docker/config.json", ".kube/config", ".git-credentials", ".bash_history",
        ".env", ".bitcoin/wallet.dat", ".config/opencode/x", ".mcp-auth/x/y.json",
        ".lesshst", ".local/share/atuin/key", ".pulumi/credentials.json",
        ".dbt/profiles.yml"]  # fmt: skip


async def test_credentials_are_not_readable(world):
    command = ""
    for number, path in enumerate(KEYS):
        key = world.write(path, f"{SECRET}: {path}\n")
        (world.root / f"link{number}").symlink_to(key)
        command += f"cat ~/{path} link{number} /proc/1/root{key} /proc/self/root{key}; "
        command += f"ln {key} hard{number}; cat hard{number}; cp -r ~/{Path(path).parts[0]} copy; "
    text = await world.output_of(f"{command}cat $(find copy -type f); echo done")
    assert "done" in text
    assert SECRET not in text
    assert not any(SECRET in each for name, each in tree(world.root).items() if "link" not in name)


async def test_credentials_that_a_variable_or_the_configuration_names_are_hidden(world):
    one, two = world.write("cloud/service.json", SECRET), world.write("own-netrc", SECRET)
    key = world.write("dotfiles/ssh/id", SECRET)
    (world.home / ".ssh").symlink_to(key.parent)  # hidden at its target
    world.environ["GOOGLE_APPLICATION_CREDENTIALS"] = str(one)
    command = f"cat {one} {two} ~/.ssh/id {key}"
    assert SECRET not in await world.output_of(command, credential_files=(str(two),))
    assert SECRET in await world.output_of(f"cat {two}")


async def test_a_workspace_in_a_hidden_directory_is_visible_alone(world):
    world.write(".config/eca/config.json", SECRET)
    root = world.home / ".config/eca/rules"
    root.mkdir()
    text = await world.output_of("echo x >rule.md; cat ../config.json", roots=(root,))
    assert SECRET not in text
    assert (root / "rule.md").read_text() == "x\n"


async def test_a_home_that_is_the_workspace_is_not_writable(world):
    world.write(".ssh/id", SECRET)
    text = await world.output_of("cat .ssh/id; touch .bashrc x", roots=(world.home,))
    assert SECRET not in text
    assert sorted(tree(world.home)) == [".ssh/id"]


async def test_the_memory_and_environment_of_other_processes_cannot_be_read(world):
    sleeper = subprocess.Popen(["sleep", "60"], env={"KEY": SECRET, "PATH": os.environ["PATH"]})
    try:
        text = await world.output_of(
            f"cat /proc/{sleeper.pid}/environ /proc/*/environ | tr '\\0' '\\n'; "
            f"cd /proc/{sleeper.pid} && cat root/etc/passwd; kill -9 {sleeper.pid}; kill -9 -1"
        )
        assert SECRET not in text
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


async def test_a_running_command_cannot_swap_a_link_under_the_next_one(world, monkeypatch):
    """The first command replaces a guarded directory by a link after the next one's survey."""
    world.write(".ssh/id", SECRET)
    root = world.root
    original = module._prefix

    def prefix(*arguments: Any) -> tuple[str, ...]:
        (root / "swap").touch()
        while not (root / "swapped").exists():
            time.sleep(0.005)
        return original(*arguments)

    first = (
        "mkdir -p x/.vscode; echo 1 >x/.vscode/t; touch made; "
        "until [ -e swap ]; do sleep .01; done; mv x/.vscode y; ln -s ../../../.ssh x/.vscode; "
        "touch swapped; until [ -e end ]; do sleep .01; done"
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.run, first)
        await until((root / "made").exists)
        monkeypatch.setattr(module, "_prefix", prefix)
        text = await world.output_of("ls x/.vscode ~/.ssh; cat x/.vscode/id ~/.ssh/id; echo done")
        (root / "end").touch()
    assert SECRET not in text


async def test_variables_and_descriptors_that_lead_outside_are_not_inherited(world):
    world.environ |= {"SSH_AUTH_SOCK": "/x/agent", "TMUX": "/x/tmux", "KEPT": "yes"}
    with world.write("somewhere", SECRET).open() as file:
        number = file.fileno()
        os.set_inheritable(number, True)
        text = await world.output_of(f"cat /proc/self/fd/{number} <&{number}; ls /proc/$$/fd; env")
    assert SECRET not in text
    assert "SSH_AUTH_SOCK" not in text
    assert "TMUX" not in text
    assert "KEPT=yes" in text


def answering(server: socket.socket) -> None:
    """Send the secret to every connection until the socket is closed."""

    def answer() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                connection.sendall(SECRET.encode())
                connection.close()

    server.listen()
    threading.Thread(target=answer, daemon=True).start()


def connecting(family: str, address: object) -> str:
    return python(
        "import socket",
        f"s = socket.socket(socket.{family})",
        "s.settimeout(5)",
        f"s.connect({address!r})",
        "print(s.recv(100).decode())",
    )


async def test_the_network_is_closed_even_on_loopback_unless_it_is_allowed(world):
    with socket.create_server(("127.0.0.1", 0)) as server:
        answering(server)
        command = connecting("AF_INET", server.getsockname())
        assert SECRET not in await world.output_of(command)
        assert SECRET in await world.output_of(command, network=True)


@pytest.mark.parametrize(
    ("place", "network"),
    [
        ("abstract", False),
        ("some/agent.sock", False),
        ("some/agent.sock", True),
        ("work/project/dev.sock", True),
        ("run.sock", True),
    ],
)
async def test_a_socket_of_another_program_is_not_reached(world, place, network):
    address = f"\0eca-{os.getpid()}" if place == "abstract" else str(world.home / place)
    world.write(place).unlink()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        answering(server)
        text = await world.output_of(connecting("AF_UNIX", address), network=network)
    assert SECRET not in text


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a repository with guarded paths, once."""
    root = tmp_path_factory.mktemp("repository")
    run_git(root, "init", "-q", "--template=")
    (root / ".git" / "hooks").mkdir()
    for path, text in {
        ".github/workflows/ci.yml": "ci", "src/AGENTS.md": "words", ".vscode/settings.json": "{}",
        "AGENTS.md": "words",
    }.items():  # fmt: skip
        write(root / path, text)
    (root / "CLAUDE.md").symlink_to("AGENTS.md")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-q", "-m", "all")
    run_git(root, "init", "-q", "--template=", "sub/inner")
    (root / "sub/inner/.git/hooks").mkdir()
    return root


@pytest.fixture
def repository(world: World, prepared: Path) -> Path:
    shutil.copytree(prepared, world.root, symlinks=True, dirs_exist_ok=True)
    return world.root


def guarded_files(root: Path) -> dict[str, str]:
    return {
        path: text for path, text in tree(root).items()
        if ".withheld" not in path and not path.startswith(("x/", "y", "kept"))
    }  # fmt: skip


@pytest.mark.parametrize(
    "command",
    [
        "echo x >.git/hooks/pre-commit",
        "echo x >>.git/config",
        "git config core.fsmonitor ./x",
        "echo /elsewhere >.git/commondir",
        "mv .git g; mkdir -p .git/hooks; echo x >.git/hooks/pre-commit",
        "rm -rf .git",
        "mv .github x; mkdir -p .github/workflows; echo x >.github/workflows/ci.yml",
        "mv .github/workflows .github/y; mkdir .github/workflows; echo x >.github/workflows/a.yml",
        "mv src x; mkdir src; echo x >src/AGENTS.md",
        "echo x >src/AGENTS.md",
        "mv sub x; mkdir -p sub/inner/.git; echo x >sub/inner/.git/config",
        "echo x >sub/inner/.git/hooks/post-checkout",
        "echo x >.vscode/settings.json; rm .vscode/settings.json; mv .vscode x; ln -s x .vscode",
        "sed -i s/words/evil/ AGENTS.md; echo x >CLAUDE.md",
        "ln -f .vscode/settings.json y; echo evil >y",
        "ln .git/config y && echo evil >>y",
        "rm CLAUDE.md; echo evil >CLAUDE.md",
        "rm CLAUDE.md; ln -s x CLAUDE.md",
        "truncate -s 0 .git/HEAD; echo x >.git/HEAD.lock",
        "mkdir x; mv x .idea; echo x >.idea/workspace.xml",
        "mkdir -p .husky; echo x >.husky/pre-commit",
        "echo x >.envrc; echo x >.mcp.json; ln -s x .exrc",
        "mkdir -p .devcontainer && echo x >.devcontainer/devcontainer.json",
    ],
)
async def test_guarded_paths_stay_unchanged(repository, world, command):
    before = guarded_files(repository)
    await world.run(command)
    assert guarded_files(repository) == before


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("mkdir -p new/.vscode && echo x >new/.vscode/tasks.json", "new/.vscode"),
        ("echo x >GEMINI.md", "GEMINI.md"),
        ("echo x >src/.bashrc", "src/.bashrc"),
        ("mkdir .VSCode && echo x >.VSCode/tasks.json", ".VSCode"),
        ("git init -q new", "new/.git"),
        ("git init -q --bare bare", "bare/config"),
        ("mkdir -p x y/refs y/objects; echo ../y >x/commondir; cp .git/HEAD x", "x/commondir"),
        ("mkdir -p .gitlab/ci; echo x >.gitlab/ci/a.yml", ".gitlab/ci"),
        ("ln -s /etc src/.vscode", "src/.vscode"),
        ("mkdir d && echo x >d/tasks.json && mv d src/.idea", "src/.idea"),
    ],
)
async def test_guarded_paths_that_a_command_creates_are_renamed(repository, world, command, path):
    output = await world.run(command)
    assert not os.path.lexists(repository / path)
    assert os.path.lexists(repository / f"{path}.withheld")
    assert str(repository / path) in "\n".join(texts(output))


async def test_a_guarded_path_is_renamed_even_if_its_new_name_is_taken(world):
    world.write("work/project/sub/kept")
    await world.run("cd sub; ln -s /etc .idea.withheld; mkdir .idea; echo x >.idea/x")
    assert not (world.root / "sub/.idea").exists()
    assert (world.root / "sub/.idea.withheld-1/x").exists()


async def test_the_repository_of_a_linked_work_tree_is_read_only(world):
    main, root = world.home / "main", world.home / "tree"
    run_git(world.home, "init", "-q", str(main))
    run_git(main, "commit", "-q", "--allow-empty", "-m", "first")
    run_git(main, "worktree", "add", "-q", str(root))
    before = tree(main)
    text = await world.output_of(
        "git log --oneline; git commit --allow-empty -m no; echo x >.git; rm .git; "
        f"echo x >{main}/.git/hooks/pre-commit; git config a.b c",
        roots=(root,),
    )
    assert "first" in text
    assert tree(main) == before
    assert (root / ".git").read_text().startswith("gitdir: ")


def running(mark: str) -> list[int]:
    """Return the processes with the mark in their command line."""
    pids = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            with suppress(OSError):
                words = (directory / "cmdline").read_bytes().split(b"\0")
                state = (directory / "stat").read_text().rpartition(")")[2].split()[0]
                if mark.encode() in words and state != "Z":
                    pids.append(int(directory.name))
    return pids


async def test_a_daemon_does_not_outlive_its_command(world):
    mark = f"{os.getpid()}.125"
    await world.run(f"setsid sleep {mark} </dev/null >/dev/null 2>&1 & (setsid sleep {mark} &) ; :")
    await until(lambda: not running(mark))


DAEMONS = "trap '' TERM; (trap '' TERM; setsid sleep {0}) & setsid setsid sleep {0} & sleep {0}"


async def test_a_stop_ends_everything_in_the_sandbox(world):
    mark = f"{os.getpid()}.25"
    call = await world.tool().prepare({"command": DAEMONS.format(mark)})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run)
        await until(lambda: len(running(mark)) >= 3)
        nursery.cancel_scope.cancel()
    assert running(mark) == []
    assert list(world.root.iterdir()) == []


SERVER = """
import sys, trio
from pathlib import Path
from tests.eca_server.agent.sandbox.conftest import World
trio.run(World(Path(sys.argv[1])).run, sys.argv[2])
"""


async def test_commands_end_with_a_server_that_is_killed(world):
    mark = f"{os.getpid()}.5"
    command = [sys.executable, "-c", SERVER, str(world.home.parent), DAEMONS.format(mark)]
    server = subprocess.Popen(command, start_new_session=True)
    try:
        await until(lambda: len(running(mark)) >= 3 or server.poll() is not None)
        assert server.poll() is None
    finally:
        server.kill()
        server.wait()
    await until(lambda: not running(mark))


async def test_a_command_has_no_terminal(world):
    text = await world.output_of(
        python(
            "import fcntl, os, termios",
            "print('leader', os.getsid(0) != os.getpid())",
            "for name in ('/dev/tty', '/dev/stdin'):",
            "    try: fcntl.ioctl(os.open(name, os.O_RDWR), termios.TIOCSTI, b'x'); print('typed')",
            "    except OSError as fault: print(fault)",
        )
    )
    assert "typed" not in text


_ADD_KEY = {"x86_64": 248, "aarch64": 217, "riscv64": 217}.get(platform.machine())
_SESSION = -3


@pytest.mark.skipif(_ADD_KEY is None, reason="the numbers of its system calls are not known here")
async def test_the_sessions_keyring_cannot_be_reached(world):
    libc = ctypes.CDLL(None, use_errno=True)
    secret = SECRET.encode()
    if libc.syscall(_ADD_KEY, b"user", b"eca-test", secret, len(secret), _SESSION) < 0:
        pytest.skip("this kernel has no keyrings")
    command = python(
        "import ctypes",
        "libc = ctypes.CDLL(None, use_errno=True)",
        "def call(*arguments):",
        "    print(libc.syscall(*arguments), ctypes.get_errno(), flush=True)",
        "    return libc.syscall(*arguments)",
        f"for first in ({_ADD_KEY}, {_ADD_KEY} | 0x40000000):",
        "    text = ctypes.create_string_buffer(100)",
        "    key = call(first + 1, b'user', b'eca-test', None, 0)",
        "    call(first + 2, 11, key, text, 100)",
        "    print(text.value)",
        f"    call(first, b'user', b'eca-planted', b'x', 1, {_SESSION})",
    )
    outside = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert SECRET in outside.stdout
    text = await world.output_of(command)
    assert SECRET not in text
    assert text.count("-1 38") == 6
