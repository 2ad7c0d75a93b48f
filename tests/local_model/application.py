"""The application of these tests: ``application.py STORE BASE_URL start PROMPT SEED | resume [REQUEST]``.

Each call is a process of its own. It prints one JSON object: ``status``, and ``request`` when a person is asked.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from protolink import Agent, CapabilityPolicy, RunBudget, RunContext, RunInterrupted
from protolink.errors import ProtolinkError
from protolink.llms import create_llm
from protolink.tools import Tool

RUN = "run-1"

#: The model only continues texts, so it is shown what an exchange looks like.
EXAMPLES = """
user: Publish good morning.
assistant: {"type":"tool_call","tool":"publish","args":{"text":"good morning"}}
user: {"type":"tool_result","tool":"publish","result":{"published":true}}
assistant: {"type":"final","content":"It is published."}
"""

#: Steps of a run, so that a model that goes round in circles ends.
STEPS = 5


def agent(store: Path, base_url: str, seed: int) -> Agent:
    """What the model may do is to publish a text, with approval; each text is a line of the file ``effects``."""

    def publish(text: Annotated[str, Field(min_length=1, max_length=24)]) -> dict[str, bool]:
        """Publish a text."""
        with (store.parent / "effects").open("a") as effects:
            effects.write(json.dumps(text) + "\n")
        return {"published": True}

    llm = create_llm(
        "openai-compatible:gemma",
        base_url=base_url,
        tool_calling="json",
        answer_limit=40,
        model_params={"max_tokens": 300, "temperature": 0.7, "seed": seed},
    )
    return Agent(
        name="clerk",
        llm=llm,
        system_prompt=EXAMPLES,
        tools=[Tool.from_callable(publish, capabilities=["content.publish"])],
        policy=CapabilityPolicy({"content.publish": "require_approval"}),
        durability=str(store),
        verbosity=0,
    )


async def main(store: str, base_url: str, what: str, *more: str) -> dict[str, Any]:
    seed = Path(store).parent / "seed"
    if what == "start":
        seed.write_text(more[1])
    clerk = agent(Path(store), base_url, int(seed.read_text()))
    try:
        if what == "start":
            context = RunContext(run_id=RUN, budget=RunBudget(max_steps=STEPS))
            await clerk.invoke(more[0], context=context)
        elif more:
            await clerk.resume(RUN, request_id=more[0], approved=True)
        else:
            await clerk.resume(RUN)
    except RunInterrupted as pause:
        return {"status": pause.interruption.kind, "request": pause.interruption.request_id}
    except ProtolinkError as error:
        return {"status": "failed", "error": f"{type(error).__name__}: {error}"}
    return {"status": "completed"}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
