"""Recording, reading and replaying the messages between a client and a server.

`tap` is a recording proxy between any editor and any server. `RecordedTransport` records a
program's own connection. `read_transcript` reads a transcript, and `play` replays one side of it.
"""

from eca_protocol.transcript.entries import (
    DataEntry,
    EndEntry,
    Entry,
    ExitEntry,
    Mask,
    Side,
    Transcript,
    encode_entry,
    encode_header,
    mask_entry,
)
from eca_protocol.transcript.player import Player, play
from eca_protocol.transcript.proxy import tap
from eca_protocol.transcript.reader import TranscriptReader, read_transcript
from eca_protocol.transcript.recorder import (
    RecordedTransport,
    Recorder,
    is_locked,
    lock_file,
    new_file,
)

__all__ = [
    "DataEntry",
    "EndEntry",
    "Entry",
    "ExitEntry",
    "Mask",
    "Player",
    "RecordedTransport",
    "Recorder",
    "Side",
    "Transcript",
    "TranscriptReader",
    "encode_entry",
    "encode_header",
    "is_locked",
    "lock_file",
    "mask_entry",
    "new_file",
    "play",
    "read_transcript",
    "tap",
]
