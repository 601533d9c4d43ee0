"""Mutants of CURRENT's chats, turns and calls."""

from typing import Any

from tests.eca_protocol.testing.conformance.mutants.registry import breaks_current
from tests.eca_protocol.testing.conformance.reference.current import CurrentServer
from tests.eca_protocol.testing.conformance.reference.current_chat import (
    CurrentChat,
    CurrentToolCall,
    CurrentTurn,
    Shown,
)
from tests.eca_protocol.testing.conformance.reference.model import Model
from tests.eca_protocol.testing.conformance.reference.params import Params


@breaks_current("W-27f")
class GaugeSums(CurrentTurn):
    """Sums the tokens of a chat's requests."""

    def forget_tokens(self) -> None:
        return None


@breaks_current("W-27f")
class GaugeCountsAnswers(CurrentTurn):
    """Shows the tokens of the answer as those of the context."""

    def count(self, usage: dict[str, Any], model: Model) -> None:
        super().count(usage, model)
        self.chat.tokens = usage.get("completion_tokens", 0)


@breaks_current("W-27g")
class GaugeMovesAtTheEnd(CurrentTurn):
    """Tells usage once a turn."""

    def send_request_usage(self) -> None:
        return None


@breaks_current("W-31c")
class RejectionGoesOn(CurrentTurn):
    """Asks the model again after the user's rejection."""

    def is_over(self) -> bool:
        return False


@breaks_current("W-31c")
class RejectionIsKeptFromTheModel(CurrentToolCall):
    """Ends the turn with a rejection whose result is empty."""

    def close(self, result: str, kind: str, **fields: Any) -> None:
        is_users = fields.get("reason") == "user-choice"
        super().close("" if is_users else result, kind, **fields)


@breaks_current("W-43a")
class FlagsOfCallsComeLast(CurrentChat):
    """Puts a flag at a call behind all that was said."""

    def place_of(self, content_id: str) -> int | None:
        place = super().place_of(content_id)
        is_call = place is not None and self.shown[place][1]["type"] == "toolCalled"
        return len(self.shown) - 1 if is_call else place


@breaks_current("W-43b")
class FlagsShareAnId(CurrentChat):
    """Gives a flag the id of the content that it is at."""

    def flag_id(self, content_id: str) -> str:
        return content_id


@breaks_current("W-43c")
class RemovedFlagsStay(CurrentChat):
    """Removes a flag and does not show the chat without it."""

    is_removing = False

    def remove_flag(self, flag_id: str) -> None:
        self.is_removing = True
        super().remove_flag(flag_id)
        self.is_removing = False

    def show_again(self) -> None:
        if not self.is_removing:
            super().show_again()


@breaks_current("W-43c")
class ClearsTwice(CurrentChat):
    """Clears a chat before and after it has shown it again."""

    def show_again(self) -> None:
        super().show_again()
        self.announce_cleared()


@breaks_current("W-43c")
class FlagsAreNotRemoved(CurrentChat):
    """Keeps a flag that is removed."""

    def remove_flag(self, flag_id: str) -> None:
        self.show_again()


@breaks_current("W-43d")
class OpensWithoutFlags(CurrentServer):
    """Opens a chat without its flags."""

    def shown_when_opened(self, contents: list[Shown]) -> list[Shown]:
        return [each for each in contents if each[1]["type"] != "flag"]


@breaks_current("W-43d")
class OpensWithoutAnswers(CurrentServer):
    """Opens a chat without the words of the model."""

    def shown_when_opened(self, contents: list[Shown]) -> list[Shown]:
        return [each for each in contents if each[0] != "assistant"]


@breaks_current("W-43d")
class CallsLoseTheirTime(CurrentChat):
    """Shows a call again as if it had taken no time."""

    def show(self, contents: Any) -> None:
        super().show(
            (role, {**each, "totalTimeMs": 7_777} if each["type"] == "toolCalled" else each)
            for role, each in contents
        )


@breaks_current("W-44e")
class OneKeyForAll(CurrentToolCall):
    """Offers to remember a command that hides another one."""

    def hides_commands(self, line: str) -> bool:
        return False


@breaks_current("W-21c")
class InlineChatsAreRenamed(CurrentServer):
    """Answers an inline prompt with the id of the other chat."""

    def inline_prompt(self, params: Params) -> Any:
        source = params.text("sourceChatId")
        answer = super().inline_prompt(params)
        return {**answer, "chatId": source} if source else answer


@breaks_current("FIELD:ChatInlinePromptParams.sourceChatId")
class InlineChatsKnowNothing(CurrentServer):
    """Begins an inline chat without what was said in the other one."""

    def begin_with(self, chat: CurrentChat, source: CurrentChat) -> None:
        return None


@breaks_current("FIELD:ChatInlinePromptParams.sourceChatId")
class InlineChatsShowTheOther(CurrentServer):
    """Shows an inline chat with what was said in the other one."""

    def begin_with(self, chat: CurrentChat, source: CurrentChat) -> None:
        super().begin_with(chat, source)
        chat.announce_open()
        chat.show(source.shown)
