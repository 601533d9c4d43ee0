"""Compare the requirements table with what the tests say they show.

    python tests/check_requirements.py [--table] [--root FOLDER]

The suite is collected, not run. Exit code 0: every row has a test, and no test names a row that
does not exist.
"""

import argparse
import contextlib
import io
import sys
from pathlib import Path

import pytest

from eca_protocol.testing.requirements import REQUIREMENTS
from eca_protocol.testing.requirements.audit import Audit, Claim, audit

REPOSITORY = Path(__file__).resolve().parent.parent


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
    said = io.StringIO()
    arguments = [
        "--collect-only",
        "--quiet",
        f"--rootdir={root}",
        f"--config-file={REPOSITORY / 'pyproject.toml'}",
        str(root / "tests"),
    ]
    with contextlib.redirect_stdout(said):
        code = pytest.main(arguments, plugins=[collector])
    if code != pytest.ExitCode.OK:
        sys.exit(f"{said.getvalue()}\nthe suite cannot be collected: {code!r}")
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
