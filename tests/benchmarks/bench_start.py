"""The cost of a start: CPU time to the answer of `initialize`, memory, `--version`, `--help`.

Bounds: at most 1.5x the CPU time of `python -c "import trio, attrs, cattrs"`, and 60 MiB resident
after `initialize`. Each start is a process of its own, killed when it has answered; contenders take
turns; medians count. The import of each public entry point has a budget, in times of the bare
imports of its dependencies.
"""

import os
import subprocess
import sys
from functools import partial
from statistics import median

from report import Row, at_most, clock_of, in_turns, machine, print_table
from rig import SERVER, BareClient, Rig, rig

ROUNDS = 15
FLOOR = (sys.executable, "-c", "import trio, attrs, cattrs")
BARE = 'python -c "import trio, attrs, cattrs"'
SERVER_START = "server, to the answer of initialize"

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


def start(here: Rig, *command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, env=here.environment, cwd=here.folder)


def import_rows(here: Rig) -> list[Row]:
    imports = {*ENTRY_POINTS, *(dependencies for dependencies, _ in ENTRY_POINTS.values())}
    contenders = {
        name: partial(run_to_the_end, here, sys.executable, "-c", f"import {name}")
        for name in imports
    }
    medians = {name: median(each) for name, each in in_turns(contenders, ROUNDS).items()}
    rows, table = [], []
    for name, (dependencies, budget) in ENTRY_POINTS.items():
        ratio = medians[name] / medians[dependencies]
        rows.append(at_most(f"import {name}, CPU", ratio, budget))
        ms = f"{medians[name] * 1e3:.0f}"
        table.append((name, dependencies, ms, f"{ratio:.2f}", f"{budget}"))
    print_table(
        "CPU time of an import", ("entry point", "dependencies", "ms", "x those", "budget"), table
    )
    return rows


def main() -> list[Row]:
    print(machine("trio", "attrs", "cattrs", "anyio"))
    with rig() as here:
        anyio = f"{FLOOR[-1]}, anyio, anyio._backends._trio"
        contenders = {
            BARE: partial(run_to_the_end, here, *FLOOR),
            SERVER_START: partial(start_to_the_answer, here),
            'python -c "import anyio", trio and the above': partial(
                run_to_the_end, here, *FLOOR[:-1], anyio
            ),
        }
        in_turns(contenders, 1)  # the first time compiles
        cpu = in_turns(contenders, ROUNDS)
        memory = median([resident(here) for _ in range(3)])
        commands = {
            "--version": ("-m", "eca_server", "--version"),
            "--help": ("-m", "eca_server", "--help"),
            "python -c pass": ("-c", "pass"),
        }
        clocks = {
            name: clock_of(partial(start, here, sys.executable, *words))
            for name, words in commands.items()
        }
        walls = {name: median(each) for name, each in in_turns(clocks, ROUNDS).items()}
        imports = import_rows(here)
    medians = {name: median(seconds) for name, seconds in cpu.items()}
    floor = medians[BARE]
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
    ratio = medians[SERVER_START] / floor
    return [
        at_most("process start to the answer of initialize, CPU", ratio, 1.5),
        *imports,
        at_most("resident memory after initialize", memory, 60, " MiB", digits=1),
    ]
