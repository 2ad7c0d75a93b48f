"""A scripted model, so that the example needs no key. It writes word by word, as a real one does."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

from protolink import LLM, ConversationHistory

#: What is written at a stroke: a word of an answer, the first one with what stands before it, or a whole tool call.
_PIECES = re.compile(r'\{"type": "tool_call".*|\{"type": "final", "content": "\S+\s*|\S+\s*')


class Clerk(LLM):
    """Replies from the conversation alone: a restarted process goes on where the last one stopped."""

    provider = "script"

    def __init__(self, orders: Mapping[str, Mapping[str, Any]], pace: float) -> None:
        super().__init__("clerk")
        self._orders = orders
        self._pace = pace

    def validate_connection(self) -> bool:
        return True

    async def call(self, history: ConversationHistory) -> str:
        return json.dumps(self._action(history))

    async def call_stream(self, history: ConversationHistory) -> AsyncIterator[str]:
        first, *others = _PIECES.findall(await self.call(history))
        yield first
        for piece in others:
            await asyncio.sleep(self._pace)
            yield piece

    def _action(self, history: ConversationHistory) -> dict[str, Any]:
        newest = history.last("user")
        asked = "" if newest is None else str(newest.content)
        number = re.search(r"\b\d{4}\b", asked)
        if number is None:
            return final("Which order is it? Give me its number, such as 4711, and say whether you want a refund.")
        turn = sum(message.role == "assistant" for message in history)
        return self._step(turn, number[0], "refund" in asked.casefold())

    def _step(self, turn: int, number: str, refund: bool) -> dict[str, Any]:
        if turn == 0:
            return {"type": "tool_call", "tool": "find_order", "args": {"order": number}}
        order = self._orders.get(number)
        if order is None:
            return final(f"There is no order {number} in our books. Please look at the number once more.")
        bought = f"Order {number} is {order['article']}, paid with {order['paid_eur']} EUR."
        if not refund:
            return final(f"{bought} If you want your money back, ask me for a refund.")
        if turn == 1:
            args = {"order": number, "amount_eur": order["paid_eur"], "card_token": order["card_token"]}
            return {"type": "tool_call", "tool": "refund", "args": args}
        return final(
            f"{bought} I have paid {order['paid_eur']} EUR back to the card it was bought with. It can take a few "
            "days until your bank shows it. You can keep the parcel's label for sending it back."
        )


def final(text: str) -> dict[str, Any]:
    """The action that ends a run with an answer."""
    return {"type": "final", "content": text}
