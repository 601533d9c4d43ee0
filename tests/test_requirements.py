"""The check of the requirements finds each kind of disagreement between tests and table."""

import subprocess
import sys
from pathlib import Path

import pytest

from eca_protocol.testing.requirements import REQUIREMENTS
from tests.check_requirements import Audit, Claim, audit

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "tests" / "check_requirements.py"
DUE = tuple(REQUIREMENTS)


def judge(*claims: tuple[str, ...]) -> Audit:
    return audit(Claim(test=f"test_{place}", names=names) for place, names in enumerate(claims))


def test_a_suite_that_shows_each_row_that_is_due_is_fine() -> None:
    result = judge((), *((id_,) for id_ in DUE))
    assert not result.findings
    assert tuple(result.shown) == DUE


def test_one_test_may_show_many_rows_and_one_row_may_have_many_tests() -> None:
    result = judge(DUE, ("BASE-2",))
    assert not result.findings
    assert result.shown["BASE-2"] == ("test_0", "test_1")


def test_a_row_without_a_test_is_found() -> None:
    (finding,) = judge(DUE[1:]).findings
    assert finding.startswith(f"{DUE[0]}: has no test")


def test_a_name_that_is_no_requirement_is_found() -> None:
    (finding,) = judge(DUE, ("BASE-999",)).findings
    assert finding.startswith("test_1: names 'BASE-999'")


def test_a_ruling_named_as_a_whole_shows_none_of_its_requirements() -> None:
    without = tuple(id_ for id_ in DUE if id_ != "W-13a")
    result = judge(without, ("W-13",))
    assert [finding.partition(":")[0] for finding in result.findings] == ["W-13a"]


def test_a_pattern_shows_all_fields_that_it_fits() -> None:
    fields = tuple(id_ for id_ in DUE if id_.startswith("FIELD:"))
    rest = tuple(id_ for id_ in DUE if not id_.startswith("FIELD:"))
    result = judge(rest, ("FIELD:*",))
    assert not result.findings
    assert all(result.shown[id_] == ("test_1",) for id_ in fields)


def run_on(suite: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--root", str(suite), *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"},
    )


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite whose markers stand on modules, classes, functions and parameters."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_marked.py").write_text(
        "import pytest\n"
        "pytestmark = pytest.mark.requirement('BASE-2')\n"
        "class TestClass:\n"
        "    pytestmark = pytest.mark.requirement('BASE-3')\n"
        "    @pytest.mark.requirement('BASE-4', 'BASE-5')\n"
        "    @pytest.mark.long\n"
        "    def test_function(self):\n"
        "        pass\n"
        "@pytest.mark.parametrize(\n"
        "    'x', [pytest.param(1, marks=pytest.mark.requirement('NO-1')), 2]\n"
        ")\n"
        "def test_parameter(x):\n"
        "    pass\n"
    )
    return tmp_path


@pytest.mark.long
def test_the_script_reads_every_place_a_marker_may_be_in(suite: Path) -> None:
    done = run_on(suite, "--table")
    assert done.returncode == 1
    assert "test_marked.py::test_parameter: names 'NO-1'" in done.stderr
    assert "BASE-1: has no test" in done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert "tests: 2" in lines["BASE-2"]
    assert all("tests: 1" in lines[id_] for id_ in ("BASE-3", "BASE-4", "BASE-5"))


@pytest.mark.long
def test_the_script_ends_well_if_all_rows_that_are_due_are_shown(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_all.py").write_text(
        f"import pytest\n@pytest.mark.requirement(*{DUE!r})\ndef test_all():\n    pass\n"
    )
    done = run_on(tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{len(DUE)} shown by tests" in done.stdout


@pytest.mark.long
def test_a_suite_that_cannot_be_collected_is_a_failure_that_says_why(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_broken.py").write_text("import no_such_module\n")
    done = run_on(tmp_path)
    assert done.returncode == 1
    assert "no_such_module" in done.stderr
