"""Plant random errors in the product, one at a time, and count those that its tests find.

    python tests/mutation.py [--base REVISION] [--count N] [--seed N] [--seconds N] [PATH...]

With a base only the lines that changed since it are mutated; paths choose modules. Each error is
planted in a copy of the tree, where the tests of its module run: those that import it, and those
of its package and of the one above. An error that is not found is printed as a difference. The
same seed, tree and options plant the same errors in the same order.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import functools
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
PRODUCT: Final = ("eca_protocol", "eca_server")
LONGEST: Final = 120.0
"""Seconds for the tests of one error; an error that makes them hang was found."""

OTHER: Final[Mapping[type[ast.AST], type[ast.AST]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}
"""Operators, and those that replace them."""


class Mutation(NamedTuple):
    """One planted error: the text that replaces a piece of a module.

    Attributes:
        path: the module, from the root of the tree.
        line: its first line.
        start: its first byte in the module.
        end: the byte after it.
        text: its replacement.
    """

    path: str
    line: int
    start: int
    end: int
    text: str

    def planted(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]

    def difference(self, source: bytes) -> str:
        """Return the mutation for a reader."""
        before = " ".join(source[self.start : self.end].decode().split())
        return f"{self.path}:{self.line}: {before[:90]} -> {self.text[:90]}"


def mutations(path: str, source: bytes) -> Iterator[Mutation]:
    """Yield each mutation of a module, in the order of the syntax tree."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in _running(ast.parse(source)):
        for text in _replacements(node):
            assert isinstance(node, ast.expr | ast.stmt)
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            yield Mutation(path, node.lineno, start, end, text)


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that have an effect at run time: no annotations, no formatted strings."""
    for name, value in ast.iter_fields(tree):
        if name in {"annotation", "returns"}:
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr):
                continue
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                continue
            yield node
            yield from _running(node)


def _replacements(node: ast.AST) -> Iterator[str]:
    """Yield the texts that may replace a node."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in OTHER:
            other = ast.Compare(node.left, [_other(operator)], node.comparators)
            yield f"({ast.unparse(other)})"
        case ast.BoolOp():
            yield f"({ast.unparse(ast.BoolOp(_other(node.op), node.values))})"
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            yield f"({ast.unparse(ast.BinOp(node.left, _other(node.op), node.right))})"
        case ast.UnaryOp(op=ast.Not()):
            yield f"({ast.unparse(node.operand)})"
        case ast.Constant(value=bool()):
            yield str(not node.value)
        case ast.Constant(value=int() | float()):
            yield str(node.value + 1)
        case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()) | ast.Call():
            pass
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise():
            yield "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "pass"
        case ast.Return(value=ast.expr()) if not _is_none(node.value):
            yield "return None"
        case ast.Continue():
            yield "break"
    condition = getattr(node, "test", None)
    if isinstance(node, ast.IfExp):
        yield ast.unparse(ast.IfExp(ast.UnaryOp(ast.Not(), condition), node.body, node.orelse))


def _is_none(value: ast.AST | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _other(operator: ast.AST) -> ast.AST:
    return OTHER[type(operator)]()


def changed_lines(base: str) -> dict[str, set[int]]:
    """Return the lines of each module of the product that changed since a revision."""
    difference = subprocess.run(
        ("git", "diff", "--unified=0", "--no-color", base, "--", *PRODUCT),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines: dict[str, set[int]] = {}
    path = ""
    for line in difference.splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ b/")
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first = int(hunk[1])
            lines.setdefault(path, set()).update(range(first, first + int(hunk[2] or 1)))
    return {path: numbers for path, numbers in lines.items() if path.endswith(".py")}


def sample(paths: Iterable[str], base: str | None, seed: int) -> list[Mutation]:
    """Return all mutations of the chosen modules, shuffled."""
    chosen = [ROOT / path for path in paths or PRODUCT]
    modules = sorted(
        each for path in chosen for each in (path.rglob("*.py") if path.is_dir() else [path])
    )
    changed = None if base is None else changed_lines(base)
    all_of_them = []
    for module in modules:
        path = module.resolve().relative_to(ROOT).as_posix()
        if changed is None or path in changed:
            each = mutations(path, module.read_bytes())
            all_of_them += [m for m in each if changed is None or m.line in changed[path]]
    random.Random(seed).shuffle(all_of_them)
    return all_of_them


@functools.cache
def _test_files() -> dict[str, str]:
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
        for path in files
        if not {"node_modules", "torture", "clients", "pinned"} & set(path.parts)
    }


@functools.cache
def tests_of(path: str) -> tuple[str, ...]:
    """Return the test files of a module, the nearest first."""
    module = Path(path)
    package, name = ".".join(module.parent.parts), module.stem
    imports = re.compile(
        rf"\b{re.escape(package)}\.{name}\b|from {re.escape(package)} import [^\n]*\b{name}\b"
    )
    folder = f"tests/{module.parent.as_posix()}/"
    above = folder.rpartition("/")[0].rpartition("/")[0] + "/"
    files = _test_files()
    named = [file for file in files if file.endswith(f"{folder}test_{name}.py")]
    importing = [file for file, text in files.items() if imports.search(text)]
    near = [file for file in files if file.startswith(folder)]
    if above.count("/") > 2:
        near += [file for file in files if file.startswith(above) and "/" not in file[len(above) :]]
    return tuple(dict.fromkeys([*named, *importing, *near]))


class Copies:
    """Copies of the tree, one for each error that is planted at the same time."""

    def __init__(self, folder: Path, number: int) -> None:
        self._free: queue.Queue[Path] = queue.Queue()
        for index in range(number):
            copy = folder / str(index)
            ignored = shutil.ignore_patterns(
                "__pycache__", "node_modules", ".*", "findings", "site"
            )
            shutil.copytree(ROOT, copy, ignore=ignored, symlinks=True)
            (copy / "tests/node_modules").symlink_to(ROOT / "tests/node_modules")
            self._free.put(copy)
        self._sound: dict[tuple[str, ...], bool] = {}

    def finds(self, mutation: Mutation) -> bool | None:
        """Return whether the tests find an error; None where they fail without it, too."""
        copy = self._free.get()
        module = copy / mutation.path
        source, tests = module.read_bytes(), tests_of(mutation.path)
        try:
            module.write_bytes(mutation.planted(source))
            if _pass(copy, tests):
                return False
            module.write_bytes(source)
            if tests not in self._sound:
                self._sound[tests] = _pass(copy, tests)
            return True if self._sound[tests] else None
        finally:
            module.write_bytes(source)
            self._free.put(copy)


def _pass(copy: Path, tests: Iterable[str]) -> bool:
    """Return whether tests pass in a copy of the tree."""
    command = (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:xdist", *tests)
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(copy)}
    environment.pop("PYTEST_ADDOPTS", None)
    with subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            return process.wait(LONGEST) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return False


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the planted errors that the tests find.")
    parser.add_argument("paths", nargs="*", help="modules or packages; the product by default")
    parser.add_argument("--base", help="mutate only lines that changed since this revision")
    parser.add_argument("--count", type=int, default=60, help="errors to plant")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="plant none after this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    chosen = sample(options.paths, options.base, options.seed)[: options.count]
    deadline = time.monotonic() + options.seconds
    counts = {True: 0, False: 0, None: 0}
    with tempfile.TemporaryDirectory() as folder:
        copies = Copies(Path(folder), options.jobs)

        def judge(mutation: Mutation) -> tuple[Mutation, bool | None] | None:
            return None if time.monotonic() > deadline else (mutation, copies.finds(mutation))

        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for judged in filter(None, pool.map(judge, chosen)):
                mutation, was_found = judged
                counts[was_found] += 1
                if not was_found:
                    verdict = "not found" if was_found is False else "not judged"
                    source = (ROOT / mutation.path).read_bytes()
                    print(f"{verdict}: {mutation.difference(source)}", flush=True)
    planted = counts[True] + counts[False]
    rate = f"{100 * counts[True] / planted:.0f} %" if planted else "none planted"
    print(f"{counts[True]} of {planted} planted errors were found: {rate}")


if __name__ == "__main__":
    main()
