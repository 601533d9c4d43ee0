"""The table of known problems is complete, and its tests exist."""

import ast
from pathlib import Path

import pytest

from tests.eca_server.models.gotchas import GOTCHAS

NUMBERS = {*map(str, range(1, 85)), "19b", "46b"}
HERE = Path(__file__).parent


def names_of(module: Path) -> set[str]:
    """Return the tests of a module; those of a class follow its name."""
    body = ast.parse(module.read_text()).body
    classes = {each.name: each.body for each in body if isinstance(each, ast.ClassDef)}
    return {
        prefix + each.name
        for prefix, inside in [("", body), *((f"{name}::", its) for name, its in classes.items())]
        for each in inside
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_one_has_its_row():
    assert GOTCHAS.keys() == NUMBERS


@pytest.mark.parametrize("number", sorted(GOTCHAS))
def test_the_test_that_shows_it_is_there(number):
    module, shown, name = GOTCHAS[number].partition("::")
    if shown:
        assert name in names_of((HERE / module).resolve())
    else:
        assert len(module.split()) > 3, "a reason"
