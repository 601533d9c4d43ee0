"""Commands run to their end, and on a terminal."""

import os
import select
import signal
import subprocess
import time
from pathlib import Path

from tests.eca_server import fork_server
from tests.eca_server.fork_server import ECA
from tests.eca_server.stranger import environment


def eca(
    home: Path, *arguments: str, stdin: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, on a machine where only `env` is set."""
    done = fork_server.run((*ECA, *arguments), cwd=home, env=environment(home, **env), stdin=stdin)
    assert "Traceback" not in done.stderr, done.stderr
    return done


class Terminal:
    """A pseudo-terminal that runs `chat`, another command, or a line of a shell with it as `$@`."""

    def __init__(self, home: Path, *command_line: str, line: str = 'exec "$@"', **env: str) -> None:
        self._near, far = os.openpty()
        self.shown = b""
        self.all_shown = b""
        # It becomes the controlling terminal of the session.
        line = f'exec <"$TTY" >"$TTY" 2>&1; {line}'
        arguments = command_line or ("chat", "--model", "simulator/script")
        command = ["sh", "-c", line, "sh", *fork_server.command(), *arguments]
        self.process = subprocess.Popen(
            command,
            start_new_session=True,
            cwd=home,
            env=environment(home, **{"TTY": os.ttyname(far), "COLUMNS": "300", **env}),
            stdin=subprocess.DEVNULL,
            pass_fds=[far],
            # Undo an inherited ignored SIGINT, as in a background job.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )
        os.close(far)

    def type(self, keys: bytes, *expected: bytes) -> None:
        os.write(self._near, keys)
        self.until(*expected)

    def until(self, *expected: bytes) -> None:
        """Read until one text after the other is shown, and forget the output up to the last."""
        deadline = time.monotonic() + 20
        for text in expected:
            while text not in self.shown:
                remaining = max(0.0, deadline - time.monotonic())
                assert select.select([self._near], [], [], remaining)[0], self.shown[-500:]
                self._read()
            self.shown = self.shown.partition(text)[2]

    def _read(self) -> None:
        data = os.read(self._near, 65_536)
        self.shown += data
        self.all_shown += data

    def exit_code(self) -> int:
        """Read to the end."""
        deadline = time.monotonic() + 20
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.shown[-500:]
            if select.select([self._near], [], [], 0.02)[0]:
                try:
                    self._read()
                except OSError:  # Linux: the other end is closed
                    self.process.wait(5)
        return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        self.process.wait(5)
        os.close(self._near)
