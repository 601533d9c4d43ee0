"""A proxy for bytes: it cuts, holds or splits what passes at one chosen byte.

It stands between any two sockets: a client and a server process, or a server and a model's
endpoint. One thread does all.
"""

import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, Self

import attrs

Direction = Literal["up", "down"]
Kind = Literal["reset", "end", "split", "hold"]
KINDS: tuple[Kind, ...] = ("reset", "end", "split", "hold")
_RESET = struct.pack("ii", 1, 0)


@attrs.frozen
class Fault:
    """The treatment of the bytes of one direction.

    Attributes:
        way: to the server (`up`) or from it.
        kind: close the connection by RST or FIN at the byte, pass bytes one by one from it on,
            or wait before it.
        at: the number of the byte.
        seconds: the wait of `hold`.
    """

    way: Direction
    kind: Kind
    at: int
    seconds: float = 0.2


class Proxy:
    """Listens on loopback; each connection gets one to the server.

    Attributes:
        port: where it listens.
        passed: the bytes of each direction since the last `arm`.
    """

    def __init__(self, connect: Callable[[], socket.socket]) -> None:
        self._connect = connect
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="proxy")
        self._fault: Fault | None = None
        self.passed: dict[Direction, int] = {"up": 0, "down": 0}
        self.port: int = self._listener.getsockname()[1]

    def arm(self, fault: Fault | None) -> None:
        """Count from here on, and do that to the bytes; call it while nothing passes."""
        self.passed = {"up": 0, "down": 0}
        self._fault = fault

    def __enter__(self) -> Self:
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._wake.close()
        self._thread.join()
        for key in [*self._selector.get_map().values()]:
            key.fileobj.close()
        self._selector.close()

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._woken:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj.fileno() >= 0:  # it was not closed with another one just now
                    self._pass(key.fileobj, *key.data)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        server = self._connect()
        for source, sink, way in ((client, server, "up"), (server, client, "down")):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(source, selectors.EVENT_READ, (sink, way))

    def _pass(self, source: socket.socket, sink: socket.socket, way: Direction) -> None:
        """Pass what can be read, as the fault wants it; at an end close both sides."""
        how: Kind | None = None
        try:
            data = source.recv(65536)
            at, fault = self.passed[way], self._fault
            self.passed[way] += len(data)
            if fault is not None and fault.way == way and self.passed[way] >= fault.at:
                how = fault.kind
                cut = max(0, fault.at - at)
                sink.sendall(data[:cut])
                self._fault = fault if how == "split" else None
                if how == "hold":
                    time.sleep(fault.seconds)
                    sink.sendall(data[cut:])
                for place in range(cut, len(data) if how == "split" else 0):
                    sink.sendall(data[place : place + 1])
            else:
                sink.sendall(data)
        except OSError:
            data = b""
        if not data or how in {"reset", "end"}:
            for each in (source, sink):
                self._selector.unregister(each)
                if how == "reset":
                    with suppress(OSError):
                        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                each.close()
