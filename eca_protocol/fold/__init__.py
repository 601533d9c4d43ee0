"""A stream of contents -> what a user interface shows. No I/O.

`Fold` takes typed notifications, `Conversation` raw messages of both sides.
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
