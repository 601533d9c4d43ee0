"""Makes the pictures of the README: a chat in the real Emacs, and the real inspector of that chat.

    python docs/make_pictures.py --plugin DIRECTORY [--chromium PROGRAM]

DIRECTORY has the sources of eca-emacs; `--load-path` names the folders of its dependencies, if
Emacs does not find them by itself. Emacs runs in a terminal that this script emulates, with this
server behind `eca-server tap` and a scripted model in place of a real one. The screen becomes
`pictures/chat.svg`, and the recording `pictures/inspector.png`.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import pyte

from eca_protocol.testing.provider import delay, provider_in_thread, reply, tool_call

DOCS = Path(__file__).resolve().parent
PICTURES = DOCS / "pictures"
COLUMNS, ROWS = 116, 32
FILES = {
    "prices.py": "def total(prices, discount):\n    return sum(prices) - discount\n\n\n"
    "def average(prices):\n    return sum(prices) / len(prices)\n",
    "check.py": "from prices import average\n\nassert average([2, 4]) == 3\n"
    "assert average([]) == 0\nprint('all is well')\n",
}
PROMPT = "Why does check.py fail? Fix it."
ANSWERS = (
    reply("I will look at the code first.", tool_call("read_file", '{"path": "prices.py"}')),
    reply(
        "`average` divides by zero if there are no prices.",
        tool_call(
            "edit_file",
            json.dumps(
                {
                    "path": "prices.py",
                    "original_content": "    return sum(prices) / len(prices)",
                    "new_content": "    return sum(prices) / len(prices) if prices else 0",
                }
            ),
        ),
    ),
    reply("Now the check:", tool_call("shell_command", '{"command": "python3 check.py"}')),
    reply(delay(0.2), "Fixed: the average of no prices is now 0, and `check.py` passes."),
)
COLORS = {
    "default": "#d8dee9", "black": "#3b4252", "red": "#e06c75", "green": "#98c379",
    "brown": "#e5c07b", "blue": "#61afef", "magenta": "#c678dd", "cyan": "#56b6c2",
    "white": "#d8dee9",
}  # fmt: skip
CELL = (8.4, 18)  # pixels
NO_BREAK = "\xa0"


class Terminal:
    """A program in a terminal of its own, and the screen that it paints."""

    def __init__(self, command: Sequence[str], directory: Path, environment: dict[str, str]):
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self.screen)
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            os.execvpe(command[0], list(command), environment)  # noqa: S606 - a program in a terminal
        size = struct.pack("HHHH", ROWS, COLUMNS, 0, 0)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, size)

    def send(self, keys: str) -> None:
        """Press keys."""
        os.write(self._fd, keys.encode())

    def until(self, text: str, seconds: float = 60) -> None:
        """Paint until a text is on the screen."""
        self._paint(seconds, lambda: text in "\n".join(self.screen.display), text)

    def rest(self, seconds: float) -> None:
        """Paint what comes within a time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._read(0.1)

    def end(self) -> None:
        """End the program."""
        os.kill(self.pid, signal.SIGTERM)
        self.rest(1)
        os.close(self._fd)
        os.waitpid(self.pid, 0)

    def _paint(self, seconds: float, is_done: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + seconds
        while not is_done():
            if time.monotonic() > end:
                raise SystemExit(f"{what!r} did not appear:\n" + "\n".join(self.screen.display))
            self._read(0.2)

    def _read(self, seconds: float) -> None:
        if select.select([self._fd], [], [], seconds)[0]:
            try:
                self._stream.feed(os.read(self._fd, 65536))
            except OSError:  # the program has ended
                time.sleep(seconds)


def main() -> None:
    """Make both pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--plugin", type=Path, required=True, help="the sources of eca-emacs")
    parser.add_argument("--load-path", type=Path, action="append", default=[])
    parser.add_argument("--chromium", default="chromium")
    options = parser.parse_args()
    PICTURES.mkdir(exist_ok=True)
    with TemporaryDirectory() as scratch:
        recording = Path(scratch) / "session.jsonl"
        picture = _chat(Path(scratch), recording, [options.plugin, *options.load_path])
        (PICTURES / "chat.svg").write_text(picture, "utf-8")
        _inspector(Path(scratch), recording, options.chromium)


def _chat(scratch: Path, recording: Path, load_path: Sequence[Path]) -> str:
    home = scratch / "home"
    project = home / "shop"
    home.mkdir()
    project.mkdir()
    for name, text in FILES.items():
        (project / name).write_text(text, "utf-8")
    program = home / "bin" / "eca-server"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m eca_server "$@"\n', "utf-8")
    program.chmod(0o755)
    tapped = ["eca-server", "tap", "--out", str(recording), "--", "eca-server", "server"]
    setup = home / "setup.el"
    with provider_in_thread(ANSWERS, title=reply("The average of no prices")) as model:
        config = _config(model.url)
        setup.write_text(_setup(tapped, load_path), "utf-8")
        environment = {
            **os.environ,
            "HOME": str(home),
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "TERM": "xterm",
            "LANG": "C.UTF-8",
            "ECA_CONFIG": json.dumps(config),
            "PYTHONPATH": str(DOCS.parent),
        }
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            environment.pop(name, None)
        terminal = Terminal(
            ["emacs", "-nw", "-Q", "-l", str(setup), "prices.py"], project, environment
        )
        terminal.until("def average")
        terminal.send("\x1bxeca\r")
        terminal.until("demo/coder")
        terminal.rest(2)
        terminal.send(PROMPT + "\r")
        terminal.until("Accept (C-c C-a)")
        terminal.rest(2)
        picture = svg(terminal.screen)
        terminal.send("\x03\x01")
        terminal.until("Now the check:")
        terminal.until("Accept (C-c C-a)")
        terminal.rest(2)
        terminal.send("\x03\x01")
        terminal.until("Fixed:")
        terminal.rest(3)
        terminal.end()
    return picture


def _config(url: str) -> dict[str, object]:
    provider = {"api": "openai-chat", "url": url, "key": "none", "models": {"coder": {}}}
    return {
        "defaultModel": "demo/coder",
        "catalog": {"refresh": False},
        "providers": {"demo": {**provider, "fetchModels": False}},
    }


def _setup(server: Sequence[str], load_path: Sequence[Path]) -> str:
    paths = "\n".join(f'(add-to-list \'load-path "{path.resolve()}")' for path in load_path)
    command = " ".join(json.dumps(word) for word in server)
    return f"""\
{paths}
(setq inhibit-startup-screen t make-backup-files nil auto-save-default nil)
(setq native-comp-async-report-warnings-errors nil)
(menu-bar-mode -1)
(require 'eca)
(setq eca-custom-command '({command}) eca-chat-window-width 0.56)
(setq eca-chat-mcp-tool-call-success-symbol "✔"
      eca-chat-mcp-tool-call-loading-symbol "…"
      eca-chat-mcp-tool-call-pending-approval-symbol "?"
      eca-chat-expandable-block-open-symbol "▸ "
      eca-chat-expandable-block-close-symbol "▾ "
      eca-chat-prompt-prefix-loading "… ")
"""


def svg(screen: pyte.Screen) -> str:
    """Draw a screen."""
    width, height = COLUMNS * CELL[0], ROWS * CELL[1] + 8
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14">'
        ),
        f'<rect width="{width:g}" height="{height:g}" rx="6" fill="#20242c"/>',
    ]
    for row in range(ROWS):
        lines += _row(screen, row)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _row(screen: pyte.Screen, row: int) -> Iterator[str]:
    cells = [screen.buffer[row][column] for column in range(COLUMNS)]

    def style(column: int) -> tuple[str, str | None, bool]:
        cell = cells[column]
        front, back = _color(cell.fg), _color(cell.bg) if cell.bg != "default" else None
        if cell.reverse:
            front, back = back or "#20242c", front
        return "#20242c" if front == back else front, back, cell.bold

    for (front, back, is_bold), group in groupby(range(COLUMNS), key=style):
        columns = list(group)
        text = "".join(cells[column].data for column in columns)
        x, y = columns[0] * CELL[0], row * CELL[1] + 4
        indent = len(text) - len(text.lstrip())
        if back is not None:
            wide = len(columns) * CELL[0]
            yield f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{CELL[1]}" fill="{back}"/>'
        if text.strip():
            weight = ' font-weight="bold"' if is_bold else ""
            x += indent * CELL[0]
            shown = escape(text.strip()).replace(" ", NO_BREAK)
            yield (
                f'<text x="{x:g}" y="{y + 14:g}" fill="{front}"{weight} '
                f'textLength="{len(text.strip()) * CELL[0]:g}">{shown}</text>'
            )


def _color(name: str) -> str:
    return COLORS.get(name.removeprefix("bright"), f"#{name}" if len(name) == 6 else "#d8dee9")


def _inspector(scratch: Path, recording: Path, chromium: str) -> None:
    page = scratch / "talk.html"
    inspect = [sys.executable, "-P", "-m", "eca_server", "inspect", "--out", str(page)]
    environment = {**os.environ, "PYTHONPATH": str(DOCS.parent)}
    subprocess.run([*inspect, str(recording)], check=True, cwd=scratch, env=environment)
    shot = PICTURES / "inspector.png"
    size = "--window-size=1240,760"
    flags = [
        "--headless",
        "--no-sandbox",
        "--hide-scrollbars",
        f"--user-data-dir={scratch}/chromium",
    ]
    command = [chromium, *flags, size, "--virtual-time-budget=4000", f"--screenshot={shot}"]
    subprocess.run([*command, page.as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    main()
