"""Transcripts of any length, made of a real one."""

import json
from pathlib import Path

RECORD = Path("tests/data/transcripts/real_job.jsonl")


def long_record(out: Path, count: int, *, odd_at: int = -1, odd: bytes = b"{}") -> None:
    """Write the real session repeatedly, each time with a new chat and new ids.

    Args:
        out: the file.
        count: the number of messages.
        odd_at: the number of a message that is replaced by `odd`, as the server's.
        odd: a body.
    """
    head, *lines = RECORD.read_bytes().splitlines()
    entries = [json.loads(line) for line in lines]
    entries = [entry for entry in entries if "message" in entry]
    turns = [entry for entry in entries[7:] if entry["message"].get("method") not in END]
    turns = [entry for entry in turns if entry["message"].get("result", 0) is not None]
    with out.open("wb") as file:
        file.write(head + b"\n")
        for number in range(count):
            entry = entries[number] if number < 7 else turns[(number - 7) % len(turns)]
            round_ = (number - 7) // len(turns)
            value = entry["message"] | (
                {"id": entry["message"]["id"] + 100 * round_}
                if "id" in entry["message"] and number >= 7
                else {}
            )
            body = json.dumps(value).replace('"job"', f'"job{round_ % 20}"').encode()
            side = entry["from"]
            if number == odd_at:
                side, body = "server", odd
            file.write(
                b'{"at":%.6f,"from":"%b","message":%b}\n' % (number * 0.013, side.encode(), body)
            )


END = {"shutdown", "exit"}
