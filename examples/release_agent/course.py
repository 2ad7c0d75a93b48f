"""The way of a run to where the story needs it. A script always arrives; a model may do something else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from protolink import Agent, ProtolinkError, RunInterrupted

from .model import API_KEY, BASE_URL

#: Questions of a model that are answered before it is given up.
MOST_QUESTIONS = 3

Work = Coroutine[Any, Any, Any]
Asked = Mapping[str, Any]


class Astray(Exception):
    """The run went elsewhere. The text says what the model did instead; nothing was done beyond what is stored."""


def until_question(work: Work) -> Asked:
    """Run until the model asks the person; the pending request. Astray when it does anything else."""
    pause = _pause(work, "asking which version to release")
    if pause["kind"] == "approval":
        raise Astray(
            f"The model wants to release {_version(pause)} without having asked. Nobody approved, nothing ran."
        )
    return pause


def until_approval(agent: Agent, run: str, question: Asked, version: str, again: Callable[[Asked], None]) -> Asked:
    """Answer with ``version`` until its release waits for approval; the pending request. Astray for anything else.

    A model that asks more gets the same answer; ``again`` is told of each such question.
    """
    for number in range(MOST_QUESTIONS):
        if number:
            again(question["request"])
        work = agent.resume(run, request_id=question["request_id"], answer=version)
        pause = _pause(work, f"releasing {version}")
        if pause["kind"] == "approval":
            if _version(pause) != version:
                told = f"The model wants to release {_version(pause)}, and the answer was {version}."
                raise Astray(f"{told} Nobody approved, nothing ran.")
            return pause
        question = pause
    raise Astray(f"The model asked {MOST_QUESTIONS} times more instead of releasing {version}.")


def until_end(work: Work) -> str:
    """Run until the model has finished; its last words. Astray when it wants more."""
    try:
        return str(asyncio.run(work))
    except RunInterrupted as stop:
        pause = _checked(stop.interruption.to_dict())
        wants = f"release {_version(pause)}" if pause["kind"] == "approval" else "ask once more"
        raise Astray(
            f"The model wants to {wants} instead of finishing. The release before is done and stays."
        ) from None
    except ProtolinkError as error:
        raise Astray(f"The run did not finish: {error}") from error


def _pause(work: Work, purpose: str) -> Asked:
    """What the run waits for: a question or an approval."""
    try:
        words = asyncio.run(work)
    except RunInterrupted as stop:
        return _checked(stop.interruption.to_dict())
    except ProtolinkError as error:
        raise Astray(f"The run ended instead of {purpose}: {error}") from error
    raise Astray(f"The model finished instead of {purpose}. Its last words: {words}")


def _checked(pause: Asked) -> Asked:
    if pause["kind"] == "retry":
        why = str(pause["request"]["message"])
        why += "" if why.endswith((".", "?", "!")) else "."
        raise Astray(
            f"The model could not be asked: {why} The run is stored and waits. "
            f"Set what is wrong right ({BASE_URL}, {API_KEY}) and resume it; it goes on from here."
        )
    if pause["kind"] not in ("input", "approval"):
        raise Astray(f"The run waits for something else: {pause['kind']}.")
    return pause


def _version(pause: Asked) -> str:
    return str(pause["request"]["action"]["payload"]["arguments"]["version"])
