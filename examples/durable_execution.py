"""Approval, a question and the rest of the work, each in a process of its own, over one file of runs.

Run it at the root of the repository: .venv/bin/python examples/durable_execution.py
It needs no key and no network; the model's replies are scripted. The file of runs is temporary.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from protolink import Agent, CapabilityPolicy, ConversationHistory, RunContext, RunInterrupted
from protolink.llms import MockLLM
from protolink.tools import Tool, ask_user_tool

RUN = "announcement-1"


def application(folder: Path) -> Agent:
    """The application as each process makes it anew. What it publishes goes into a file of the folder."""

    def publish(text: str) -> dict[str, str]:
        """Publish an announcement."""
        with (folder / "published.txt").open("a", encoding="utf-8") as published:
            published.write(f"{text}\n")
        return {"published": text}

    return Agent(
        name="announcer",
        llm=MockLLM(response_callback=next_reply),
        tools=[Tool.from_callable(publish, capabilities=["content.publish"]), ask_user_tool()],
        policy=CapabilityPolicy({"content.publish": "require_approval"}),
        durability=folder / "runs.sqlite",
    )


def next_reply(history: ConversationHistory, system_prompt: str) -> object:
    """The model's next reply, told from the conversation: a restarted process goes on where the last one stopped."""
    match sum(message.role == "assistant" for message in history):
        case 0:
            return {"type": "tool_call", "tool": "publish", "args": {"text": "Version 2 is out"}}
        case 1:
            question = {"question": "Whom shall I tell about it?", "options": ["users", "partners"]}
            return {"type": "tool_call", "tool": "ask_user", "args": question}
        case _:
            return {"type": "final", "content": "Published, and the list is chosen."}


async def begin(agent: Agent) -> None:
    """The first process: the agent wants to publish, and that needs a person."""
    try:
        await agent.invoke("Announce version 2.", context=RunContext(run_id=RUN))
    except RunInterrupted as pause:
        action = pause.interruption.request["action"]
        say(f"waits for approval: {action['name']} {action['payload']['arguments']}")


async def approve(agent: Agent) -> None:
    """The second process: what was shown is approved and runs; then the agent has a question."""
    pending = agent.durability.get(RUN).data["interruption"]
    try:
        await agent.resume(RUN, request_id=pending["request_id"], fingerprint=pending["fingerprint"], approved=True)
    except RunInterrupted as pause:
        request = pause.interruption.request
        say(f"approved and done; now it asks: {request['question']} {request['options']}")


async def answer(agent: Agent) -> None:
    """The third process: the answer, and the run goes on to its end."""
    pending = agent.durability.get(RUN).data["interruption"]
    say(f"answered: {await agent.resume(RUN, request_id=pending['request_id'], answer='users')}")
    usage = agent.durability.get(RUN).data["usage"]
    say(f"all three together: {usage['llm_calls']} model calls, {usage['tool_calls']} tool calls")


STEPS = {"begin": begin, "approve": approve, "answer": answer}


def say(text: str) -> None:
    """One line, with the process that says it."""
    print(f"[process {os.getpid()}] {text}", flush=True)


def main() -> None:
    """Without arguments: run the three steps one after the other, each as this very script."""
    if len(sys.argv) == 3:
        asyncio.run(STEPS[sys.argv[1]](application(Path(sys.argv[2]))))
        return
    with tempfile.TemporaryDirectory(prefix="protolink-") as folder:
        for step in STEPS:
            subprocess.run([sys.executable, __file__, step, folder], check=True)
        published = (Path(folder) / "published.txt").read_text(encoding="utf-8").splitlines()
    print(f"published {len(published)} time: {published}")


if __name__ == "__main__":
    main()
