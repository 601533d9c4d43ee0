"""The cost of a start: CPU time to the answer of `initialize`, memory, `--version`, `--help`.

Run it from the repository: `python tests/benchmarks/bench_start.py`. Bounds: at most 1.5x the CPU
time of `python -c "import trio, attrs, cattrs"`, and 60 MiB resident after `initialize`. Each start
is a process of its own, killed when it has answered; contenders take turns; medians count. The
import of each public entry point has a budget, in times of the bare imports of its dependencies.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

from report import Row, machine, print_rows, print_table
from rig import SERVER, BareClient, Rig, rig

ROUNDS = 15
FLOOR = (sys.executable, "-c", "import trio, attrs, cattrs")

ENTRY_POINTS = {
    "eca_protocol": ("typing", 1.3),
    "eca_protocol.ecp": ("typing", 1.3),
    "eca_protocol.testing": ("typing", 1.3),
    "eca_server": ("sys", 1.3),
    "eca_protocol.client": ("anyio, attrs, cattrs", 2.5),
    "eca_protocol.sync": ("anyio.from_thread, attrs, cattrs", 2.5),
}
"""The public entry points, their dependencies, and the budget in times of those."""


def cpu_of(process: subprocess.Popen[bytes]) -> float:
    """CPU seconds of a process that has ended or is ended here."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    return usage.ru_utime + usage.ru_stime


def run_to_the_end(here: Rig, *command: str) -> float:
    with here.process(command) as process:
        return cpu_of(process)


def start_to_the_answer(here: Rig) -> float:
    with here.process(SERVER) as process:
        BareClient(process).initialize()
        process.kill()
        return cpu_of(process)


def resident(here: Rig) -> float:
    with here.process(SERVER) as process:
        client = BareClient(process)
        client.initialize()
        return client.resident_mib()


def wall(here: Rig, *command: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=here.environment, cwd=here.folder)
    return time.perf_counter() - start


def import_rows(here: Rig) -> list[Row]:
    imports = {*ENTRY_POINTS, *(dependencies for dependencies, _ in ENTRY_POINTS.values())}
    cpu: dict[str, list[float]] = {name: [] for name in imports}
    for _ in range(ROUNDS):
        for name, seconds in cpu.items():
            seconds.append(run_to_the_end(here, sys.executable, "-c", f"import {name}"))
    medians = {name: median(seconds) for name, seconds in cpu.items()}
    rows, table = [], []
    for name, (dependencies, budget) in ENTRY_POINTS.items():
        ratio = medians[name] / medians[dependencies]
        rows.append(Row(f"import {name}, CPU", f"<= {budget}x", f"{ratio:.2f}x", ratio <= budget))
        table.append(
            (name, dependencies, f"{medians[name] * 1e3:.0f}", f"{ratio:.2f}", f"{budget}")
        )
    print_table(
        "CPU time of an import", ("entry point", "dependencies", "ms", "x those", "budget"), table
    )
    return rows


def main() -> list[Row]:
    print(machine("trio", "attrs", "cattrs", "anyio"))
    contenders: dict[str, Callable[[Rig], float]] = {
        'python -c "import trio, attrs, cattrs"': lambda here: run_to_the_end(here, *FLOOR),
        "server, to the answer of initialize": start_to_the_answer,
        'python -c "import anyio", trio and the above': lambda here: run_to_the_end(
            here, *FLOOR[:-1], f"{FLOOR[-1]}, anyio, anyio._backends._trio"
        ),
    }
    server = (sys.executable, "-m", "eca_server")
    with rig() as here:
        cpu: dict[str, list[float]] = {name: [] for name in contenders}
        for run in contenders.values():  # the first time compiles
            run(here)
        for _ in range(ROUNDS):
            for name, run in contenders.items():
                cpu[name].append(run(here))
        memory = median([resident(here) for _ in range(3)])
        walls = {
            flag: median([wall(here, *server, flag) for _ in range(ROUNDS)])
            for flag in ("--version", "--help")
        }
        imports = import_rows(here)
        walls["python -c pass"] = median(
            [wall(here, sys.executable, "-c", "pass") for _ in range(ROUNDS)]
        )
    medians = {name: median(seconds) for name, seconds in cpu.items()}
    floor = medians['python -c "import trio, attrs, cattrs"']
    print_table(
        "CPU time of a start",
        ("contender", "ms", "least", "most", "x floor"),
        [
            (
                name,
                f"{medians[name] * 1e3:.0f}",
                f"{min(seconds) * 1e3:.0f}",
                f"{max(seconds) * 1e3:.0f}",
                f"{medians[name] / floor:.2f}",
            )
            for name, seconds in cpu.items()
        ],
    )
    print_table(
        "Wall time", ("what", "ms"), [(name, f"{s * 1e3:.0f}") for name, s in walls.items()]
    )
    ratio = medians["server, to the answer of initialize"] / floor
    return [
        Row(
            "process start to the answer of initialize, CPU",
            "<= 1.5x",
            f"{ratio:.2f}x",
            ratio <= 1.5,
        ),
        *imports,
        Row("resident memory after initialize", "<= 60 MiB", f"{memory:.1f} MiB", memory <= 60),
    ]


if __name__ == "__main__":
    print_rows(main())
