"""What passed between a client and a server: recorded, read again, played again.

`tap` stands between any editor and any server and records; `RecordedTransport` records a
connection of one's own; `read_transcript` reads; `play` is one side of the conversation again.
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
from eca_protocol.transcript.file_lock import is_locked, lock_file
from eca_protocol.transcript.player import Player, play
from eca_protocol.transcript.proxy import tap
from eca_protocol.transcript.reader import TranscriptReader, read_transcript
from eca_protocol.transcript.recorder import RecordedTransport, Recorder, new_file

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
