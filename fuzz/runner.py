"""The runner of all fuzz targets: coverage-guided with atheris, or long runs with hypothesis.

A target is a file `fuzz_<name>.py` with a function `check(data: bytes)` that raises if an invariant
is broken. Its seeds are in `corpus/<name>/`, the words of its grammar in `<name>.dict`.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import itertools
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

HERE = Path(__file__).resolve().parent
MAX_LENGTH = 5000

Check = Callable[[bytes], None]


def has_atheris() -> bool:
    """Return True if this run is coverage-guided."""
    return "--hypothesis" not in sys.argv and importlib.util.find_spec("atheris") is not None


def instrumented() -> AbstractContextManager[object]:
    """Measure the coverage of the modules that a target imports within the block.

    It has no effect in a test that imports the target.
    """
    program = getattr(sys.modules["__main__"], "__file__", None)
    is_target = program is not None and Path(program).resolve().parent == HERE
    if not is_target or not has_atheris():
        return contextlib.nullcontext()
    import atheris  # noqa: PLC0415  # it is optional

    return atheris.instrument_imports(include=["eca_protocol", "eca_server"])


def cut(data: bytes) -> list[bytes]:
    """Split `data` into pieces of lengths that its first bytes determine."""
    edges = [0, *itertools.accumulate(byte % 40 for byte in data[:16]), len(data)]
    return [data[start:stop] for start, stop in itertools.pairwise(edges)]


def bytewise(data: bytes) -> list[bytes]:
    """Split `data` into pieces of one byte."""
    return [data[at : at + 1] for at in range(len(data))]


def texts(data: bytes, count: int) -> list[str]:
    """Return `count` texts, split at 0xFF, which no text contains; absent texts are empty."""
    fields = [field.decode("utf-8", "replace") for field in data.split(b"\xff")[:count]]
    return fields + [""] * (count - len(fields))


def seeds(name: str) -> list[bytes]:
    """Return the inputs in the repository."""
    return [path.read_bytes() for path in sorted((HERE / "corpus" / name).iterdir())]


def words(name: str) -> list[bytes]:
    """Return the words of the target's dictionary, which is in libFuzzer's format."""
    lines = (HERE / f"{name}.dict").read_text("ascii").splitlines()
    return [ast.literal_eval(f"b{line}") for line in lines if line.startswith('"')]


def main(name: str, check: Check) -> None:
    """Run a target for a while; exit with 0 if no invariant was broken."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="how long to run (default: 60)")
    parser.add_argument("--hypothesis", action="store_true", help="do not use atheris")
    parser.add_argument("inputs", nargs="*", type=Path, help="run these files once and end")
    options = parser.parse_args()
    if options.inputs:
        for path in options.inputs:
            check(path.read_bytes())
        print(f"{name}: {len(options.inputs)} inputs passed")
    elif has_atheris():
        _run_atheris(name, check, options.seconds)
    else:
        _run_hypothesis(name, check, options.seconds)


def _findings(name: str) -> Path:
    folder = HERE / "findings" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _run_atheris(name: str, check: Check, seconds: int) -> None:
    import atheris  # noqa: PLC0415  # it is optional

    findings = _findings(name)
    grown = findings / "corpus"
    grown.mkdir(exist_ok=True)
    atheris.Setup(
        [
            sys.argv[0],
            f"-max_total_time={seconds}",
            f"-max_len={MAX_LENGTH}",
            f"-dict={HERE / name}.dict",
            f"-artifact_prefix={findings}/",
            "-timeout=120",
            "-rss_limit_mb=1024",
            "-verbosity=0",
            "-print_final_stats=1",
            str(grown),
            str(HERE / "corpus" / name),
        ],
        check,
    )
    print(f"{name}: atheris for {seconds} s; the number of runs follows", flush=True)
    atheris.Fuzz()


def _run_hypothesis(name: str, check: Check, seconds: int) -> None:
    known = seeds(name)
    places = st.integers(0, max(map(len, known)))
    part = st.builds(
        lambda seed, start, stop: seed[start:stop], st.sampled_from(known), places, places
    )
    piece = st.sampled_from(words(name)) | part | st.binary(max_size=8)
    inputs = st.lists(piece, max_size=12).map(b"".join) | st.binary(max_size=64)
    runs = 0
    failing: bytes | None = None

    @settings(
        max_examples=500, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(inputs)
    def batch(data: bytes) -> None:
        nonlocal runs, failing
        runs += 1
        try:
            check(data)
        except BaseException:
            failing = data
            raise

    for seed in known:
        check(seed)
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            batch()
    finally:
        if failing is not None:
            path = _findings(name) / "hypothesis-failure"
            path.write_bytes(failing)
            print(f"{name}: the smallest failing input is in {path}")
        print(f"{name}: hypothesis, {runs} runs and {len(known)} seeds in {seconds} s")
