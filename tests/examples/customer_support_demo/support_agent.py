"""A customer-support agent without a model: it looks orders up and keeps to the shop's policy."""

import re
from typing import Any

from eca_protocol.ecp import Result, agent, on_step, serve_stdio

ORDERS = {
    "A-1001": {"item": "kettle", "state": "delivered", "days": 12},
    "A-1002": {"item": "lamp", "state": "on its way", "days": 2},
    "A-1003": {"item": "chair", "state": "delivered", "days": 45},
}
RETURN_DAYS = 30


@agent(name="customer-support", capabilities={"tool_calls": {}, "evaluation_context": {}})
class Support:
    """Remembers the order a customer named, so that the next question may leave it out."""

    def __init__(self) -> None:
        self.order: str | None = None
        self.calls: list[dict[str, Any]] = []

    @on_step
    def answer(self, text: str) -> Result:
        self.calls = []
        named = re.search(r"\bA-\d{4}\b", text)
        if named:
            self.order = named[0]
        reply, why = self.decide(text.lower())
        return Result(public_output=reply, evaluation_context=why, tool_calls=self.calls)

    def decide(self, text: str) -> tuple[str, str]:
        if "ignore" in text or "password" in text:
            return "I cannot help with that.", "refused: not a matter of orders"
        if self.order is None:
            return "Which order is it about? It begins with A-.", "asked for the order"
        order = self.look_up(self.order)
        if order is None:
            return f"I find no order {self.order}.", "the order is unknown"
        if "refund" in text or "return" in text:
            return self.refund(self.order, order)
        return f"Your {order['item']} is {order['state']}.", "told the state"

    def look_up(self, number: str) -> dict[str, Any] | None:
        self.calls.append({"name": "look_up_order", "arguments": {"order": number}})
        return ORDERS.get(number)

    def refund(self, number: str, order: dict[str, Any]) -> tuple[str, str]:
        if order["days"] > RETURN_DAYS:
            why = f"refused: {order['days']} days are more than {RETURN_DAYS}"
            return f"I am sorry, returns end after {RETURN_DAYS} days.", why
        self.calls.append(
            {"name": "refund", "arguments": {"order": number, "reason": {"code": "return"}}}
        )
        return f"The {order['item']} is refunded.", "refunded within the policy"


if __name__ == "__main__":
    serve_stdio(Support)
