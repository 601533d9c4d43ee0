"""A server beside noise; its children read no input, and one outlives it without its pipes."""

import os
import subprocess
import sys
import threading
import time
import warnings
from typing import Any


def noise() -> None:
    while True:
        print("printed")
        print("printed at once", flush=True)
        assert sys.__stdout__ is not None
        sys.__stdout__.write("written")
        os.write(1, b"written to descriptor 1\n")
        warnings.warn("warned", stacklevel=1)
        subprocess.run(["sh", "-c", "echo said by a child; cat"], timeout=20, check=False)
        time.sleep(0.005)  # the server runs in between


def start() -> int:
    print("printed before the first line of the server's")
    warnings.simplefilter("always")
    from eca_server.cli import main, stdio  # noqa: PLC0415 - behind the first noise

    serve = stdio.serve

    async def serve_beside_noise(*arguments: Any, **options: Any) -> Any:
        threading.Thread(target=noise, daemon=True).start()
        subprocess.Popen(["sleep", "60"], start_new_session=True)
        child = subprocess.Popen(["sh", "-c", "cat; echo $$ read to the end >&2; sleep 60"])
        try:
            return await serve(*arguments, **options)
        finally:
            child.kill()

    stdio.serve = serve_beside_noise
    return main.run(["server"])


if __name__ == "__main__":
    sys.exit(start())
