from pathlib import Path

from eca_server.workspace.boundary import Workspace
from eca_server.workspace.guarded import GUARDED, guard_of, may_match_guarded
from tests.eca_server.workspace.conftest import root_of

OF_THE_ISSUE = [
    ".eca/config.json", ".git/config", ".vscode/tasks.json", ".idea/workspace.xml",
    ".devcontainer/devcontainer.json", ".github/workflows/ci.yml", ".husky/pre-commit", ".envrc",
    ".mcp.json", ".claude/settings.json", ".cursor/mcp.json", ".agents/skills/x/SKILL.md",
    ".dir-locals.el", ".nvim.lua", ".exrc", "AGENTS.md", "CLAUDE.md", "GEMINI.md",
    "AGENTS.override.md", "CLAUDE.local.md", ".github/copilot-instructions.md", ".cursorrules",
    ".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", "sitecustomize.py",
    "usercustomize.py", ".venv/lib/python3.11/site-packages/x.pth", ".pythonrc",
    ".hg/hgrc", ".jj/repo/config.toml", ".sl/config", "_darcs/prefs/defaults", ".rvmrc",
    ".mvn/extensions.xml", ".ycm_extra_conf.py",
]  # fmt: skip
OTHER_SPELLINGS = [
    ".GIT/hooks/a", ".Git", "agents.MD", ".VSCODE/x", ".git./config", ".git /x",
    ".git::$INDEX_ALLOCATION/config", ".g\u200cit/config", "\uff21GENTS.md",
]  # fmt: skip
FREE = [
    "a.git", "git", ".ecarc", ".github/CODEOWNERS", "docs/agents", "agents.py", "vscode",
    ".gitignore", ".gitattributes", "conftest.py", "workflows/ci.yml", ".config/x", "x.pth.py",
]  # fmt: skip


def split(path: str) -> tuple[str, ...]:
    return tuple(path.split("/"))


def test_a_path_is_guarded_at_any_depth_and_in_any_spelling() -> None:
    guarded = [*OF_THE_ISSUE, *OTHER_SPELLINGS]
    paths = [*guarded, *(f"packages/one/{path}" for path in guarded)]
    assert [path for path in paths if guard_of(split(path)) is None] == []
    assert [path for path in FREE if guard_of(split(path))] == []


def test_every_row_is_found_by_its_own_path_and_says_why() -> None:
    for row in GUARDED:
        path = row.path.replace("*", "x")
        guard = guard_of(split(path))
        assert guard.kind == row.kind
        assert row.why
        below = guard_of((*split(path), "x"))
        assert (below is not None) >= (row.kind == "directory"), row
    assert len({row.path for row in GUARDED}) == len(GUARDED)
    # A directory that leads to a guarded path is guarded as a whole.
    assert guard_of((".github",))
    assert guard_of(("sub", ".github"))


def test_a_link_is_guarded_by_its_name_and_by_its_target(tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    (tmp_path / "conf").mkdir()
    (tmp_path / "settings").symlink_to(".vscode")
    (tmp_path / ".idea").symlink_to("conf")
    workspace = Workspace([root_of(tmp_path)])
    assert workspace.locate("settings/tasks.json").is_guarded
    assert workspace.locate(".idea/workspace.xml").is_guarded
    assert not workspace.locate("conf/workspace.xml").is_guarded
    guard = workspace.locate(".idea").guard
    assert "editor" in guard.why


def test_a_glob_that_may_match_a_guarded_name_is_known() -> None:
    for pattern in (".gi?", ".ec*", ".[ev]*", ".GI*", "AG*", "?gents.md", ".*"):
        assert may_match_guarded(pattern), pattern
    for pattern in ("*", "*.md", "*.py", "?", "[a-z]", "src*", "?git", ".x?"):
        assert not may_match_guarded(pattern), pattern
