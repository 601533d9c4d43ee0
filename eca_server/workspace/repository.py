"""The check of a repository for programs that Git would run.

`git status` runs the program of `core.fsmonitor`, `git diff` that of `diff.external`, also those of
submodules. The rule of this module: a repository is checked before Git runs in it. A bare
repository inside a work tree is never safe, since a clone brings all of its files, with its
configuration. A file that cannot be read is not safe.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import attrs

from eca_server.config.files import Unreadable, read_bytes
from eca_server.workspace.gitlinks import UnreadableRepository, submodule_paths

_LARGEST = 256 * 1024
_MOST_MODULES = 1_000
_BLANKS = " \t\r"
_HEADER = re.compile(r'\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]', re.ASCII)
_SETTING = re.compile(r"([A-Za-z][\w-]*)\s*(?:=\s*(.*))?", re.ASCII)
_NEEDED = {"head": "HEAD", "objects": "objects", "refs": "refs", "commondir": "commondir"}
_HOOK = "post-index-change"  # run by `git status`; others are run by commands that change more

_RUN_PROGRAMS = re.compile(
    r"""core\.(askpass|alternaterefscommand|editor|fsmonitor|gitproxy|pager|sshcommand)
    |diff\.external|diff\..*\.(command|textconv)
    |filter\..*\.(clean|smudge|process)
    |merge\..*\.driver|(diff|merge|gui)tool\..*\.(cmd|path)|guitool\..*
    |alias\..*
    |credential\.(.*\.)?helper
    |gpg\.(.*\.)?program|gpg\.ssh\.defaultkeycommand
    |hook\..*\.event
    |pager\..*|interactive\.difffilter|sequence\.editor
    |remote\..*\.(uploadpack|receivepack|vcs|url|pushurl)|url\..*::.*\.(insteadof|pushinsteadof)
    |branch\..*\.(remote|pushremote)|remote\.pushdefault
    |submodule\..*\.update|gc\.recentobjectshook
    |trailer\..*\.(command|cmd)
    |include\.path|includeif\..*\.path
    |(browser|man)\..*\.(cmd|path)|(web|help)\.browser|instaweb\..*
    |sendemail\..*cmd|imap\.tunnel|tar\..*\.command|lfs\.customtransfer\..*
    |lfs\.extension\..*
    """,
    re.VERBOSE | re.DOTALL,
)
_NO_PROGRAM = {
    "core.fsmonitor": re.compile(r"|true|false|yes|no|on|off|0|1", re.IGNORECASE),
    "core.sshcommand": re.compile(
        r"ssh(\s+-i\s+[\w~/.@-]+|\s+-o\s*(IdentitiesOnly|StrictHostKeyChecking)=[\w-]+)*"
    ),
    "filter.lfs.clean": re.compile(r"git-lfs clean -- %f"),
    "filter.lfs.smudge": re.compile(r"git-lfs smudge -- %f"),
    "filter.lfs.process": re.compile(r"git-lfs filter-process"),
    "credential.helper": re.compile(r"([a-z][a-z0-9-]*(\s+--[\w=.-]+)*)?|!gh auth git-credential"),
}
_ONLY_IF = {  # a program only if the value matches
    "alias": re.compile(r"\s*!.*", re.DOTALL),
    "hook": re.compile(_HOOK),  # from Git 2.54 on
    "submodule": re.compile(r"\s*!.*", re.DOTALL),
    **dict.fromkeys(
        ("branch", "remote"),
        re.compile(r"[\w+.-]+::.*", re.DOTALL),  # a helper, as `ext::`
    ),
}
_HEAD = re.compile(r"ref:\s{0,20}refs/[^\n]*\n?|[0-9a-f]{40}(?:[0-9a-f]{24})?\n?", re.ASCII)


@attrs.frozen(kw_only=True)
class _Repository:
    """The directories of a Git repository.

    Attributes:
        directory: `.git`, or the directory that a file of that name points to.
        top: the top of the work tree; None: a bare repository.
    """

    directory: Path
    top: Path | None


def is_bare_repository(directory: Path) -> bool:
    """Return True if Git would use a directory as a repository; read the disk."""
    if not os.path.lexists(directory / "HEAD"):
        return False
    has_parts = all(os.path.lexists(directory / name) for name in ("objects", "refs"))
    return has_parts or os.path.lexists(directory / "commondir")


def makes_bare_repository(top: Path, path: Path) -> bool:
    """Return True if a change of a path changes or completes a bare repository; read the disk.

    Args:
        top: the root of the workspace, a real path; a repository there does not count.
        path: a real path below the root.
    """
    directory = top
    for name in path.relative_to(top).parts:
        if directory != top and is_bare_repository(directory):
            return True
        if name.casefold() in _NEEDED:
            existing = {each for each in _NEEDED if os.path.lexists(directory / _NEEDED[each])}
            existing.add(name.casefold())
            if "head" in existing and ({"objects", "refs"} <= existing or "commondir" in existing):
                return True
        directory /= name
    return False


def unsafe_git_reason(directory: Path) -> str | None:
    """Return why Git would run a program in a directory, or None; read the disk."""
    try:
        for repository in _find_repositories(directory):
            if repository.top is None:
                return f"{repository.directory} is a bare Git repository, which may name programs"
            reason = next(_all_reasons(repository), None)
            if reason is not None:
                return reason
    except (OSError, ValueError, RuntimeError):  # a NUL, a name too long, an unknown home
        return f"the Git repository of {directory} cannot be read"
    return None


def _all_reasons(repository: _Repository) -> Iterator[str]:
    """Yield the reasons of a repository and of its submodules, at any depth."""
    assert repository.top is not None
    judged: set[_Repository] = set()
    pending = [repository]
    while pending:
        each = pending.pop()
        if each in judged:
            continue
        if len(judged) > _MOST_MODULES:
            yield f"{repository.directory} has too many submodules"
            return
        judged.add(each)
        yield from _reasons(each, each.top or repository.top)
        try:
            pending += _submodules(each)
        except UnreadableRepository as error:
            yield str(error)


def _find_repositories(directory: Path) -> Iterator[_Repository]:
    """Yield the repositories that Git may find from a directory upwards, the innermost first.

    Git skips a `.git` that is no valid repository; the last one yielded is certainly valid.
    """
    for each in (directory, *directory.parents):
        link = each / ".git"
        if os.path.lexists(link):
            git_directory = git_directory_of(link)
            yield _Repository(directory=git_directory, top=each)
            if link.is_file() or _is_valid(git_directory):
                return
        if is_bare_repository(each):
            is_git_directory = each.name == ".git"
            yield _Repository(directory=each, top=each.parent if is_git_directory else None)
            if _is_valid(each):
                return


def _is_valid(directory: Path) -> bool:
    """Return True if a directory is a repository for Git, without any doubt."""
    head = directory / "HEAD"
    if head.is_symlink() or not _HEAD.fullmatch(read_small_file(head) or ""):
        return False
    common = _common_directory(directory)
    return common is not None and all(
        os.access(common / name, os.X_OK) for name in ("objects", "refs")
    )


def _common_directory(directory: Path) -> Path | None:
    """Return the directory with the configuration of a repository; None: it is unknown."""
    if not os.path.lexists(directory / "commondir"):
        return directory
    pointer = read_small_file(directory / "commondir")
    return None if pointer is None else Path(os.path.realpath(directory / pointer.rstrip("\r\n")))


def git_directory_of(path: Path) -> Path:
    """Return the repository of a `.git`: the directory itself, or the one that the file names."""
    if not path.is_file():
        return path
    text = read_small_file(path) or ""
    target = text.removeprefix("gitdir: ").rstrip("\r\n")
    is_pointer = text.startswith("gitdir: ") and target
    return Path(os.path.realpath(path.parent / target)) if is_pointer else path


def git_directories(path: Path) -> Iterator[Path]:
    """Yield the directories that Git may use for a path in its arguments; read the disk.

    As a remote (`git push path`) a path may name a repository `path.git`, or a file that names one.
    """
    for each in (path, path.with_name(f"{path.name}.git")) if path.name else (path,):
        if each.is_dir():
            yield each
        elif (target := git_directory_of(each)) != each:
            yield target


def _submodules(repository: _Repository) -> Iterator[_Repository]:
    """Yield the repositories of submodules, which `git status` reads, too.

    Raises:
        UnreadableRepository: they are unknown.
    """
    if repository.top is None:
        return
    walk = os.walk(repository.directory / "modules")
    for count, (directory, names, files) in enumerate(walk):
        if count > _MOST_MODULES:
            raise UnreadableRepository(f"{repository.directory} has too many submodules")
        if "config" in files and "HEAD" in files:
            names[:] = [name for name in names if name == "modules"]
            yield _Repository(directory=Path(directory), top=None)
    settings = _settings(read_small_file(repository.top / ".gitmodules") or "")
    listed = (
        value
        for name, value in settings
        if name.startswith("submodule.") and name.endswith(".path") and value
    )
    for path in dict.fromkeys((*submodule_paths(repository.directory / "index"), *listed)):
        top = repository.top / path
        if os.path.lexists(top / ".git"):
            yield _Repository(directory=git_directory_of(top / ".git"), top=top)


def _reasons(repository: _Repository, top: Path) -> Iterator[str]:
    """Yield the reasons of one repository; `top` is the work tree that its hooks run in."""
    directory = repository.directory
    common = None if directory.is_file() else _common_directory(directory)
    if common is None:
        yield f"{directory} cannot be read"
        return
    hooks = common / "hooks"
    for file in dict.fromkeys((common / "config", directory / "config.worktree")):
        if not os.path.lexists(file):
            continue
        text = read_small_file(file)
        if text is None:
            yield f"{file} cannot be read"
            continue
        for name, value in _settings(text):
            if name == "core.hookspath":
                hooks = top / Path(value).expanduser()
            elif name == "core.worktree" and repository.top is not None:
                named, top_path = map(os.path.realpath, (directory / value, repository.top))
                if named != top_path:
                    yield f"{name} in {file} is a different folder"
            elif _runs(name, value):
                yield f"{name} in {file} may run a program"
    if os.access(hooks / _HOOK, os.X_OK):
        yield f"{hooks / _HOOK} is a program"


def _runs(name: str, value: str) -> bool:
    if not _RUN_PROGRAMS.fullmatch(name):
        return False
    harmless = _NO_PROGRAM.get(re.sub(r"^(credential)\..*\.(?=helper$)", r"\1.", name))
    if harmless is not None and harmless.fullmatch(value):
        return False
    section = name.partition(".")[0]
    program_pattern = _ONLY_IF.get(section)
    if program_pattern is None or name.endswith((".uploadpack", ".receivepack", ".vcs")):
        return True
    return program_pattern.fullmatch(value) is not None


def _settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of a configuration: `section.subsection.key` and its value."""
    joined = text.replace("\\\r\n", "").replace("\\\n", "")
    yield from _settings_of_lines(text)
    if joined != text:  # in a comment a backslash does not join lines, so both readings count
        yield from _settings_of_lines(joined)


def _settings_of_lines(text: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in text.split("\n"):
        rest = line.strip(_BLANKS).lstrip("\ufeff")
        while header := _HEADER.match(rest):
            section = header[1].casefold()
            if header[2] is not None:
                section += f".{header[2]}"
            rest = rest[header.end() :].strip(_BLANKS)
        if not rest or rest[0] in "#;":
            continue
        setting = _SETTING.fullmatch(rest)
        if setting is None:
            yield "include.path", rest  # not parsed, so it may be anything
            continue
        yield f"{section}.{setting[1].casefold()}", _unquoted(setting[2] or "")


def _unquoted(value: str) -> str:
    text, is_quoted = "", False
    characters = iter(value)
    for char in characters:
        if char == "\\":
            text += next(characters, "")
        elif char == '"':
            is_quoted = not is_quoted
        elif char in "#;" and not is_quoted:
            break
        else:
            text += char
    return text.strip(_BLANKS)


def read_small_file(path: Path) -> str | None:
    """Return the text of a small regular file, or None if it is not one or cannot be read."""
    try:
        return read_bytes(path, most=_LARGEST).decode(errors="surrogateescape")
    except Unreadable:
        return None
