"""A command in place of `eca-server`: its process is forked from one that has imported it.

    python -I -S forked.py ADDRESS ARGUMENT...

It has this process's directory, environment and standard streams; signals that end a process are
passed on, and the exit code is the other's. Its process id is written to the file that the
variable names. `tests/eca_server/fork_server.py` listens.
"""

import json
import os
import signal
import socket
import sys

PID_FILE = "ECA_TESTS_PID_FILE"
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> int:
    address, *arguments = sys.argv[1:]
    status, theirs = os.pipe()
    order = {"arguments": arguments, "cwd": os.getcwd(), "env": dict(os.environ)}  # noqa: PTH109
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as starter:
        starter.connect(f"\0{address}")
        socket.send_fds(starter, [json.dumps(order).encode()], [0, 1, 2, theirs])
        pid = int(starter.recv(32))
    os.close(theirs)
    if PID_FILE in os.environ:
        with open(os.environ[PID_FILE], "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(f"{pid}")
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: os.kill(pid, number))
    os.closerange(0, 3)  # or the end of a stream is not seen
    code = int(os.read(status, 32))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    os._exit(main())
