"""The server, which writes on SIGUSR2 what tasks it has: `counted_server.py FILE ARGUMENTS...`.

Tasks of an async library cannot be counted from outside.
"""

import gc
import os
import signal
import sys
from pathlib import Path

import trio


def tasks_of(task: trio.lowlevel.Task | None) -> list[str]:
    """Return the names of a task and of all that it began."""
    assert task is not None
    children = [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return [task.name, *(name for child in children for name in tasks_of(child))]


def main() -> None:
    counted = Path(sys.argv.pop(1))

    def count(*_: object) -> None:
        gc.collect()
        new = counted.with_suffix(".new")
        new.write_text("\n".join(tasks_of(trio.lowlevel.current_root_task())))
        os.replace(new, counted)  # noqa: PTH105

    signal.signal(signal.SIGUSR2, count)
    from eca_server.__main__ import main as serve  # noqa: PLC0415 - as a fresh process does

    serve()


if __name__ == "__main__":
    main()
