"""The transitions of a chat on a prompt, a stop, a delete and the end of its turn: one table.

A chat has one turn at a time. Rulings W-20 to W-24: a prompt to a busy chat queues, a stop ends
the running turn and empties the queue, a deleted chat writes nothing more.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType

from eca_protocol.messages import ChatStatus


class ChatState(enum.Enum):
    """The state of a chat."""

    IDLE = "idle"
    RUNNING = "running"
    STOPPING = "stopping"
    DELETED = "deleted"


class Input(enum.Enum):
    """An event in a chat."""

    PROMPT = "prompt"
    STOP = "stop"
    DELETE = "delete"
    ENDED = "the turn's body ended"


class Action(enum.Enum):
    """The chat's reaction to an event."""

    BEGIN = "begin a turn"
    QUEUE = "queue the prompt"
    CANCEL = "cancel the turn and empty the queue"
    SILENCE = "cancel everything and write nothing more"
    CLOSE = "close the turn, then begin the next one"
    NOTHING = "nothing"


TRANSITIONS: Mapping[ChatState, Mapping[Input, tuple[Action, ChatState]]] = MappingProxyType(
    {
        ChatState.IDLE: {
            Input.PROMPT: (Action.BEGIN, ChatState.RUNNING),
            Input.STOP: (Action.NOTHING, ChatState.IDLE),
            Input.DELETE: (Action.SILENCE, ChatState.DELETED),
            Input.ENDED: (Action.NOTHING, ChatState.IDLE),
        },
        ChatState.RUNNING: {
            Input.PROMPT: (Action.QUEUE, ChatState.RUNNING),
            Input.STOP: (Action.CANCEL, ChatState.STOPPING),
            Input.DELETE: (Action.SILENCE, ChatState.DELETED),
            Input.ENDED: (Action.CLOSE, ChatState.IDLE),
        },
        ChatState.STOPPING: {
            Input.PROMPT: (Action.QUEUE, ChatState.STOPPING),
            Input.STOP: (Action.CANCEL, ChatState.STOPPING),
            Input.DELETE: (Action.SILENCE, ChatState.DELETED),
            Input.ENDED: (Action.CLOSE, ChatState.IDLE),
        },
        ChatState.DELETED: {
            Input.PROMPT: (Action.NOTHING, ChatState.DELETED),
            Input.STOP: (Action.NOTHING, ChatState.DELETED),
            Input.DELETE: (Action.NOTHING, ChatState.DELETED),
            Input.ENDED: (Action.NOTHING, ChatState.DELETED),
        },
    }
)

STATUSES: Mapping[ChatState, ChatStatus] = MappingProxyType(
    {
        ChatState.IDLE: "idle",
        ChatState.RUNNING: "running",
        ChatState.STOPPING: "stopping",
        ChatState.DELETED: "idle",
    }
)
"""The protocol's status of each state."""
