"""Our runtime of ECP beside upstream's: many scenarios, a start, and memory.

Bounds: 1,000 trivial scenarios at least 5x faster with one agent that is reset in between; a start
(`--help`, and a run of one scenario) at least 3x; memory flat from the 1,000th to the 10,000th
scenario. The agent is a few lines that start in some 10 ms. Upstream cannot keep a process: its
runs, as our own with a fresh process for each scenario, are measured over fewer scenarios, and what
one more of them costs is the slope between a short run and a longer one. Times are on the clock,
contenders take turns, the best round of each counts.
"""

import subprocess
import sys
from collections.abc import Callable
from functools import partial

from report import Row, at_least, at_most, clock_of, in_turns, machine, print_table
from rig import Rig, rig

from tests.environments import programs

ROUNDS = 3
START_ROUNDS = 9
MANY, SHORT, LONG = 1000, 10, 90
FASTER, START = 5.0, 3.0
GROWTH = 1.0  # MiB

AGENT = """
import json, sys
for line in sys.stdin.buffer:
    request = json.loads(line)
    result = True
    if request["method"] == "agent/initialize":
        result = {"name": "plain", "capabilities": {}}
    elif request["method"] == "agent/step":
        result = {"status": "done", "public_output": request["params"]["input"]}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}) + "\\n")
    sys.stdout.flush()
"""

RESIDENT = """
import os, sys, trio
from pathlib import Path
from eca_server.ecp.batch import Batch
from eca_server.ecp.manifest.reading import load_manifest
from eca_server.ecp.scheduler import plan
from eca_server.ecp.scenario import run_batch
from eca_server.ecp.target import resolve_target

manifest = load_manifest(Path(sys.argv[1]))
target = resolve_target(manifest.target, environment=os.environ, cwd=Path.cwd())
count = 0

def take(report):
    global count
    count += 1
    assert report.passed
    if count in (1_000, 10_000):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        print(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, flush=True)
    return True

batch = Batch(target=target, planned=plan(manifest, repeat=10), reuse_agent=True)
trio.run(run_batch, batch, take)
"""


class Bench:
    """Manifests and an agent in a folder, and commands that are run on them."""

    def __init__(self, here: Rig) -> None:
        self._here = here
        (here.folder / "agent.py").write_text(AGENT, "utf-8")
        self.agent = (sys.executable, "-S", "-E", "agent.py")
        self.ours = (sys.executable, "-m", "eca_server", "ecp")
        self.upstreams = {
            version: (str(programs(f"ecp-{version}") / "ecp"),) for version in ("0.10.0", "0.3.1")
        }

    def manifest(self, count: int) -> str:
        """The path of a manifest with that many scenarios of one step and one check."""
        file = self._here.folder / f"{count}.yaml"
        grader = "{type: text_match, condition: contains, value: good}"
        head = f"manifest_version: v1\nname: n\ntarget: {' '.join(self.agent)}\nscenarios:\n"
        scenarios = (
            f"- name: s{n}\n  steps: [{{input: good {n}, graders: [{grader}]}}]\n"
            for n in range(count)
        )
        file.write_text(head + "".join(scenarios), "utf-8")
        return str(file)

    def seconds(self, *command: str) -> float:
        """Return the seconds that a command takes; it has to succeed."""
        return clock_of(
            lambda: subprocess.run(
                command,
                check=True,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                cwd=self._here.folder,
                env=self._here.environment,
            )
        )()

    def run(self, program: tuple[str, ...], count: int, *flags: str) -> float:
        """Return the seconds that a run of so many scenarios takes."""
        return self.seconds(*program, "run", "--manifest", self.manifest(count), *flags)

    def resident(self) -> list[float]:
        """MiB after 1,000 and after 10,000 scenarios whose reports are not kept."""
        command = (sys.executable, "-c", RESIDENT, self.manifest(MANY))
        done = subprocess.run(
            command,
            check=True,
            stdout=subprocess.PIPE,
            cwd=self._here.folder,
            env=self._here.environment,
        )
        return [float(line) for line in done.stdout.split()]


def best_of(rounds: int, contenders: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The least seconds of each, after a first time that compiles."""
    in_turns(contenders, 1)
    return {name: min(each) for name, each in in_turns(contenders, rounds).items()}


def runs(bench: Bench) -> Row:
    upstream = bench.upstreams["0.10.0"]
    fresh: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
        "upstream 0.10.0": (upstream, ()),
        "ours, --jobs 1": (bench.ours, ()),
        "ours, --jobs 2": (bench.ours, ("--jobs", "2")),
    }
    contenders: dict[str, Callable[[], float]] = {
        "reused": partial(bench.run, bench.ours, MANY, "--reuse-agent"),
        "bare": partial(bench.seconds, *bench.agent),
    }
    for name, (program, flags) in fresh.items():
        for count in (SHORT, LONG):
            contenders[f"{name}, {count}"] = partial(bench.run, program, count, *flags)
    best = best_of(ROUNDS, contenders)
    slopes = {
        name: (best[f"{name}, {LONG}"] - best[f"{name}, {SHORT}"]) / (LONG - SHORT)
        for name in fresh
    }
    totals = {name: best[f"{name}, {SHORT}"] + (MANY - SHORT) * slopes[name] for name in fresh}
    totals["ours, --reuse-agent"] = best["reused"]
    print_table(
        f"{MANY} scenarios; a fresh process each but for the last, {SHORT} to {LONG} of them run",
        ("runtime", "s", "ms each", "x upstream"),
        [
            (
                name,
                f"{seconds:.1f}",
                f"{slopes.get(name, seconds / MANY) * 1e3:.1f}",
                f"{totals['upstream 0.10.0'] / seconds:.1f}",
            )
            for name, seconds in totals.items()
        ],
    )
    print(f"  the agent alone, started and ended: {best['bare'] * 1e3:.1f} ms")
    ratio = totals["upstream 0.10.0"] / best["reused"]
    return at_least(f"ECP: {MANY} scenarios, one agent that is reset", ratio, FASTER, "x faster")


def starts(bench: Bench) -> list[Row]:
    programs_by_name = {"ours": bench.ours} | {
        f"upstream {version}": program for version, program in bench.upstreams.items()
    }
    one = bench.manifest(1)
    commands = {
        "--help": ("--help",),
        "validate": ("validate", one),
        "one scenario": ("run", "--manifest", one),
    }
    contenders: dict[str, Callable[[], float]] = {}
    for command, words in commands.items():
        for name, program in programs_by_name.items():
            contenders[f"{command}: {name}"] = partial(bench.seconds, *program, *words)
    best = best_of(START_ROUNDS, contenders)
    ratios = {
        command: best[f"{command}: upstream 0.10.0"] / best[f"{command}: ours"]
        for command in commands
    }
    print_table(
        "Starts",
        ("command", "ms", "x ours"),
        [
            (
                name,
                f"{seconds * 1e3:.0f}",
                f"{seconds / best[name.partition(':')[0] + ': ours']:.1f}",
            )
            for name, seconds in best.items()
        ],
    )
    return [
        at_least(f"ECP: start, {command}", ratio, START, "x faster")
        for command, ratio in ratios.items()
        if command != "validate"
    ]


def memory(bench: Bench) -> Row:
    first, last = bench.resident()
    print_table(
        "Resident size, reports aside",
        ("after", "MiB"),
        [("1,000 scenarios", f"{first:.2f}"), ("10,000 scenarios", f"{last:.2f}")],
    )
    return at_most("ECP: growth over 9,000 scenarios", last - first, GROWTH, " MiB")


def main() -> list[Row]:
    print(machine("trio", "anyio"))
    with rig() as here:
        bench = Bench(here)
        return [runs(bench), *starts(bench), memory(bench)]
