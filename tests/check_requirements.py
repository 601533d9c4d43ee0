"""Compare the requirements table with what the tests say they show.

    python tests/check_requirements.py [--table] [--root FOLDER]

The suite is collected, not run. Exit code 0: every row has a test, and no test names a row that
does not exist.
"""

import argparse
import contextlib
import io
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import attrs
import pytest

from eca_protocol.testing.requirements import GROUPS, REQUIREMENTS, lookup

REPOSITORY = Path(__file__).resolve().parent.parent


@attrs.frozen(kw_only=True)
class Claim:
    """A test and the rows that its markers name."""

    test: str
    names: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Audit:
    """The result of a comparison.

    Attributes:
        shown: the tests that verify each row, by id and in the order of the table, without rows
            that have no test.
        findings: one sentence for each mismatch.
    """

    shown: Mapping[str, tuple[str, ...]]
    findings: tuple[str, ...]


def audit(claims: Iterable[Claim]) -> Audit:
    """Compare the claims of a whole suite with the table."""
    tests: dict[str, list[str]] = {id_: [] for id_ in REQUIREMENTS}
    wrong: list[str] = []
    for claim in claims:
        for name in claim.names:
            wrong.extend(_record(claim.test, name, tests))
    wrong += [
        f"{id_}: has no test: {REQUIREMENTS[id_].statement}"
        for id_, showing in tests.items()
        if not showing
    ]
    shown = {id_: tuple(showing) for id_, showing in tests.items() if showing}
    return Audit(shown=MappingProxyType(shown), findings=tuple(wrong))


def _record(test: str, name: str, tests: dict[str, list[str]]) -> Iterator[str]:
    try:
        rows = lookup(name)
    except KeyError:
        yield f"{test}: names {name!r}, which is not in the requirements table"
        return
    if name not in GROUPS:
        for requirement in rows:
            tests[requirement.id].append(test)


class Collector:
    """A pytest plugin that notes each test function and its markers, deselected ones too."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = {}

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        names = self._names.setdefault(item.nodeid.partition("[")[0], [])
        for mark in item.iter_markers("requirement"):
            names += mark.args

    @property
    def claims(self) -> list[Claim]:
        return [
            Claim(test=function, names=tuple(dict.fromkeys(names)))
            for function, names in self._names.items()
        ]


def collect(root: Path) -> list[Claim]:
    """The claims of the suite in `root`'s folder `tests`; exits if it cannot be collected."""
    collector = Collector()
    output = io.StringIO()
    arguments = [
        "--collect-only",
        "--quiet",
        f"--rootdir={root}",
        f"--config-file={REPOSITORY / 'pyproject.toml'}",
        str(root / "tests"),
    ]
    with contextlib.redirect_stdout(output):
        code = pytest.main(arguments, plugins=[collector])
    if code != pytest.ExitCode.OK:
        sys.exit(f"{output.getvalue()}\nthe suite cannot be collected: {code!r}")
    return collector.claims


def print_table(result: Audit) -> None:
    """One line per row: its id, how many tests, one of them, the requirement."""
    for id_, requirement in REQUIREMENTS.items():
        tests = result.shown.get(id_, ())
        state = f"tests: {len(tests)}"
        first = f" [{tests[0]}]" if tests else ""
        print(f"{id_:<44} {state:<16} {requirement.statement}{first}")


def summary(result: Audit) -> str:
    return (
        f"{len(REQUIREMENTS)} requirements: {len(result.shown)} shown by tests; "
        f"{len(result.findings)} findings"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--table", action="store_true", help="print every row and what shows it")
    parser.add_argument(
        "--root", type=Path, default=REPOSITORY, help="the folder that holds `tests`"
    )
    options = parser.parse_args()
    result = audit(collect(options.root.resolve()))
    if options.table:
        print_table(result)
    for finding in result.findings:
        print(finding, file=sys.stderr)
    print(summary(result))
    return 1 if result.findings else 0


if __name__ == "__main__":
    sys.exit(main())
