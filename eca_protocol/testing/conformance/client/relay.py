"""The program that a client under test starts as its server: it relays its pipes to the suite.

It is run by path, `python -I relay.py PORT WORD`, so it imports nothing but the standard library.
WORD is the secret that identifies it to the suite. Further arguments, such as the `server` that
many editors add, are ignored, except `--version`, which some editors ask for first.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

_BLOCK = 65_536


def main() -> None:
    """Relay until the suite closes the connection."""
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
