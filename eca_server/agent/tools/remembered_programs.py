"""The programs whose approval for the session covers more than the approved text.

The rule of this module: only the listed programs and forms are covered. A form is listed if none of
its options and words makes the program run a command that is not the program's own, or delete files
that version control does not restore. Commands from a project's own files (`npm test`, `pytest`,
`cargo build`) are the program's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _pattern(text: str | None) -> re.Pattern[str] | None:
    return None if text is None else re.compile(text, re.ASCII)


@attrs.frozen
class Form:
    """The arguments of one subcommand, or of a program without subcommands.

    Attributes:
        options: the permitted options, with or without a value.
        words: the pattern of words that are not options; None: any word.
        needs_name: whether the word after the subcommand is part of the key (`npm run build`).
        refuses_files: whether a word that names an existing file has no key (`git checkout a.py`).
        reads_options: whether a word `@FILE` names a file of options.
    """

    options: frozenset[str] = attrs.field(default="", converter=_names)
    words: re.Pattern[str] | None = attrs.field(default=None, kw_only=True, converter=_pattern)
    needs_name: bool = attrs.field(default=False, kw_only=True)
    refuses_files: bool = attrs.field(default=False, kw_only=True)
    reads_options: bool = attrs.field(default=False, kw_only=True)


ANY_ARGUMENTS = frozenset(
    {"arch", "base64", "cksum", "cmp", "column", "comm", "diff", "expand", "false", "fold"}
    | {"hexdump", "id", "join", "jq", "md5sum", "mkdir", "nproc", "od", "paste", "rev", "seq"}
    | {"sha1sum", "sha256sum", "sha512sum", "sleep", "tac", "touch", "uname", "which", "whoami"}
)
"""Programs that never run a command, whatever their arguments."""

BUILTINS = frozenset({"cd", "echo", "false", "pwd", "true"})
"""Builtins of bash: no file can change their effect."""

BARE_OPTIONS = frozenset({"--no-pager", "--no-optional-locks"})
"""Options of Git before its subcommand that run no program."""

RUNS_PROJECT = frozenset({"pytest", "python", "python3"})
"""Programs that may be in the workspace, since the listed forms run its files anyway."""

_NONE = r"(?!)"
_REMOTE = r"\w[\w./-]*"
_REVISION = r"[\w@][\w./@~^-]*|-"
_RUN = Form(words=_NONE, needs_name=True)
_ALONE = Form(words=_NONE)
_PYTEST = Form(
    "-x -q -v -s -k -m -n -l --exitfirst --quiet --verbose --lf --last-failed --ff --sw"
    " --collect-only --co --tb --durations --maxfail --no-header --no-cov --color --strict-markers",
    reads_options=True,
)
_GO = Form("-v -race -run -count -short -cover -bench -timeout -failfast")
_CARGO = Form(
    "-q -v -r -p --quiet --verbose --release --package --workspace --all --all-features"
    " --all-targets --features --no-default-features --lib --bins --bin --tests --test --examples"
    " --locked --offline --frozen --no-run --no-fail-fast --check"
)
_RUFF = Form("-q --quiet --fix --diff --check --select --ignore --no-cache", reads_options=True)
_STASH = "-u -q -m --include-untracked --keep-index --message --quiet --index --"
_SCRIPTS = {"test": _ALONE, "run": _RUN, "ci": _ALONE, "install": _ALONE}
_KUBECTL = Form(
    "-n --namespace -o --output -l --selector -A --all-namespaces -w --watch -c --container"
    " --tail --since --previous --show-labels"
)
_DOCKER = Form("-a -q -f -n -t --all --quiet --format --filter --follow --tail --since")

FORMS: Mapping[str, Mapping[str, Form]] = {
    "cargo": dict.fromkeys(["bench", "build", "check", "clippy", "fmt", "test", "tree"], _CARGO),
    # -f and -r read any file, -s and a word of digits set the clock.
    "date": {
        "": Form(
            "-d -u -R -I -Idate -Ihours -Iminutes -Iseconds -Ins --date --utc --universal"
            " --iso-8601 --rfc-3339 --rfc-email",
            words=r"(?!\d+(\.\d+)?$).*",
        )
    },
    "docker": {
        **dict.fromkeys(["images", "info", "inspect", "logs", "ps", "version"], _DOCKER),
        **dict.fromkeys(["restart", "start", "stop"], Form()),
    },
    "git": {
        "add": Form("-A -u -f -n -v --all --update --force --dry-run --verbose --"),
        "branch": Form("-t --track -q --quiet"),
        "checkout": Form("-b -q -t --quiet --track --detach", words=_REVISION, refuses_files=True),
        "cherry-pick": Form("-x --abort --skip --quit --no-commit -n"),
        "commit": Form(
            "-m -a -q -s -v --message --all --amend --no-edit --quiet --signoff --allow-empty"
            " --author --date --"
        ),
        "fetch": Form("-p -q --prune --tags --all --quiet --depth", words=_REMOTE),
        "merge": Form("-m -q --no-ff --ff-only --ff --squash --abort --no-edit --no-commit"),
        "mv": Form("-v -n --"),
        "pull": Form("-q -r --rebase --ff-only --no-rebase --quiet --prune", words=_REMOTE),
        "push": Form("-u -q --set-upstream --tags --follow-tags --quiet", words=_REMOTE),
        "rebase": Form("--abort --skip --quit --continue", words=_NONE),
        "reset": Form("-q --soft --mixed --quiet --"),
        "restore --staged": Form("-q --quiet --"),
        "restore -S": Form("-q --quiet --"),
        "revert": Form("--no-edit --abort --skip --quit -n --no-commit"),
        "rm": Form("-r -q --cached --quiet --"),
        **dict.fromkeys(["stash apply", "stash list", "stash push", "stash show"], Form(_STASH)),
        "stash": Form(_STASH, words=_NONE),
        "switch": Form("-c -q -t --create --quiet --track --detach"),
        "tag": Form("-a -m --annotate --message"),
    },
    "go": {"build": _GO, "fmt": Form(), "test": _GO, "version": _ALONE, "vet": _GO},
    "kubectl": dict.fromkeys(["describe", "explain", "get", "logs", "top", "version"], _KUBECTL),
    "npm": {**_SCRIPTS, "ls": _ALONE, "outdated": _ALONE},
    "pnpm": _SCRIPTS,
    "pytest": {"": _PYTEST},
    "python": {"-m pytest": _PYTEST},
    "python3": {"-m pytest": _PYTEST},
    "ruff": {"check": _RUFF, "format": _RUFF},
    "yarn": _SCRIPTS,
}
"""The forms by program and subcommand; the subcommand is empty for a program without one.

Other forms of these programs always need approval: Git reads any other word as an alias.
"""

SHELL_WORDS = _names(
    ". : [ [[ ]] alias bg bind break builtin caller case command compgen complete compopt continue"
    " coproc declare dirs disown do done elif else enable esac eval exec exit export fc fg fi for"
    " function getopts hash help history if in jobs kill let local logout mapfile popd printf pushd"
    " read readarray readonly return select set shift shopt source suspend test then time times"
    " trap type typeset ulimit umask unalias unset until wait while { } !"
)
"""Words that bash interprets itself: they may change the meaning of the words behind them."""

CODE_READERS = _names(
    "ash awk bash bc bun busybox bunx clisp csh dash dc deno dotnet elixir emacs erl expect fish"
    " gawk gnuplot ghci groovy guile irb java jjs jrunscript julia ksh lua luajit m4 mawk mksh"
    " mysql nawk node nodejs octave osascript perl php pip pip3 powershell psql pwsh raku rbash"
    " rscript ruby rbx scala scheme sh sqlite sqlite3 sudo swift tcsh tclsh toybox wish xargs zsh"
)
"""Programs that read code, or a command, from their arguments or their input."""

_RUN_OTHERS = _names(
    "7z 7za ag ansible ansible-playbook apt apt-get ar arch-chroot asdf at batch bats bazel"
    " bundle bwrap capsh cdrecord chpst chroot chrt conda corepack cpio cpulimit cron crontab"
    " dbus-run-session direnv dmsetup doas docker-compose dpkg dvipdf easy_install ed env entr ex"
    " fakeroot fd fdfind firejail flock gcc g++ gdb gem gh gimp ginsh hatch hub hyperfine install"
    " ionice ip journalctl just latexmk ld ld.so ldconfig less lftp lldb ln logrotate ltrace man"
    " mise more mosh mutt nano ncat nc nice nix nix-shell nmap nohup npx nsenter nvim parallel"
    " patch pdm perf pdb pipenv pipx podman poetry pnpx proot prlimit rlwrap rpm rsync run-parts"
    " runuser rye screen script service setarch setpriv setsid sg socat split ssh ssh-agent"
    " start-stop-daemon stdbuf strace su systemctl systemd-run tar taskset task tcpdump tee telnet"
    " tig timeout tmux top unbuffer unzip unshare uv uvx valgrind vi view vim vimdiff virtualenv"
    " watch watchexec wget xdg-open xelatex xvfb-run xterm xz zip"
)
NEVER = SHELL_WORDS | CODE_READERS | _RUN_OTHERS
"""Programs whose arguments may be commands or code; an approval never covers them.

The list is a second safeguard: for a program in no list, only the exact text is covered.
"""
