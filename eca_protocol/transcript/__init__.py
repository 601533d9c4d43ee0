"""What passed between a client and a server: recorded, read again, played again.

`tap` stands between any editor and any server and records; `RecordedTransport` records a
connection of one's own; `read_transcript` reads; `play` is one side of the conversation again.
"""

from eca_protocol.transcript.claim import claim, is_claimed
from eca_protocol.transcript.entries import (
    Ended,
    Entry,
    Exited,
    Mask,
    Passed,
    Side,
    Transcript,
    first_line,
    line_of,
    without_secrets,
)
from eca_protocol.transcript.player import Player, play
from eca_protocol.transcript.proxy import tap
from eca_protocol.transcript.reader import TranscriptReader, read_transcript
from eca_protocol.transcript.recorder import RecordedTransport, Recorder, new_file

__all__ = [
    "Ended",
    "Entry",
    "Exited",
    "Mask",
    "Passed",
    "Player",
    "RecordedTransport",
    "Recorder",
    "Side",
    "Transcript",
    "TranscriptReader",
    "claim",
    "first_line",
    "is_claimed",
    "line_of",
    "new_file",
    "play",
    "read_transcript",
    "tap",
    "without_secrets",
]
