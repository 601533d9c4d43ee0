"""The state of a user interface, folded from a stream of contents, without I/O.

`Fold` takes typed notifications, `Conversation` takes the raw messages of both sides.
"""

from eca_protocol.fold.conversation import Conversation
from eca_protocol.fold.fold import Fold
from eca_protocol.fold.rules import Rule, Violation
from eca_protocol.fold.views import (
    CallView,
    ChatView,
    HookView,
    Item,
    LinkView,
    TextView,
    ThoughtView,
)

__all__ = [
    "CallView",
    "ChatView",
    "Conversation",
    "Fold",
    "HookView",
    "Item",
    "LinkView",
    "Rule",
    "TextView",
    "ThoughtView",
    "Violation",
]
