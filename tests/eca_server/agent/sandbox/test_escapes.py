"""Attempts to get out of the sandbox, in a real one: each of them must leave nothing behind."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
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

from eca_server.agent.sandbox.detect import capability
from tests.eca_server.agent.sandbox.driver import (
    SECRET,
    World,
    needs_bubblewrap,
    python,
    run,
    texts,
)

pytestmark = needs_bubblewrap


def git(directory: Path, *arguments: str) -> None:
    named = ("-c", "user.name=n", "-c", "user.email=n@example.com")
    subprocess.run(
        ["git", *named, *arguments], cwd=directory, check=True, capture_output=True, timeout=30
    )


def tree(directory: Path) -> dict[str, str]:
    """Return every file below a directory, with its content or target."""
    return {
        str(path.relative_to(directory)): str(path.readlink()) if path.is_symlink()
        else path.read_text(errors="surrogateescape")
        for path in directory.rglob("*")
        if path.is_symlink() or path.is_file()
    }  # fmt: skip


# ---- allowed access


async def test_a_command_reads_other_files_and_writes_in_the_workspace(world):
    world.write("notes.txt", "a note")
    output = await world.run(
        "cat ~/notes.txt; mkdir -p a/b && echo new >a/b/file && rm -r a/b/.x; :"
    )
    assert "a note" in texts(output)
    assert (world.root / "a/b/file").read_text() == "new\n"


async def test_a_command_has_a_private_temporary_directory(world):
    text = await world.output_of("cd /tmp && echo x >eca-own && ls; echo $TMPDIR")
    assert "eca-own" in text
    assert not Path("/tmp", "eca-own").exists()


async def test_several_roots_are_writable_and_paths_between_them_are_not(world):
    other = world.home / "work/other"
    other.mkdir()
    roots = (world.root, other)
    await world.output_of("touch ../other/yes; touch ../no; mkdir ../third", roots=roots)
    assert sorted(tree(world.home / "work")) == ["other/yes"]
    assert not (world.home / "work/third").exists()


async def test_a_configured_directory_is_writable(world):
    cache = world.home / ".cache/pip"
    cache.mkdir(parents=True)
    await world.output_of(f"touch {cache}/yes {cache.parent}/no", writable=(cache,))
    assert [path.name for path in cache.parent.rglob("*")] == ["pip", "yes"]


async def test_git_reads_a_repository(world):
    git(world.root, "init", "-q")
    git(world.root, "commit", "-q", "--allow-empty", "-m", "the first")
    assert "the first" in await world.output_of("git status && git log --oneline")


# ---- writing outside


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


# ---- reading credentials


KEYS = [".ssh/id_ed25519", ".aws/credentials", ".gnupg/secring", ".netrc", ".config/gcloud/x.db",
        ".local/share/eca-python/logins.json", ".config/eca/config.json", ".mozilla/p/key4.db",
        ".docker/config.json", ".kube/config", ".git-credentials", ".bash_history",
        ".env", ".bitcoin/wallet.dat", ".config/opencode/x", ".mcp-auth/x/y.json",
        ".lesshst"]  # fmt: skip


@pytest.mark.parametrize("path", KEYS)
async def test_credentials_are_not_readable(world, path):
    key = world.write(path, SECRET)
    (world.root / "link").symlink_to(key)
    (world.root / "hard").mkdir()
    text = await world.output_of(
        f"cat ~/{path} link /proc/1/root{key} /proc/self/root{key}; ln {key} hard/k; cat hard/k; "
        f"cp -r ~/{Path(path).parts[0]} copy; cat copy copy/* copy/*/* copy/*/*/*"
    )
    assert SECRET not in text
    assert not any(SECRET in text for name, text in tree(world.root).items() if name != "link")


async def test_credentials_that_a_variable_or_the_configuration_names_are_hidden(world):
    one, two = world.write("cloud/service.json", SECRET), world.write("own-netrc", SECRET)
    world.environ["GOOGLE_APPLICATION_CREDENTIALS"] = str(one)
    assert SECRET not in await world.output_of(f"cat {one} {two}", credential_files=(str(two),))
    assert SECRET in await world.output_of(f"cat {two}")


async def test_a_linked_credential_path_is_hidden_at_its_target(world):
    key = world.write("dotfiles/ssh/id", SECRET)
    (world.home / ".ssh").symlink_to(key.parent)
    assert SECRET not in await world.output_of(f"cat ~/.ssh/id {key}")


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
    from eca_server.agent.sandbox import sandbox as module  # noqa: PLC0415

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
        "until [ -e swap ]; do sleep .01; done; "
        "mv x/.vscode y; ln -s ../../../.ssh x/.vscode; touch swapped; until [ -e end ]; "
        "do sleep .01; done"
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.run, first)
        with trio.fail_after(20):
            while not (root / "made").exists():
                await trio.sleep(0.005)
        monkeypatch.setattr(module, "_prefix", prefix)
        text = texts(await world.run("ls x/.vscode ~/.ssh; cat x/.vscode/id ~/.ssh/id; echo done"))
        (root / "end").touch()
    assert SECRET not in text


async def test_variables_that_lead_outside_are_removed(world):
    tool = world.tool(more={"SSH_AUTH_SOCK": "/x/agent", "TMUX": "/x/tmux", "KEPT": "yes"})
    text = texts(await run(tool, "env"))
    assert "SSH_AUTH_SOCK" not in text
    assert "TMUX" not in text
    assert "KEPT=yes" in text


async def test_no_descriptor_is_inherited(world):
    key = world.write("somewhere", SECRET)
    with key.open() as file:
        os.set_inheritable(file.fileno(), True)
        text = await world.output_of(
            f"cat /proc/self/fd/{file.fileno()} <&{file.fileno()}; ls /proc/$$/fd"
        )
    assert SECRET not in text


# ---- the network and sockets


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


async def test_an_abstract_socket_is_not_reached(world):
    name = f"\0eca-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        answering(server)
        assert SECRET not in await world.output_of(connecting("AF_UNIX", name))


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("place", ["some/agent.sock", "work/project/dev.sock", "run.sock"])
async def test_a_socket_with_a_path_is_not_reached(world, place, network, monkeypatch):
    path = world.write(place)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        answering(server)
        text = await world.output_of(connecting("AF_UNIX", str(path)), network=network)
    assert SECRET not in text


# ---- guarded paths


@pytest.fixture
def repository(world: World) -> Path:
    root = world.root
    git(root, "init", "-q")
    for path, text in {
        ".github/workflows/ci.yml": "ci", "src/AGENTS.md": "words", ".vscode/settings.json": "{}",
        "AGENTS.md": "words",
    }.items():  # fmt: skip
        world.write(f"work/project/{path}", text)
    (root / "CLAUDE.md").symlink_to("AGENTS.md")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "all")
    git(root, "init", "-q", "sub/inner")
    return root


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
    after = guarded_files(repository)
    assert after == before


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("mkdir -p new/.vscode && echo x >new/.vscode/tasks.json", "new/.vscode"),
        ("echo x >GEMINI.md", "GEMINI.md"),
        ("echo x >src/.bashrc", "src/.bashrc"),
        ("mkdir .VSCode && echo x >.VSCode/tasks.json", ".VSCode"),
        ("git init -q new", "new/.git"),
        ("git init -q --bare bare", "bare/config"),
        ("mkdir -p .gitlab/ci; echo x >.gitlab/ci/a.yml", ".gitlab/ci"),
        ("ln -s /etc src/.vscode", "src/.vscode"),
        ("mkdir d && echo x >d/tasks.json && mv d src/.idea", "src/.idea"),
    ],
)
async def test_guarded_paths_that_a_command_creates_are_renamed(repository, world, command, path):
    output = await world.run(command)
    assert not os.path.lexists(repository / path)
    assert os.path.lexists(repository / f"{path}.withheld")
    assert str(repository / path) in texts(output)


async def test_a_guarded_path_is_renamed_even_if_its_new_name_is_taken(world):
    world.write("work/project/sub/kept")
    await world.run("cd sub; ln -s /etc .idea.withheld; mkdir .idea; echo x >.idea/x")
    assert not (world.root / "sub/.idea").exists()
    assert (world.root / "sub/.idea.withheld-1/x").exists()


async def test_the_repository_of_a_linked_work_tree_is_read_only(world):
    main = world.home / "main"
    git(world.home, "init", "-q", str(main))
    git(main, "commit", "-q", "--allow-empty", "-m", "first")
    root = world.home / "tree"
    git(main, "worktree", "add", "-q", str(root))
    before = tree(main)
    text = await world.output_of(
        "git log --oneline; git commit --allow-empty -m no; echo x >.git; rm .git; "
        f"echo x >{main}/.git/hooks/pre-commit; git config a.b c",
        roots=(root,),
    )
    assert "first" in text
    assert tree(main) == before
    assert (root / ".git").read_text().startswith("gitdir: ")


async def test_nothing_of_the_sandbox_stays_in_the_workspace(world):
    world.write("work/project/file")
    text = await world.output_of("ls -A")
    assert ".vscode" in text
    assert [path.name for path in world.root.iterdir()] == ["file"]


# ---- processes


def running(mark: str) -> list[int]:
    """Return the processes with the mark in their command line."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            with suppress(OSError):
                words = (directory / "cmdline").read_bytes().split(b"\0")
                state = (directory / "stat").read_text().rpartition(")")[2].split()[0]
                if mark.encode() in words and state != "Z":
                    found.append(int(directory.name))
    return found


async def until_gone(mark: str) -> None:
    with trio.fail_after(10):
        while running(mark):
            await trio.sleep(0.005)


async def test_a_daemon_does_not_outlive_its_command(world):
    mark = f"{os.getpid()}.125"
    await world.run(f"setsid sleep {mark} </dev/null >/dev/null 2>&1 & (setsid sleep {mark} &) ; :")
    await until_gone(mark)


DAEMONS = "trap '' TERM; (trap '' TERM; setsid sleep {0}) & setsid setsid sleep {0} & sleep {0}"


async def test_a_stop_ends_everything_in_the_sandbox(world):
    mark = f"{os.getpid()}.25"
    call = await world.tool().prepare({"command": DAEMONS.format(mark)})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run)
        with trio.fail_after(20):
            while len(running(mark)) < 3:
                await trio.sleep(0.005)
        nursery.cancel_scope.cancel()
    assert running(mark) == []
    assert list(world.root.iterdir()) == []


async def test_commands_end_with_a_server_that_is_killed(world):
    mark = f"{os.getpid()}.5"
    code = (
        "import sys, trio\n"
        "from pathlib import Path\n"
        "from tests.eca_server.agent.sandbox.driver import World\n"
        "world = World.__new__(World)\n"
        "world.root = Path(sys.argv[1])\n"
        "world.environ = {'HOME': sys.argv[2], 'PATH': sys.argv[3]}\n"
        "trio.run(world.run, sys.argv[4])\n"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", code, str(world.root), str(world.home), os.environ["PATH"],
         DAEMONS.format(mark)],
        start_new_session=True,
    )  # fmt: skip
    try:
        with trio.fail_after(30):
            while len(running(mark)) < 3:
                assert server.poll() is None
                await trio.sleep(0.01)
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()
    await until_gone(mark)


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


# ---- the kernel's keyrings

_ADD_KEY = {"x86_64": 248, "aarch64": 217, "riscv64": 217}.get(platform.machine())
_SESSION = -3


@pytest.mark.skipif(_ADD_KEY is None, reason="the numbers of its system calls are not known here")
async def test_the_sessions_keyring_cannot_be_reached(world):
    assert _ADD_KEY is not None
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
