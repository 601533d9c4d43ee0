"""What a client under test starts as its server: it joins the client's pipes with the suite.

It is run by path, `python -I relay.py PORT WORD`, so it imports nothing but the standard library.
WORD tells the suite that it is no stranger who calls. Arguments behind these, such as the `server`
that many editors add, mean nothing; with `--version` it says what it is, as some editors ask first.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

_BLOCK = 65_536


def main() -> None:
    """Relay until the suite hangs up."""
    if "--version" in sys.argv[3:]:
        sys.stdout.write("eca_server 0.0.0\n")
        return
    suite = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    suite.sendall(sys.argv[2].encode() + b"\n")
    threading.Thread(target=_pass_on, args=(suite,), daemon=True).start()
    while data := suite.recv(_BLOCK):
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]
    os._exit(0)


def _pass_on(suite: socket.socket) -> None:
    while data := os.read(0, _BLOCK):
        suite.sendall(data)
    suite.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    try:
        main()
    except OSError:
        os._exit(1)
