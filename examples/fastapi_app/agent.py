"""The agent behind the page: it looks orders up by itself, and a refund waits for a person."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from protolink import (
    LLM,
    Agent,
    Artifact,
    CapabilityPolicy,
    Part,
    RunAction,
    RunContext,
    ToolExecution,
    ToolRejectedError,
    create_llm,
)
from protolink.tools import PreparedTool, Tool

from .clerk import Clerk

#: Seconds that the scripted model takes for a word.
PACE = 0.05

ORDERS: dict[str, dict[str, Any]] = {
    "4711": {"order": "4711", "article": "an oak desk lamp", "paid_eur": "89.00", "card_token": "tok_lamp_9f2c"},
    "4712": {"order": "4712", "article": "a walnut bookend", "paid_eur": "24.50", "card_token": "tok_bookend_71aa"},
}

#: Stored runs go on under the same instructions only.
INSTRUCTIONS = """You work at the refund desk of a shop. Look an order up with find_order before you speak about it.
Call refund once at most, with the amount and the card_token that find_order gave. A person approves each refund, so do
not ask for permission yourself. Finish with a few sentences for the customer, and never show the card_token."""


def application(folder: Path, *, pace: float = PACE) -> Agent:
    """The agent as each process makes it anew. Its runs and refunds are files of the folder."""
    return Agent(
        name="refund-desk",
        llm=chosen_model() or Clerk(ORDERS, pace),
        system_prompt=INSTRUCTIONS,
        tools=[Tool.from_callable(find_order, read_only=True), refund_tool(folder / "refunds.sqlite")],
        policy=CapabilityPolicy({"payments.write": "require_approval"}),
        durability=folder / "runs.sqlite",
        sync_execution="thread",
        verbosity=0,
    )


def chosen_model() -> LLM | None:
    """The model that FASTAPI_APP_MODEL names, such as ``openai-compatible:NAME``; None for the script."""
    name = os.environ.get("FASTAPI_APP_MODEL")
    if not name:
        return None
    given = {"base_url": "FASTAPI_APP_BASE_URL", "api_key": "FASTAPI_APP_API_KEY"}
    return create_llm(name, **{key: os.environ[variable] for key, variable in given.items() if variable in os.environ})


def find_order(order: str) -> dict[str, Any]:
    """Look an order up by its number."""
    found = ORDERS.get(order)
    if found is None:
        raise ToolRejectedError(f"There is no order {order}")
    return found


def refund(order: str, amount_eur: str, card_token: str) -> dict[str, str]:
    """Pay an order, or a part of it, back to the card it was paid with."""
    raise NotImplementedError("only its name, its docstring and its parameters are used")


def refund_tool(path: Path) -> PreparedTool:
    """The tool ``refund``. What it pays is written into a file, under the id of the action that was approved."""
    with closing(sqlite3.connect(path)) as payments, payments:
        payments.execute("CREATE TABLE IF NOT EXISTS refunds (action_id TEXT PRIMARY KEY, number, amount_eur, at)")
    return PreparedTool(
        refund,
        prepare=prepare,
        execute=lambda execution: execute(path, execution),
        capabilities=["payments.write"],
    )


def prepare(arguments: Mapping[str, Any], context: RunContext) -> RunAction:
    """The exact refund, with the words in which a person is asked."""
    order, amount = arguments["order"], arguments["amount_eur"]
    if order not in ORDERS:
        raise ToolRejectedError(f"There is no order {order}")
    action = RunAction(kind="tool.call", name="refund", payload={"arguments": dict(arguments)})
    preview = Artifact(kind="preview", name="refund.txt", media_type="text/plain")
    preview.add_part(Part.text(f"Refund {amount} EUR for order {order}, {ORDERS[order]['article']}."))
    return action.with_artifacts([preview])


def execute(path: Path, execution: ToolExecution) -> dict[str, str]:
    """Pay. An action that was paid already is refused by the file."""
    action = execution.authorization.action
    paid = action.payload["arguments"]
    row = (action.action_id, paid["order"], paid["amount_eur"], time.time())
    with closing(sqlite3.connect(path)) as payments, payments:
        payments.execute("INSERT INTO refunds VALUES (?, ?, ?, ?)", row)
    return {"order": paid["order"], "refunded_eur": paid["amount_eur"]}
