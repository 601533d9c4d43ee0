"""The rules of plain English that a program can check; CONTRIBUTING.md has all of them.

`python -m tests.language [PATH...]` prints a line for each sentence and name that breaks one.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
TOPS: Final = ("docs", "eca_protocol", "eca_server", "fuzz", "tests")
UNCHECKED: Final = ("tests/language.py", "tests/test_language.py")
"""The list of what is not written has to be written."""

WIRE_NAMES: Final = ("eca_protocol/messages/",)
"""Packages whose attributes have the names of members on the wire."""

OPENINGS: Final = (
    "What",
    "Who",
    "Whose",
    "Which",
    "Those",
    "Of",
    "How",
    "Whether",
    "If",
    "Nothing",
    "Nobody",
)
"""First words that a docstring does not begin with: it names a thing, or says what to do."""

IDIOMS: Final[Mapping[str, str]] = {
    r"nobody|somebody|anybody|whoever": "the one who acts, or the passive",
    r"go(es)? on": "continue",
    r"stands? (in|at)": "is in, is at, appears",
    r"mend(s|ed|ing)?": "fix",
    r"told": "announced, notified, sent",
    r"by now": "the state itself: changed, removed",
    r"at rest": "idle",
    r"rooms|(a|each|no|the|this|its|lower|higher|own) room": "package, module",
    r"dut(y|ies)": "requirement",
    r"the user's (own )?words?": "the user's message",
    r"(is|are) (no )?news": "changed, unchanged",
}
"""Patterns of expressions that are not written in sentences, and what is written instead."""

IDIOMS_OF_TESTS: Final[Mapping[str, str]] = {
    **IDIOMS,
    r"tells?": "reports, announces, sends",
    r"kept": "stored, preserved, retained",
    r"faults?": "error, bug",
    r"(is|are|was|were) said": "is reported, is sent",
}
"""Patterns that are not written in the sentences that are names of tests."""

PARTICIPLES: Final = (
    "told",
    "kept",
    "asked",
    "heard",
    "unheard",
    "said",
    "seen",
    "given",
    "found",
    "left",
    "wanted",
)
"""Names that hide what they hold; `left` is the name of a side in a module with a `right`."""


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile(
        r"\b(?:{})\b".format("|".join(f"(?:{each})" for each in patterns)), re.IGNORECASE
    )


_IDIOM: Final = _any_of(IDIOMS)
_IDIOM_OF_TESTS: Final = _any_of(IDIOMS_OF_TESTS)
_FIRST_WORD: Final = re.compile(r"\W*(\w+)")
_CODE: Final = re.compile(r"``?[^`]*``?")


class Finding(NamedTuple):
    """A place that breaks a rule."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.text}"


def findings(path: Path, *, names: bool, texts: bool) -> Iterator[Finding]:
    """Yield what a module breaks.

    Args:
        path: of the module.
        names: whether its names are checked, too.
        texts: whether string literals with more than a word are checked for idioms, too.
    """
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    nodes = [*ast.walk(tree)]
    docstrings = dict(_docstrings(nodes))
    for node, text in docstrings.items():
        first = _FIRST_WORD.match(text)
        if first is not None and first[1] in OPENINGS:
            yield Finding(path, node.lineno, f"a docstring begins with {first[1]!r}")
    sentences = [(node.lineno, text) for node, text in docstrings.items()]
    sentences += _comments(source)
    if texts:
        literals = (each for each in _texts(nodes) if each[0] not in docstrings)
        sentences += ((node.lineno, text) for node, text in literals)
    for line, text in sentences:
        for match in _IDIOM.finditer(_CODE.sub("", text)):
            yield Finding(path, line, f"{match[0]!r}: write {_instead(match[0], IDIOMS)}")
    bindings = sorted(set(_names(nodes)))
    for line, name in bindings:
        if name.startswith("test_"):
            for match in _IDIOM_OF_TESTS.finditer(name.replace("_", " ")):
                instead = _instead(match[0], IDIOMS_OF_TESTS)
                yield Finding(path, line, f"{match[0]!r} in the name of a test: write {instead}")
    if names:
        every_name = {name for _, name in bindings}
        for line, name in bindings:
            is_side = name.replace("left", "right").replace("LEFT", "RIGHT") in every_name - {name}
            if name.strip("_").lower() in PARTICIPLES and not is_side:
                yield Finding(path, line, f"the name {name!r} hides what it holds")


def _instead(idiom: str, idioms: Mapping[str, str]) -> str:
    return next(text for each, text in idioms.items() if re.fullmatch(each, idiom, re.IGNORECASE))


def _docstrings(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.Constant, str]]:
    """Yield each docstring, those behind a constant or an attribute included."""
    for node in nodes:
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        is_owner = isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        )
        for before, each in zip([None, *body], body, strict=False):
            is_place = isinstance(before, ast.Assign | ast.AnnAssign) or (
                before is None and is_owner
            )
            value = each.value if isinstance(each, ast.Expr) else None
            if is_place and isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value, value.value


def _comments(source: str) -> list[tuple[int, str]]:
    """Return the comments of a module; none without reading it if no line can hold an idiom."""
    ends = (line[at.start() :] for line in source.splitlines() for at in re.finditer("#", line))
    if not any(_IDIOM.search(_CODE.sub("", end)) for end in ends):
        return []
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [(each.start[0], each.string) for each in tokens if each.type == tokenize.COMMENT]


def _texts(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.Constant, str]]:
    """Yield each string literal of more than one word."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node, node.value


def _names(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield each name that a module gives to something."""
    for node in nodes:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case ast.alias(asname=str() as name):
                yield node.lineno, name
            case ast.ExceptHandler(name=str() as name):
                yield node.lineno, name
            case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name):
                yield node.lineno, name
            case ast.MatchMapping(rest=str() as name):
                yield node.lineno, name


def modules(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the modules of ours that are, or are below, these paths."""
    for path in paths:
        for each in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            is_foreign = not {"node_modules", "pinned"}.isdisjoint(each.parts)
            if not is_foreign and each.relative_to(ROOT).as_posix() not in UNCHECKED:
                yield each


def checks_of(path: Path) -> dict[str, bool]:
    """Return the arguments of `findings` for a module of ours."""
    name = path.relative_to(ROOT).as_posix()
    return {"names": not name.startswith(WIRE_NAMES), "texts": name.startswith("eca")}


def main() -> int:
    """Print the findings in the paths of the command line, or in all; return an exit code."""
    paths = [Path(each).resolve() for each in sys.argv[1:]] or [ROOT / top for top in TOPS]
    count = 0
    for path in modules(paths):
        for finding in findings(path, **checks_of(path)):
            print(finding)
            count += 1
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
