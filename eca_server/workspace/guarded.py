"""The guarded paths: files of a workspace that run programs or instruct agents.

A change of a guarded path always needs the user's approval: rules, an approval for the session and
the trust of a chat do not cover it. The rule of this module: one table, `GUARDED`, has every such
path and the reason. Approval and the sandbox read this table.

A path of the table is relative and matches below any directory of a workspace: an editor reads
`.vscode` of the subproject it opens, and an agent reads the `AGENTS.md` of each parent directory.
Names are compared by the most lenient rules of any file system.
"""

from __future__ import annotations

import fnmatch
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

import attrs

Kind: TypeAlias = Literal["file", "directory"]


@attrs.frozen(kw_only=True)
class GuardedPath:
    """A row of the table.

    Attributes:
        path: relative, with `/`; a `*` in it matches any text without `/`.
        kind: a directory is guarded with everything below it.
        why: the possible effect of a change, as the end of "a change of it ...".
    """

    path: str
    kind: Kind
    why: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the path, folded for comparison."""
        return tuple(map(folded_name, self.path.split("/")))


_ECA = "changes the rules, tools and hooks of this server"
_GIT = "makes Git run programs (hooks, filters, aliases)"
_VCS = "makes a version control system run programs (hooks, extensions)"
_EDITOR = "makes an editor run programs when the folder is opened"
_SHELL = "runs when a shell starts or enters the folder"
_LANGUAGE = "runs when an interpreter or debugger starts in the folder"
_TOOL = "names programs that everyday tools of the folder run"
_CI = "runs on a build machine, with the secrets of the repository"
_AGENT = "changes the tools, hooks and rules of other coding agents"
_INSTRUCTIONS = "tells coding agents what to do"

_DIRECTORIES: Mapping[str, Sequence[str]] = {
    _ECA: (".eca",),
    _GIT: (".git", ".husky", ".githooks", ".config/git"),
    _VCS: (".hg", ".jj", ".sl", "_darcs"),
    _EDITOR: (
        ".devcontainer", ".emacs.d", ".fleet", ".helix", ".idea", ".nvim", ".run", ".sublime",
        ".theia", ".vim", ".vs", ".vscode", ".zed", ".config/nvim",
    ),
    _SHELL: (".config/fish", ".bashrc.d", ".zshrc.d", ".oh-my-zsh"),
    _LANGUAGE: (".ipython",),
    _TOOL: (".cargo", ".mise", ".mvn", ".yarn", ".ssh"),
    _CI: (
        ".buildkite", ".circleci", ".forgejo/workflows", ".gitea/workflows", ".github/actions",
        ".github/workflows", ".gitlab/ci", ".woodpecker",
    ),
    _AGENT: (
        ".agent", ".agents", ".aider", ".amazonq", ".augment", ".claude", ".clinerules", ".codex",
        ".continue", ".crush", ".cursor", ".factory", ".gemini", ".goose", ".junie", ".kiro",
        ".opencode", ".qwen", ".roo", ".trae", ".windsurf",
    ),
    _INSTRUCTIONS: (
        ".github/agents", ".github/chatmodes", ".github/instructions", ".github/prompts",
    ),
}  # fmt: skip
_FILES: Mapping[str, Sequence[str]] = {
    _GIT: (".gitconfig", ".gitmodules", ".pre-commit-config.yaml", "lefthook.yml"),
    _EDITOR: (
        "*.code-workspace", ".devcontainer.json", ".dir-locals.el", ".dir-locals-2.el", ".emacs",
        ".exrc", "_exrc", ".gvimrc", ".lvimrc", ".neoconf.json", ".nvim.lua", ".nvimrc", ".vimrc",
        "_vimrc", ".sublime-project", "*.sublime-project", ".ycm_extra_conf.py",
    ),
    _SHELL: (
        ".autoenv", ".autoenv.zsh", ".bash_aliases", ".bash_login", ".bash_logout",
        ".bash_profile", ".bashrc", ".cshrc", ".env.zsh", ".envrc", ".inputrc", ".kshrc", ".login",
        ".logout", ".mkshrc", ".profile", ".rvmrc", ".tcshrc", ".xprofile", ".xsessionrc",
        ".zlogin", ".zlogout", ".zprofile", ".zshenv", ".zshrc", "*profile.ps1",
    ),
    _LANGUAGE: (
        ".gdbinit", ".ghci", ".irbrc", ".lldbinit", ".ocamlinit", ".pdbrc", ".pdbrc.py",
        ".perldb", ".pryrc", ".psqlrc", ".pythonrc", ".pythonrc.py", ".pythonstartup", ".rprofile",
        ".sqliterc", "*.pth", "pyvenv.cfg", "sitecustomize.py", "usercustomize.py",
    ),
    _TOOL: (
        ".mise.toml", "mise.toml", ".npmrc", ".pnpmfile.cjs", ".ripgreprc", ".tool-versions",
        ".yarnrc", ".yarnrc.yml",
    ),
    _CI: (
        ".appveyor.yml", ".drone.yml", ".gitlab-ci.yml", ".travis.yml", "azure-pipelines.yml",
        "bitbucket-pipelines.yml", "jenkinsfile",
    ),
    _AGENT: (
        ".aider.conf.yml", ".crush.json", ".cursorignore", ".mcp.json", ".opencode.json",
        "crush.json", "opencode.json", "opencode.jsonc",
    ),
    _INSTRUCTIONS: (
        ".cursorrules", ".github/copilot-instructions.md", ".goosehints", ".rules",
        ".roorules", ".windsurfrules", "agent.md", "agents.md", "agents.*.md", "claude.md",
        "claude.*.md", "conventions.md", "crush.md", "gemini.md", "qwen.md",
    ),
}  # fmt: skip


def _table() -> Iterator[GuardedPath]:
    for why, paths in _DIRECTORIES.items():
        yield from (GuardedPath(path=path, kind="directory", why=why) for path in paths)
    for why, paths in _FILES.items():
        yield from (GuardedPath(path=path, kind="file", why=why) for path in paths)


GUARDED: tuple[GuardedPath, ...] = tuple(_table())
"""Every guarded path. A bare Git repository may have any name: see `workspace.repository`."""


def folded_name(name: str) -> str:
    """Return a file name folded as the most lenient file system would.

    The result has no case (macOS, Windows), no invisible characters (HFS+), and no dots, blanks
    or stream name at its end (NTFS).
    """
    text = unicodedata.normalize("NFKC", name).casefold()
    if not text.isascii():
        text = "".join(each for each in text if unicodedata.category(each) != "Cf")
    if text in {".", ".."}:
        return text
    return text.partition(":")[0].rstrip(". ") or text


CONFIGURATION: GuardedPath = GuardedPath(path="configuration in use", kind="file", why=_ECA)
"""A file of the user's configuration that is in the workspace, whatever its name."""

_MAGIC = frozenset("*?[")
_BY_LENGTH: Mapping[int, tuple[tuple[tuple[str, ...], GuardedPath], ...]] = {
    length: tuple((row.parts, row) for row in GUARDED if len(row.parts) == length)
    for length in sorted({len(row.parts) for row in GUARDED})
}


@lru_cache(maxsize=4096)
def guard_of(parts: tuple[str, ...]) -> GuardedPath | None:
    """Return the row that guards a path, or None.

    A parent of a guarded path (`.github`) is guarded itself: to move or remove the directory
    changes the guarded path in it.
    """
    folded = tuple(map(folded_name, parts))
    for start in range(len(folded)):
        for length, rows in _BY_LENGTH.items():
            piece = folded[start : start + length]
            leads_there = len(piece) < length
            for names, row in rows:
                if all(map(fnmatch.fnmatchcase, piece, names)) and (
                    leads_there or len(piece) == length
                ):
                    return row
    return None


def may_match_guarded(pattern: str) -> bool:
    """Return True if a glob for one name (`.gi?`, `.[ev]*`, `AG*`) may match a guarded name.

    A glob that begins with `*` is not counted: the files that `*.md` matches are known from the
    disk.
    """
    folded = unicodedata.normalize("NFKC", pattern).casefold()
    if folded.startswith("*") or _MAGIC.isdisjoint(folded):
        return False
    return any(
        fnmatch.fnmatchcase(name, folded.replace("[^", "[!"))
        for name in _NAMES
        if not name.startswith(".") or folded[0] not in "?["  # as in a shell
    )


_NAMES = frozenset(name.replace("*", "x") for row in GUARDED for name in row.parts)
