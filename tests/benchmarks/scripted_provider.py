"""A scripted provider as a process, for the benchmarks; it answers what the last prompt asks for.

`burst N`: N deltas as fast as the socket takes them. Anything else: three words. It writes its
URL, then an object for each request that has ended, one a line.
"""

import json
import math
import sys
import time
from collections.abc import Mapping
from typing import Any

import trio

from eca_protocol.testing.provider import Provider, ReceivedRequest, Reply, burst, reply

DELTA = "words of it"


def answer(request: ReceivedRequest) -> Reply:
    content = request.body["messages"][-1]["content"]
    text = content if isinstance(content, str) else content[-1]["text"]
    match text.split():
        case ["burst", count]:
            return reply(burst(int(count), DELTA))
        case _:
            return reply("three ", "small ", "words")


def write(record: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def has_ended(request: ReceivedRequest) -> bool:
    return request.answered or request.closed_by_client


async def main() -> None:
    async with Provider(answer) as provider:
        write({"url": provider.url})
        requests = provider.requests
        while True:
            await provider.until(lambda: any(map(has_ended, requests)), seconds=math.inf)
            for request in filter(has_ended, tuple(requests)):
                requests.remove(request)
                write({"closed_by_client": request.closed_by_client, "at": time.monotonic()})


if __name__ == "__main__":
    trio.run(main)
