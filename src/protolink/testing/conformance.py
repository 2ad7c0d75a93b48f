"""``store_conformance``: prove that a store keeps the contract that durable runs rely on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from ..agents import Agent
from ..errors import CheckpointMismatchError, DurableExecutionError, RunBusyError, RunInterrupted
from ..journal.contract import DurableStore
from ..models.ids import new_id
from ..runtime import CapabilityPolicy
from ..tools import Tool
from .scripted import ScriptedModel

#: What a store has to give back exactly as it was.
_DATA = {
    "text": "grün \u2028 \U0001f6f0",
    "numbers": [0, -1, 1.5, 2**53],
    "nothing": None,
    "deep": {"a": [{"b": [True]}]},
}

Rule = Callable[[Any], None]


def store_conformance(factory: Callable[[], DurableStore]) -> int:
    """Try every rule of ``DurableStore`` on a store, and those of what it offers beyond the four methods.

    ``factory`` is called once for each rule; it may give the same store each time, since the rules use new run ids.
    Returns the number of rules. AssertionError lists the broken ones. Call it from a plain function: it runs an agent.
    """
    rules = [*_REQUIRED, *(rule for name, rule in _OPTIONAL if callable(getattr(factory(), name, None)))]
    broken = []
    for rule in rules:
        problem = _broken(rule, factory())
        if problem is not None:
            broken.append(f"  {(rule.__doc__ or rule.__name__).splitlines()[0]} {problem}")
    if broken:
        raise AssertionError("\n".join([f"{len(broken)} of {len(rules)} rules are broken:", *broken]))
    return len(rules)


def _broken(rule: Rule, store: Any) -> str | None:
    try:
        rule(store)
    except AssertionError as error:
        return f"-> {error}"
    except Exception as error:  # the store's own; a rule that expects an error catches it
        return f"-> it raised {type(error).__name__}: {error}"
    return None


def _run() -> str:
    return new_id("conformance")


def _raises(expected: type[Exception], act: Callable[[], Any]) -> None:
    try:
        act()
    except expected:
        return
    except Exception as error:
        raise AssertionError(f"{expected.__name__} was due, not {type(error).__name__}: {error}") from error
    raise AssertionError(f"{expected.__name__} was due, and nothing was raised")


def _same(found: Any, wanted: Any, what: str) -> None:
    if found != wanted:
        raise AssertionError(f"{what} is {found!r}, not {wanted!r}")


def _stored(store: Any, run_id: str) -> Any:
    found = store.get(run_id)
    if found is None:
        raise AssertionError("the run is not there")
    return found


# ---------------------------------------------------------------------------------------------------- four methods


def _unknown(store: Any) -> None:
    """A run that was never stored is None."""
    _same(store.get(_run()), None, "get")


def _new(store: Any) -> None:
    """A new run is ready and has the initial data, exactly."""
    run_id = _run()
    token, found = store.acquire(run_id, "agent", _DATA)
    if not (isinstance(token, str) and token):
        raise AssertionError(f"the token is {token!r}, not text")
    for checkpoint in (found, _stored(store, run_id)):
        wanted = (run_id, "agent", "ready", _DATA)
        _same((checkpoint.run_id, checkpoint.agent_name, checkpoint.status, checkpoint.data), wanted, "the run")


def _saved(store: Any) -> None:
    """What was saved is what is read, and the last save counts."""
    run_id = _run()
    token, _ = store.acquire(run_id, "agent", {})
    store.save(run_id, token, "working", {"a": 1})
    store.save(run_id, token, "input-required", _DATA)
    found = _stored(store, run_id)
    _same((found.status, found.data), ("input-required", _DATA), "the run")


def _detached(store: Any) -> None:
    """Changing what was given or read does not change what is stored."""
    run_id, data = _run(), {"list": [1]}
    token, found = store.acquire(run_id, "agent", data)
    found.data["list"].append(2)
    data["list"].append(3)
    _same(_stored(store, run_id).data, {"list": [1]}, "the data after acquire")
    data = {"list": [4]}
    store.save(run_id, token, "working", data)
    data["list"].append(5)
    _stored(store, run_id).data["list"].append(6)
    _same(_stored(store, run_id).data, {"list": [4]}, "the data after save")


def _held(store: Any) -> None:
    """A run that is owned cannot be acquired."""
    run_id = _run()
    token, _ = store.acquire(run_id, "agent", {})
    _raises(RunBusyError, lambda: store.acquire(run_id, "agent", {}))
    store.save(run_id, token, "working", {"mine": True})
    _same(_stored(store, run_id).data, {"mine": True}, "the owner's save")


def _again(store: Any) -> None:
    """A released run is acquired with a new token and what was stored, not with the initial data."""
    run_id = _run()
    first, _ = store.acquire(run_id, "agent", {})
    store.save(run_id, first, "working", {"kept": True})
    store.release(run_id, first)
    second, found = store.acquire(run_id, "agent", {"initial": True})
    _same((found.status, found.data), ("working", {"kept": True}), "the run")
    if first == second:
        raise AssertionError("the token is the old one")


def _stale(store: Any) -> None:
    """A former owner, or anybody without the token, saves nothing."""
    run_id = _run()
    first, _ = store.acquire(run_id, "agent", {"kept": True})
    store.release(run_id, first)
    _raises(RunBusyError, lambda: store.save(run_id, first, "working", {}))
    second, _ = store.acquire(run_id, "agent", {})
    _raises(RunBusyError, lambda: store.save(run_id, first, "working", {}))
    _raises(RunBusyError, lambda: store.save(run_id, "nobody", "working", {}))
    _same(_stored(store, run_id).data, {"kept": True}, "the data")
    store.save(run_id, second, "working", {})


def _released(store: Any) -> None:
    """Releasing with a token that owns nothing does nothing, and releasing again neither."""
    run_id = _run()
    token, _ = store.acquire(run_id, "agent", {})
    store.release(run_id, "nobody")
    store.save(run_id, token, "working", {})
    store.release(run_id, token)
    store.release(run_id, token)
    store.release(_run(), token)


def _another_agent(store: Any) -> None:
    """A run of one agent is not given to another."""
    run_id = _run()
    token, _ = store.acquire(run_id, "agent", {})
    store.release(run_id, token)
    _raises(CheckpointMismatchError, lambda: store.acquire(run_id, "another", {}))
    store.acquire(run_id, "agent", {})


def _no_json(store: Any) -> None:
    """Data that is no JSON is refused with TypeError, and what was stored stays."""
    run_id = _run()
    token, _ = store.acquire(run_id, "agent", {"kept": True})
    for value in (object(), float("nan")):
        _raises(TypeError, lambda value=value: store.save(run_id, token, "working", {"a": value}))  # type: ignore[misc]
    _same(_stored(store, run_id).data, {"kept": True}, "the data")


def _apart(store: Any) -> None:
    """Runs do not touch each other."""
    one, other = _run(), _run()
    token, _ = store.acquire(one, "agent", {"run": 1})
    foreign, _ = store.acquire(other, "agent", {"run": 2})
    _raises(RunBusyError, lambda: store.save(one, foreign, "working", {}))
    store.save(one, token, "working", {"run": 3})
    store.release(one, token)
    _same(_stored(store, other).data, {"run": 2}, "the other run")
    store.save(other, foreign, "working", {})


def _raced(store: Any) -> None:
    """Of several threads that acquire at once, one wins."""
    run_id, tokens, busy = _run(), [], []
    begin = threading.Barrier(8)

    def acquire() -> None:
        begin.wait()
        try:
            tokens.append(store.acquire(run_id, "agent", {})[0])
        except RunBusyError as error:
            busy.append(error)

    threads = [threading.Thread(target=acquire) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _same((len(tokens), len(busy)), (1, 7), "(owners, refused)")


def _carries_runs(store: Any) -> None:
    """An agent's run pauses in it, is answered by another agent object, and ends."""
    done: list[str] = []
    run_id = asyncio.run(_paused_run(store, done))
    _same((_stored(store, run_id).status, done), ("completed", ["a"]), "(status, effects)")
    token, _ = store.acquire(run_id, "agent", {})
    store.release(run_id, token)


async def _paused_run(store: Any, done: list[str]) -> str:
    try:
        await _agent(store, done).invoke("go")
    except RunInterrupted as paused:
        _same(_stored(store, paused.run_id).status, "input-required", "the status while it waits")
        waiting = paused.interruption.request_id
        output = await _agent(store, done).resume(paused.run_id, request_id=waiting, approved=True)
        _same(output, "done", "the output")
        return paused.run_id
    raise AssertionError("the run did not pause")


def _agent(store: Any, done: list[str]) -> Agent:
    def write(item: str) -> str:
        """Write it down."""
        done.append(item)
        return item

    script = [{"type": "tool_call", "tool": "write", "args": {"item": "a"}}, "done"]
    tool = Tool.from_callable(write, capabilities=["write"])
    policy = CapabilityPolicy({"write": "require_approval"})
    return Agent(name="agent", llm=ScriptedModel(script), tools=[tool], policy=policy, durability=store)


# ---------------------------------------------------------------------------------------------------- and more


def _appended(store: Any) -> None:
    """Appending nothing sets the status and keeps the data; only the owner appends."""
    run_id = _run()
    token, _ = store.acquire(run_id, "agent", {"kept": True})
    store.append(run_id, token, "working", [])
    found = _stored(store, run_id)
    _same((found.status, found.data), ("working", {"kept": True}), "the run")
    _raises(RunBusyError, lambda: store.append(run_id, "nobody", "ready", []))


def _renewed(store: Any) -> None:
    """Renewing changes nothing that is read; only the owner renews."""
    run_id = _run()
    token, _ = store.acquire(run_id, "agent", {"kept": True})
    store.renew(run_id, token)
    _same(_stored(store, run_id).data, {"kept": True}, "the data")
    _raises(RunBusyError, lambda: store.renew(run_id, "nobody"))


def _listed(store: Any) -> None:
    """The list has the newest run first, by status and agent, as many as asked for, children left out."""
    name = new_id("agent")
    ids = [_run() for _ in range(3)]
    for run_id in ids:
        token, _ = store.acquire(run_id, name, {})
        store.save(run_id, token, "working" if run_id == ids[0] else "ready", {})
    store.acquire(_run(), name, {"root_run_id": ids[0]})
    _same([found.run_id for found in store.list(agent_name=name)], ids[::-1], "the list")
    _same([found.run_id for found in store.list(agent_name=name, limit=1)], ids[2:], "the list of one")
    _same([found.run_id for found in store.list(agent_name=name, status="working")], ids[:1], "those that work")


def _deleted(store: Any) -> None:
    """A finished run can be deleted, an unfinished one cannot."""
    run_id = _run()
    token, _ = store.acquire(run_id, "agent", {})
    store.save(run_id, token, "working", {})
    store.release(run_id, token)
    _raises(DurableExecutionError, lambda: store.delete(run_id))
    token, _ = store.acquire(run_id, "agent", {})
    store.save(run_id, token, "completed", {})
    store.release(run_id, token)
    _same(store.delete(run_id), True, "delete")
    _same(store.get(run_id), None, "get")
    _same(store.delete(run_id), False, "delete again")


_REQUIRED: tuple[Rule, ...] = (
    _unknown,
    _new,
    _saved,
    _detached,
    _held,
    _again,
    _stale,
    _released,
    _another_agent,
    _no_json,
    _apart,
    _raced,
    _carries_runs,
)
_OPTIONAL: tuple[tuple[str, Rule], ...] = (
    ("append", _appended),
    ("renew", _renewed),
    ("list", _listed),
    ("delete", _deleted),
)
