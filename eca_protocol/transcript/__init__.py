"""Recording, reading and replaying the messages between a client and a server.

`tap` is a recording proxy between any editor and any server. `RecordedTransport` records a
program's own connection. `read_transcript` reads a transcript, and `play` replays one side of it.
"""

from typing import TYPE_CHECKING

from eca_protocol.lazy import export

if TYPE_CHECKING:
    from eca_protocol.transcript.entries import DataEntry as DataEntry
    from eca_protocol.transcript.entries import EndEntry as EndEntry
    from eca_protocol.transcript.entries import Entry as Entry
    from eca_protocol.transcript.entries import ExitEntry as ExitEntry
    from eca_protocol.transcript.entries import Mask as Mask
    from eca_protocol.transcript.entries import Side as Side
    from eca_protocol.transcript.entries import Transcript as Transcript
    from eca_protocol.transcript.entries import encode_entry as encode_entry
    from eca_protocol.transcript.entries import encode_header as encode_header
    from eca_protocol.transcript.entries import mask_entry as mask_entry
    from eca_protocol.transcript.player import Player as Player
    from eca_protocol.transcript.player import play as play
    from eca_protocol.transcript.proxy import tap as tap
    from eca_protocol.transcript.reader import TranscriptReader as TranscriptReader
    from eca_protocol.transcript.reader import read_transcript as read_transcript
    from eca_protocol.transcript.recorder import RecordedTransport as RecordedTransport
    from eca_protocol.transcript.recorder import Recorder as Recorder
    from eca_protocol.transcript.recorder import is_locked as is_locked
    from eca_protocol.transcript.recorder import lock_file as lock_file
    from eca_protocol.transcript.recorder import new_file as new_file

_NAMES = {
    "entries": (
        "DataEntry EndEntry Entry ExitEntry Mask Side Transcript encode_entry encode_header "
        "mask_entry"
    ),
    "player": "Player play",
    "proxy": "tap",
    "reader": "TranscriptReader read_transcript",
    "recorder": "RecordedTransport Recorder is_locked lock_file new_file",
}
export(globals(), _NAMES)
