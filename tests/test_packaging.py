"""An installed package: names, types, weight; and texts that no file may hold."""

import json
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.lazy import imported_by

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = ("eca_protocol", "eca_server")
MODULES = sorted(path for name in PACKAGES for path in (REPOSITORY / name).rglob("*.py"))
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]

HEAVY = {
    "anyio", "asyncio", "attr", "attrs", "cattrs", "concurrent", "h11", "http", "httpcore", "httpx",
    "hypothesis", "logging", "socket", "ssl", "subprocess", "threading", "trio",
}  # fmt: skip

SITE = {"_distutils_hack", "_missing_stdlib_info", "sitecustomize", "__main__", "_virtualenv"}
"""The modules that a Python environment itself may load (the second: Python 3.15)."""


def modules_after(statement: str) -> set[str]:
    """Return the modules that a statement loads."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); before = set(sys.modules)\n"
        f"{statement}\n"
        "import json; print(json.dumps(sorted(sys.modules.keys() - before)))"
    )
    command = [sys.executable, "-I", "-S", "-c", program, str(REPOSITORY)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_sdk_loads_next_to_nothing() -> None:
    loaded = modules_after("import eca_protocol") - modules_after("import importlib, typing")
    assert {name for name in loaded if name.startswith("eca_")} == {
        "eca_protocol",
        "eca_protocol.lazy",
    }
    assert len(loaded) <= 5, sorted(loaded)
    assert not {name.partition(".")[0] for name in loaded} & HEAVY


def test_importing_the_server_loads_nothing_else() -> None:
    assert modules_after("import eca_server") - modules_after("") <= {"eca_server", "__future__"}


@pytest.mark.long(but=4)
@pytest.mark.parametrize(
    ("statement", "packages"),
    [
        ("from eca_protocol import ECA, Codec, Fold, LineDecoder, dumps", set()),
        ("from eca_protocol import connect; import eca_protocol.peer", {"anyio"}),
        ("import eca_protocol.sync", {"anyio"}),
        ("from eca_protocol.ecp import *", {"anyio"}),
        ("import eca_protocol.testing", None),
        ("import eca_server", None),
    ],
)
def test_an_entry_point_loads_its_dependencies_only(
    statement: str, packages: set[str] | None
) -> None:
    optional = {"orjson", "sniffio", "typing_extensions"}  # or dependencies of the others
    known = {*PACKAGES, *optional, *SITE, *sys.stdlib_module_names}
    models = {"attr", "attrs", "cattrs"}
    loaded = {name.partition(".")[0] for name in imported_by(statement)}
    loaded = {name for name in loaded if not name.startswith("_sysconfigdata")}
    assert loaded - known == (set() if packages is None else models | packages)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_declares_to_type_checkers_that_it_is_typed(package: str) -> None:
    assert (REPOSITORY / package / "py.typed").is_file()


def public_modules() -> dict[str, list[str]]:
    """Return the names of the modules by their package."""
    others = "__main__", *(() if sys.platform == "win32" else ("platforms.windows",))
    by_package: dict[str, list[str]] = {}
    for path in MODULES:
        *package, name = path.relative_to(REPOSITORY).with_suffix("").parts
        module = ".".join([*package, name])
        if not module.endswith(others):
            by_package.setdefault(".".join(package), []).append(module.removesuffix(".__init__"))
    return by_package


@pytest.mark.parametrize(("package", "names"), public_modules().items())
def test_every_exported_name_is_there(package: str, names: list[str]) -> None:
    for name in names:
        module = import_module(name)
        exported = getattr(module, "__all__", [])
        assert len(set(exported)) == len(exported), name
        for exported_name in exported:
            assert hasattr(module, exported_name), (name, exported_name)


def test_the_sdk_exports_each_of_its_errors() -> None:
    assert set(import_module("eca_protocol.errors").__all__) <= set(
        import_module("eca_protocol").__all__
    )


def test_the_sdk_exports_each_name_from_one_module() -> None:
    sdk = import_module("eca_protocol")
    exported = [name for names in sdk._EXPORTS.values() for name in names.split()]
    assert sorted([*exported, *sdk._MODULES]) == sorted(sdk.__all__)
    assert set(sdk.__all__) <= set(dir(sdk))
    with pytest.raises(AttributeError, match="nonsense"):
        sdk.nonsense  # noqa: B018


@pytest.mark.parametrize("name", ["", "acp", "client", "codec", "ecp", "fold", "transcript"])
def test_a_name_that_type_checkers_see_is_the_one_that_is_loaded(name: str) -> None:
    package = f"eca_protocol.{name}".removesuffix(".")
    source = Path(import_module(package).__file__).read_text("utf-8")
    imported = re.findall(rf"from {re.escape(package)}\.?(\S*) import (\w+) as \2\n", source)
    if package == "eca_protocol":
        imported += [("errors", name) for name in import_module("eca_protocol.errors").__all__]
    for module, name in imported:
        home = import_module(f"{package}.{module}".removesuffix("."))
        assert getattr(import_module(package), name) is getattr(home, name), name
    assert sorted(name for _, name in imported) == sorted(import_module(package).__all__)


def test_no_list_of_names_hides_lazy_ones_from_type_checkers() -> None:
    lazy = [text for each in MODULES if "\nexport(globals()" in (text := each.read_text("utf-8"))]
    assert len(lazy) == 9
    assert not [text for text in lazy if "\n__all__" in text]


def test_no_module_is_past_500_lines() -> None:
    long = {
        str(path.relative_to(REPOSITORY)): count
        for path in MODULES
        if (count := len(path.read_text("utf-8").splitlines())) > 500
    }
    assert not long


def test_the_changelog_has_a_place_for_what_comes() -> None:
    changelog = (REPOSITORY / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## \[([^]]+)\]", changelog, re.MULTILINE)[0] in {
        "Unreleased",
        PROJECT["version"],
    }


def normal_name(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


def test_every_dependency_of_the_checks_is_pinned() -> None:
    lock = (REPOSITORY / "requirements-dev.lock").read_text("utf-8")
    pinned = {normal_name(pin) for pin in re.findall(r"^[\w.-]+(?:\[.*])?==", lock, re.MULTILINE)}
    extras = PROJECT["optional-dependencies"]
    requirements = [*PROJECT["dependencies"], *extras["dev"], *extras["release"]]
    assert {normal_name(requirement) for requirement in requirements} - {PROJECT["name"]} <= pinned


MACHINE = re.compile(r"(?<![\w.~-])/(?:work|tmp|root|opt)/|files\.pythonhosted|pypi\.org|npmjs")


def tracked_texts() -> dict[str, str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    paths = [
        name for name in listed.stdout.split("\0") if name and not name.startswith("fuzz/corpus")
    ]
    return {
        name: (REPOSITORY / name).read_text(
            "utf-8", errors="replace"
        )  # one is bytes for the kernel
        for name in paths
        if (REPOSITORY / name).is_file() and name != "tests/test_packaging.py"
    }


def test_no_file_names_a_machine_or_a_registry() -> None:
    machine_names = {name: MACHINE.findall(text) for name, text in tracked_texts().items()}
    assert not {name: matches for name, matches in machine_names.items() if matches}


def test_httpx_1_with_its_new_api_is_not_chosen_even_if_pre_releases_are() -> None:
    (requirement,) = (each for each in PROJECT["dependencies"] if each.startswith("httpx"))
    versions = Requirement(requirement).specifier
    assert versions.contains("0.28.1")
    assert not versions.contains("1.0.dev6", prereleases=True)
