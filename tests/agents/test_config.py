"""An agent written down as JSON or YAML and made again: what comes back, and what has to be given again."""

from __future__ import annotations

import copy
import functools
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protolink import (
    Agent,
    AgentCapabilities,
    AgentCard,
    BudgetPolicy,
    CapabilityPolicy,
    CheckpointMismatchError,
    LLMModelProfile,
    RunAction,
    RunInterrupted,
    SubagentLimits,
    Task,
)
from protolink.agents.fingerprint import configuration
from protolink.agents.support import check_supported
from protolink.discovery import Registry
from protolink.journal import InMemoryDurableStore, SQLiteDurableStore
from protolink.llms import MockLLM, OpenAICompatibleLLM, create_llm
from protolink.tools import PreparedTool, Tool, ask_user_tool
from protolink.transport import RuntimeTransport, TransportConfig


def note(text: str, color: str = "red") -> str:
    """Note a text."""
    return text


def publish(text: str) -> dict[str, str]:
    """Publish a text."""
    return {"published": text}


def build(arguments: dict[str, Any], context: Any) -> RunAction:
    return RunAction("tool.call", "publish", {"arguments": arguments}, description="as built")


def probe(action: RunAction) -> None:
    return None


def worker(**how: Any) -> Agent:
    """A child with a model and one tool."""
    return Agent(name="worker", llm=how.pop("llm", "mock"), tools=[note], description="works", **how)


def full(path: Any, **changes: Any) -> Agent:
    """An agent in which nothing has its default."""
    parts: dict[str, Any] = {
        "card": AgentCard("helper", "helps", "runtime://helper", "runtime", role="orchestrator", tags=["a"]),
        "llm": create_llm("mock", model="small", model_params={"temperature": 0}, max_tool_corrections=4),
        "system_prompt": "Be brief.\nAnd: kind.",
        "override_system_prompt": True,
        "skills": "fixed",
        "verbosity": 0,
        "sync_execution": "thread",
        "max_sync_workers": 2,
        "expose_tool_results": True,
        "retrieval": "required",
        "parallel_tool_calls": True,
        "max_result_bytes": 1000,
        "store_patience": 1.5,
        "policy": CapabilityPolicy({"publish.*": "ask"}, default_effect="deny", name="house rules"),
        "budget_policy": BudgetPolicy(warning_ratio=0.5),
        "durability": SQLiteDurableStore(path, lease_seconds=42, synchronous="NORMAL"),
        "execution_version": "7",
        "yield_after_steps": 3,
        "subagents": [worker(), Agent(name="second", description="")],
        "subagent_limits": SubagentLimits(3, 2, 2),
        "tools": [
            note,
            Tool.from_callable(
                publish,
                name="announce",
                description="Tell everybody.",
                input_schema={"type": "object", "properties": {"text": {"type": "string", "maxLength": 3}}},
                tags=["loud"],
                examples=[{"text": "hi"}],
                capabilities=["publish.web", "publish.mail"],
                action_builder=build,
                probe=probe,
                idempotent=True,
            ),
            ask_user_tool(timeout_seconds=5, max_answer_chars=7),
        ],
    }
    agent = Agent(**parts | changes)
    agent.add_worker_tool("worker", name="ask_worker")
    agent.add_worker_tool("worker", tool="note", description="Have it noted.")
    agent.add_tool(Tool.from_callable(publish, read_only=True, sync_execution="inline"))
    return agent


def again(agent: Agent, **overrides: Any) -> Agent:
    """Through JSON text, as another process reads it; with the children given."""
    overrides.setdefault("subagents", list(agent.subagents.values()))
    return Agent.from_dict(json.loads(json.dumps(agent.to_dict(), allow_nan=False)), **overrides)


def fingerprint(agent: Agent) -> dict[str, str]:
    models = {"": agent.llm} | {name: child.llm for name, child in agent.subagents.items()}
    return configuration(agent, models)


def minimal(**members: Any) -> dict[str, Any]:
    return {"card": {"name": "a", "description": "b", "url": "runtime://a"}, **members}


# ---------------------------------------------------------------------------------------------------- round trips


@pytest.mark.claim("STR-023", "WRK-037", "WRK-038")
def test_everything_comes_back_and_the_configuration_is_the_same(tmp_path: Path) -> None:
    source = full(tmp_path / "runs.sqlite")
    loaded = again(source)
    assert loaded.to_dict() == source.to_dict()
    assert fingerprint(loaded) == fingerprint(source)
    store = loaded.durability
    assert (store.path, store.lease_seconds, store.synchronous) == (tmp_path / "runs.sqlite", 42, "NORMAL")
    assert (loaded.execution_version, loaded.yield_after_steps) == ("7", 3)
    assert loaded.policy.to_dict() == source.policy.to_dict()
    assert list(loaded.tools) == list(source.tools)
    assert (loaded.tools["announce"].action_builder, loaded.tools["announce"].probe) == (build, probe)
    assert loaded.tools["note"].func is note


def test_defaults_come_back_too() -> None:
    source = Agent(name="helper")
    assert again(source).to_dict() == source.to_dict()
    assert Agent.from_dict(minimal()).to_dict() == Agent(card=minimal()["card"]).to_dict()


@pytest.mark.parametrize("verbosity", [0, 1, 2])
def test_verbosity_comes_back(verbosity: int) -> None:
    assert again(Agent(name="helper", verbosity=verbosity)).verbosity == verbosity


def test_the_description_is_detached(tmp_path: Path) -> None:
    source = full(tmp_path / "runs.sqlite")
    before = copy.deepcopy(source.to_dict())
    found = source.to_dict()
    found["llm"]["model_params"]["temperature"] = 1
    found["tools"][0]["input_schema"]["properties"].clear()
    found["policy"]["rules"].clear()
    assert source.to_dict() == before


@pytest.mark.claim("WRK-037")
def test_a_worker_tool_is_written_as_its_binding(tmp_path: Path) -> None:
    entries = {entry["name"]: entry for entry in full(tmp_path / "runs.sqlite").to_dict()["tools"]}
    assert entries["ask_worker"]["worker_binding"] == {"agent": "worker", "action": "infer", "tool": None}
    bound = entries["worker_note"]
    assert bound["worker_binding"] == {"agent": "worker", "action": "tool_call", "tool": "note"}
    assert (bound["type"], bound["reconnect_required"]) == ("worker", True)
    assert "func_path" not in bound


@pytest.mark.claim("STR-023")
def test_children_are_written_by_name_and_asked_for(tmp_path: Path) -> None:
    wanted = [{"name": "worker", "reconnect_required": True}, {"name": "second", "reconnect_required": True}]
    assert full(tmp_path / "runs.sqlite").to_dict()["subagents"] == wanted


def test_children_may_be_given_in_any_order(tmp_path: Path) -> None:
    source = full(tmp_path / "runs.sqlite")
    loaded = again(source, subagents=reversed(source.subagents.values()))
    assert loaded.to_dict() == source.to_dict()


def test_a_subclass_makes_its_own_kind() -> None:
    class Mine(Agent):
        pass

    assert type(Mine.from_dict(Mine(name="helper").to_dict())) is Mine


def test_what_is_given_wins_over_the_configuration() -> None:
    source = Agent(name="helper", llm="mock", system_prompt="old", execution_version="1")
    model = MockLLM("other")
    loaded = again(source, llm=model, system_prompt="new", execution_version="2")
    assert (loaded.llm, loaded.system_prompt, loaded.execution_version) == (model, "new", "2")
    assert again(source, llm_factory=MockLLM).llm is None


def test_tools_that_are_given_beyond_the_configuration_are_added() -> None:
    assert list(again(Agent(name="helper", tools=[note]), tools=[publish]).tools) == ["note", "publish"]


@pytest.mark.parametrize("policy", [None, BudgetPolicy(warning_ratio=0)])
def test_switched_off_budgets_and_warnings_stay_off(policy: Any) -> None:
    loaded = again(Agent(name="helper", budget_policy=policy)).budget_policy
    assert loaded is None if policy is None else loaded.warning_ratio == 0


def test_what_is_known_about_a_model_comes_back() -> None:
    model = MockLLM().configure_metrics(LLMModelProfile(context_window=9, supports_streaming=False), enabled=False)
    source = Agent(name="helper", llm=model)
    loaded = again(source)
    assert loaded.llm is not None
    assert loaded.llm.metrics_profile == model.metrics_profile
    assert not loaded.llm.metrics_enabled
    assert loaded.to_dict() == source.to_dict()


def test_a_model_behind_a_server_comes_back() -> None:
    model = OpenAICompatibleLLM("small", base_url="http://127.0.0.1:9/v1", timeout=3, answer_limit=50)
    source = Agent(name="helper", llm=model)
    loaded = again(source)
    assert isinstance(loaded.llm, OpenAICompatibleLLM)
    assert (loaded.llm.base_url, loaded.llm.answer_limit) == ("http://127.0.0.1:9/v1", 50)
    assert loaded.llm.constructor_options["timeout"] == 3
    assert fingerprint(loaded) == fingerprint(source)


# ---------------------------------------------------------------------------------------------------- stored runs


@pytest.mark.claim("STR-023", "STR-025", "WRK-038")
async def test_loading_runs_nothing_and_the_loaded_agent_goes_on_with_stored_runs(tmp_path: Path) -> None:
    done: list[str] = []

    def act(history: Any, prompt: str) -> Any:
        done.append("asked")
        return "answer"

    child = worker(llm=MockLLM(response_callback=act))
    policy = CapabilityPolicy({"agent.delegate": "ask"})
    source = Agent(name="helper", subagents=[child], policy=policy, durability=tmp_path / "runs.sqlite")
    source.add_worker_tool("worker")
    with pytest.raises(RunInterrupted) as caught:
        await source.call_tool("worker", task="think")
    data = source.to_dict()
    loaded = Agent.from_dict(data, subagents=[child])
    stored = loaded.durability.get(caught.value.run_id)
    assert (stored.status, done) == ("input-required", [])
    response = {"request_id": caught.value.interruption.request_id, "approved": True}
    assert await loaded.resume(caught.value.run_id, **response) == "answer"
    assert done == ["asked"]


@pytest.mark.claim("WRK-040")
async def test_another_binding_in_the_configuration_is_refused_for_stored_runs(tmp_path: Path) -> None:
    children = [worker(), Agent(name="twin", llm="mock", tools=[note], description="works")]
    source = Agent(name="helper", subagents=children, tools=[ask_user_tool()], durability=tmp_path / "runs.sqlite")
    source.add_worker_tool("worker", name="noting", tool="note", description="Note.")
    with pytest.raises(RunInterrupted) as caught:
        await source.call_tool("ask_user", question="Which?")
    data = source.to_dict()
    data["tools"][1]["worker_binding"]["agent"] = "twin"
    loaded = Agent.from_dict(data, subagents=children)
    with pytest.raises(CheckpointMismatchError, match="worker:noting"):
        await loaded.resume(caught.value.run_id)


def test_a_read_only_store_stays_read_only(tmp_path: Path) -> None:
    SQLiteDurableStore(tmp_path / "runs.sqlite").close()
    source = Agent(name="helper", durability=SQLiteDurableStore(tmp_path / "runs.sqlite", read_only=True))
    assert again(source).durability.read_only


# ---------------------------------------------------------------------------------------------------- reattaching


class Careful:
    """A policy of the application's own."""

    async def evaluate(self, action: Any, context: Any) -> Any:
        raise AssertionError("nothing is judged here")


class Strict(CapabilityPolicy):
    pass


class Thrifty(BudgetPolicy):
    pass


class Own(MockLLM):
    provider = "own"


class Disguised(MockLLM):
    """Another class under a provider's name: made by name it would be another model."""


def local() -> Any:
    def inside(text: str) -> str:
        return text

    return inside


class Box:
    def method(self, text: str) -> str:
        return text


def spell(text: str) -> None: ...


PREPARED = PreparedTool(spell, prepare=build, execute=lambda execution: None, capabilities=["x"])


@pytest.mark.claim("STR-024")
@pytest.mark.parametrize(
    "part", ["InMemoryDurableStore", "Careful", "Strict", "Thrifty", "Own", "Disguised", "factory"]
)
def test_what_is_code_must_be_given_again_by_name(part: str) -> None:
    given: dict[str, dict[str, Any]] = {
        "InMemoryDurableStore": {"durability": InMemoryDurableStore()},
        "Careful": {"policy": Careful()},
        "Strict": {"policy": Strict()},
        "Thrifty": {"budget_policy": Thrifty()},
        "Own": {"llm": Own()},
        "Disguised": {"llm": Disguised()},
        "factory": {"llm_factory": MockLLM},
    }
    [(name, value)] = given[part].items()
    source = Agent(name="helper", **{name: value})
    assert source.to_dict()[name]["reconnect_required"] is True
    with pytest.raises(ValueError, match=rf"{name}=\.\.\."):
        again(source)
    loaded = again(source, **{name: value})
    assert getattr(loaded, name) is value
    assert loaded.to_dict() == source.to_dict()


@pytest.mark.claim("STR-024")
@pytest.mark.parametrize("name", ["durability", "policy"])
def test_nothing_is_no_reattachment_of_what_protects(name: str) -> None:
    source = Agent(name="helper", durability=InMemoryDurableStore(), policy=Careful())
    given = {"durability": source.durability, "policy": source.policy, name: None}
    with pytest.raises(ValueError, match=rf"{name}=\.\.\."):
        again(source, **given)


@pytest.mark.claim("STR-024")
def test_everything_that_is_missing_is_named_at_once() -> None:
    children = [worker(), Agent(name="second")]
    source = Agent(name="helper", subagents=children, durability=InMemoryDurableStore(), policy=Careful())
    source.add_tool(Tool.from_callable(local(), name="inside"))
    with pytest.raises(ValueError, match="subagents") as caught:
        again(source, subagents=children[:1])
    text = str(caught.value)
    assert "'worker'" not in text
    assert all(name in text for name in ("'second'", "'inside'", "policy=", "durability="))


@pytest.mark.claim("STR-024", "WRK-039")
def test_executable_children_must_be_given(tmp_path: Path) -> None:
    source = full(tmp_path / "runs.sqlite")
    for children in ([], [worker()], [Agent(name="Worker"), Agent(name="second")]):
        with pytest.raises(ValueError, match="subagent '"):
            again(source, subagents=children)


@pytest.mark.parametrize(
    "func",
    [lambda text: text, local(), Box().method, functools.partial(note, color="blue")],
    ids=["lambda", "local", "method", "partial"],
)
def test_a_function_without_a_place_is_never_written_as_a_path(func: Any) -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    tool = Tool.from_callable(func, name="placeless", description="", input_schema=schema)
    source = Agent(name="helper", tools=[tool])
    [entry] = source.to_dict()["tools"]
    assert (entry["reconnect_required"], "func_path" in entry) == (True, False)
    with pytest.raises(ValueError, match="tool 'placeless'"):
        again(source)
    loaded = again(source, tools=[tool])
    assert loaded.tools["placeless"].func is func
    assert loaded.to_dict() == source.to_dict()


def test_a_name_that_leads_to_another_function_is_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Agent(name="helper", tools=[note])
    monkeypatch.setattr(sys.modules[__name__], "note", publish)
    assert "func_path" not in source.to_dict()["tools"][0]


def test_a_builder_without_a_place_keeps_the_whole_tool_from_being_loaded() -> None:
    """A tool without its builder would do without the preview that somebody approves."""
    tool = Tool.from_callable(note, action_builder=lambda arguments, context: build(arguments, context))
    with pytest.raises(ValueError, match="tool 'note'"):
        again(Agent(name="helper", tools=[tool]))


def test_prepared_tools_are_given_again() -> None:
    source = Agent(name="helper", tools=[PREPARED])
    with pytest.raises(ValueError, match="tool 'spell'"):
        again(source)
    assert again(source, tools=[PREPARED]).tools["spell"] is PREPARED


def test_a_live_worker_declaration_is_no_tool_to_be_given(tmp_path: Path) -> None:
    source = full(tmp_path / "runs.sqlite")
    with pytest.raises(ValueError, match="ask_worker"):
        again(source, tools=[source.tools["ask_worker"]])


# ---------------------------------------------------------------------------------------------------- changed tools


def module(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, name: str = "shelf_of_tools") -> Any:
    (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    importlib.invalidate_caches()
    found = importlib.import_module(name)
    monkeypatch.delitem(sys.modules, name)
    sys.modules[name] = found
    return found


BEFORE = "def act(text: str) -> str:\n    return text\n"
AFTER = "def act(text: str, loud: bool = False) -> str:\n    return text\n"


def test_a_function_that_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Agent(name="helper", tools=[module(tmp_path, monkeypatch, BEFORE).act])
    assert again(source).to_dict() == source.to_dict()
    data = source.to_dict()
    module(tmp_path, monkeypatch, AFTER)
    with pytest.raises(ValueError, match="'act' is not the one of the configuration: input changed"):
        Agent.from_dict(data)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("no_such_shelf:act", "ModuleNotFoundError"),
        ("broken_shelf:act", "ZeroDivisionError"),
        (f"{__name__}:missing", "no 'missing'"),
        (f"{__name__}:Box.missing", "no 'missing'"),
        (f"{__name__}:AFTER", "is a str, not a function"),
        (f"{__name__}:Box", "is a type, not a function"),
    ],
)
def test_a_path_that_leads_nowhere_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, text: str
) -> None:
    (tmp_path / "broken_shelf.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(tmp_path))
    data = Agent(name="helper", tools=[note]).to_dict()
    data["tools"][0]["func_path"] = path
    with pytest.raises(ValueError, match="tool 'note': func_path") as caught:
        Agent.from_dict(data)
    assert text in str(caught.value)
    assert "tools=[...]" in str(caught.value)
    assert list(Agent.from_dict(data, tools=[note]).tools) == ["note"]


def test_another_tool_of_that_name_is_refused() -> None:
    source = Agent(name="helper", tools=[note])
    with pytest.raises(ValueError, match="input changed"):
        again(source, tools=[Tool.from_callable(local(), name="note", description="Note a text.")])
    with pytest.raises(ValueError, match="capabilities changed"):
        again(source, tools=[Tool.from_callable(note, capabilities=["more"])])


@pytest.mark.claim("WRK-039")
def test_a_worker_whose_tool_is_gone_is_refused(tmp_path: Path) -> None:
    source = full(tmp_path / "runs.sqlite")
    bare = Agent(name="worker", llm="mock", description="works")
    with pytest.raises(ValueError, match="'worker' has no tool 'note'"):
        again(source, subagents=[bare, Agent(name="second", description="")])
    mute = Agent(name="worker", tools=[note], description="works")
    with pytest.raises(ValueError, match="'worker' has no model"):
        again(source, subagents=[mute, Agent(name="second", description="")])


@pytest.mark.claim("WRK-039")
@pytest.mark.parametrize("changed", ["input", "output"])
def test_a_worker_whose_tool_has_another_schema_is_refused(tmp_path: Path, changed: str) -> None:
    source = full(tmp_path / "runs.sqlite")
    schema = {f"{changed}_schema": {"type": "object", "properties": {}}}
    child = Agent(name="worker", llm="mock", tools=[Tool.from_callable(note, **schema)], description="works")
    with pytest.raises(ValueError, match=f"'worker_note' of the worker 'worker' is not .* {changed} changed"):
        again(source, subagents=[child, Agent(name="second", description="")])


# ---------------------------------------------------------------------------------------------------- secrets


SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (lambda: MockLLM("small", {"api_key": "hunter2", "top_p": 1}), "model_params.api_key"),
        (
            lambda: MockLLM("small", {"extra_headers": {"Authorization": f"Bearer {SECRET}"}}),
            "model_params.extra_headers",
        ),
        (lambda: MockLLM("small", {"proxy": "http://app:hunter2@127.0.0.1"}), "model_params.proxy"),
        (lambda: MockLLM("small", {"hook": print}), "model_params.hook"),
        (lambda: OpenAICompatibleLLM("m", base_url="http://127.0.0.1:9/v1", api_key="hunter2-hunter2"), "api_key"),
        (lambda: OpenAICompatibleLLM("m", base_url="http://127.0.0.1:9", headers={"X-Api-Key": SECRET}), "headers"),
    ],
    ids=["key", "header", "value", "code", "server key", "server headers"],
)
def test_secrets_are_not_written_and_their_model_is_given_again(model: Any, name: str) -> None:
    source = Agent(name="helper", llm=model())
    text = json.dumps(source.to_dict())
    assert "hunter2" not in text
    assert SECRET not in text
    assert source.to_dict()["llm"]["not_stored"] == [name]
    with pytest.raises(ValueError, match=name) as caught:
        again(source)
    assert "hunter2" not in str(caught.value)
    loaded = again(source, llm=model())
    assert loaded.to_dict() == source.to_dict()
    assert fingerprint(loaded) == fingerprint(source)


def test_handlers_and_stores_of_records_are_not_written() -> None:
    plain = Agent(name="helper", tools=[ask_user_tool()])

    async def answer(request: Any) -> str:
        return "yes"

    source = Agent(name="helper", tools=[ask_user_tool(answer)], approval_handler=lambda request: True)
    assert source.to_dict() == plain.to_dict()


# ---------------------------------------------------------------------------------------------------- hostile data


HOSTILE: list[Any] = [
    None,
    "text",
    [],
    {},
    {"card": None},
    {"card": {"name": "a"}},
    minimal(surprise=1),
    minimal(verbosity=True),
    minimal(verbosity=7),
    minimal(verbosity="1"),
    minimal(system_prompt=5),
    minimal(override_system_prompt="yes"),
    minimal(skills=["auto"]),
    minimal(skills="some"),
    minimal(execution_version=1),
    minimal(execution_version=" "),
    minimal(yield_after_steps=0),
    minimal(yield_after_steps=1.5),
    minimal(store_patience=float("nan")),
    minimal(llm="mock"),
    minimal(llm={}),
    minimal(llm={"provider": "unheard-of", "model": "m"}),
    minimal(llm={"provider": "mock", "model": "m", "base_url": "http://x"}),
    minimal(llm={"provider": "mock", "model": "m", "max_tool_corrections": "2"}),
    minimal(llm={"provider": "mock", "model": "m", "max_tool_corrections": 99}),
    minimal(llm={"provider": "mock", "model": "m", "tool_calling": "magic"}),
    minimal(llm={"provider": "mock", "model": "m", "model_params": []}),
    minimal(llm={"provider": "mock", "model": "m", "code": "x"}),
    minimal(llm={"provider": "mock", "model": "m", "metrics": {"profile": {"mood": 1}}}),
    minimal(llm={"provider": "openai-compatible", "model": "m"}),
    minimal(tools={}),
    minimal(tools=["note"]),
    minimal(tools=[{"name": "x"}]),
    minimal(tools=[{"name": "x", "type": "magic"}]),
    minimal(tools=[{"name": "x", "type": "native", "func_path": "os.system"}]),
    minimal(tools=[{"name": "x", "type": "native", "func_path": 5}]),
    minimal(tools=[{"name": "x", "type": "native", "func_path": "a:b:c"}]),
    minimal(tools=[{"name": "x", "type": "native", "func_path": "json:dumps", "tags": "loud"}]),
    minimal(tools=[{"name": "x", "type": "native", "func_path": "json:dumps", "read_only": 1}]),
    minimal(tools=[{"name": "x", "type": "native", "func_path": "json:dumps", "code": "1"}]),
    minimal(tools=[{"name": "final", "type": "native", "func_path": f"{__name__}:note"}]),
    minimal(tools=[{"name": "x", "type": "builtin", "builtin": "shell"}]),
    minimal(tools=[{"name": "x", "type": "builtin", "builtin": "ask_user", "timeout_seconds": "5"}]),
    minimal(tools=[{"name": "x", "type": "builtin", "builtin": "ask_user"}]),
    minimal(tools=[{"name": "x", "type": "worker"}]),
    minimal(tools=[{"name": "x", "type": "worker", "worker_binding": {"agent": "b", "action": "eval"}}]),
    minimal(tools=[{"name": "x", "type": "native", "func_path": f"{__name__}:note"}] * 2),
    minimal(policy="allow"),
    minimal(policy={"type": "custom"}),
    minimal(policy={"type": "capability", "rules": {"x": "perhaps"}}),
    minimal(budget_policy={"type": "budget", "warning_ratio": "high"}),
    minimal(budget_policy={"type": "free"}),
    minimal(durability="runs.sqlite"),
    minimal(durability={"type": "sqlite"}),
    minimal(durability={"type": "sqlite", "path": "x", "lease_seconds": -1}),
    minimal(durability={"type": "sqlite", "path": "x", "lease_seconds": "long"}),
    minimal(durability={"type": "sqlite", "path": "x", "synchronous": "OFF"}),
    minimal(durability={"type": "postgres"}),
    minimal(subagents="b"),
    minimal(subagents=[{}]),
    minimal(subagent_limits={"max_children": 0}),
    minimal(subagent_limits={"max_gifts": 1}),
    minimal(subagent_limits=[1]),
]


@pytest.mark.parametrize("data", HOSTILE, ids=map(str, range(len(HOSTILE))))
def test_a_malformed_configuration_is_a_value_error(data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"\w"):
        Agent.from_dict(data)
    assert list(tmp_path.iterdir()) == []


def test_a_refused_configuration_imports_nothing_and_opens_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loaded_shelf.py").write_text("def act() -> None: ...")
    monkeypatch.syspath_prepend(str(tmp_path))
    data = minimal(
        tools=[{"name": "act", "type": "native", "func_path": "loaded_shelf:act"}],
        durability={"type": "sqlite", "path": str(tmp_path / "runs.sqlite")},
        subagents=[{"name": "worker"}],
    )
    with pytest.raises(ValueError, match="subagent 'worker'"):
        Agent.from_dict(data)
    assert "loaded_shelf" not in sys.modules
    assert not (tmp_path / "runs.sqlite").exists()


def test_what_is_no_json_cannot_be_written() -> None:
    with pytest.raises(TypeError, match="tool 'note'"):
        Agent(name="helper", tools=[Tool.from_callable(note, examples=[object()])]).to_dict()


# ---------------------------------------------------------------------------------------------------- YAML


@pytest.mark.claim("STR-023", "WRK-038")
def test_yaml_text_and_files_bring_everything_back(tmp_path: Path) -> None:
    source = full(tmp_path / "runs.sqlite", system_prompt='Zwölf: "ja"\n\n- nein\t\u2028\x85 yes')
    children = list(source.subagents.values())
    source.to_yaml(tmp_path / "agent.yaml")
    assert (tmp_path / "agent.yaml").read_text(encoding="utf-8") == source.to_yaml_string()
    for loaded in (
        Agent.from_yaml_string(source.to_yaml_string(), subagents=children),
        Agent.from_yaml(tmp_path / "agent.yaml", subagents=children),
    ):
        assert loaded.to_dict() == source.to_dict()
        assert fingerprint(loaded) == fingerprint(source)


@example("\x85")
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_yaml(text: str) -> None:
    source = Agent(name="helper", system_prompt=text)
    assert Agent.from_yaml_string(source.to_yaml_string()).system_prompt == text


@pytest.mark.parametrize(
    "text",
    ["", "just text", "- a\n- b", "{", "a: b: c", "!!python/object/apply:os.getcwd []", "[" * 5000],
)
def test_yaml_that_is_no_plain_mapping_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="Agent configuration"):
        Agent.from_yaml_string(text)


def test_a_file_that_is_no_text_is_a_value_error(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_bytes(b"card: \xff\xfe")
    with pytest.raises(ValueError, match="UTF-8"):
        Agent.from_yaml(tmp_path / "agent.yaml")
    with pytest.raises(FileNotFoundError):
        Agent.from_yaml(tmp_path / "none.yaml")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError, match=r"protolink\[yaml\]"):
        Agent(name="helper").to_yaml_string()
    with pytest.raises(ImportError, match=r"protolink\[yaml\]"):
        Agent.from_yaml_string("card: {}")
    assert Agent.from_dict(Agent(name="helper").to_dict()).name == "helper"


# ---------------------------------------------------------------------------------------------------- own handlers


class Handling(Agent):
    async def handle_task(self, task: Task) -> Task:
        return task.complete("mine")


class Streaming(Handling):
    async def handle_task_streaming(self, task: Task) -> Any:
        yield None


def streaming_card() -> AgentCard:
    return AgentCard("a", "b", "http://127.0.0.1:9", capabilities=AgentCapabilities(streaming=True))


@pytest.mark.claim("DEL-004")
def test_an_agent_that_only_handles_tasks_itself_does_not_advertise_streaming() -> None:
    card = streaming_card()
    assert not Handling(card).card.capabilities.streaming
    assert not Handling(card.to_dict()).card.capabilities.streaming
    assert card.capabilities.streaming, "the caller's own card is not changed"
    assert Agent(card).card.capabilities.streaming
    assert Streaming(card).card.capabilities.streaming
    assert not Handling.from_dict(Handling(card).to_dict()).card.capabilities.streaming


@pytest.mark.claim("DEL-005")
async def test_its_handler_answers_every_way_of_asking() -> None:
    agent = Handling(streaming_card(), llm=MockLLM(default_response="the model's"))
    check_supported(agent, {})
    assert await agent.invoke("go") == "mine"
    task = Task.create_infer(prompt="go")
    async for _ in agent.handle_task_streaming(task):
        pass
    assert task.get_output() == "mine"
    assert (await agent.start_run("go").result()).output == "mine"


@pytest.mark.claim("DEL-005")
async def test_a_child_that_handles_tasks_itself_is_asked_by_its_own_handler() -> None:
    child = Handling(name="child", llm=MockLLM(default_response="the model's"))
    parent = Agent(name="parent", subagents=[child], tools=[])
    parent.add_worker_tool("child")
    assert await parent.call_tool("child", task="go") == "mine"


# ---------------------------------------------------------------------------------------------------- among others


def test_a_transport_comes_back_by_its_name() -> None:
    source = Agent(name="helper", transport="runtime")
    assert source.to_dict()["transport"] == {"type": "runtime"}
    loaded = again(source)
    assert loaded.transport is not None
    assert loaded.transport.url == "runtime://helper"
    assert loaded.to_dict() == source.to_dict()


def test_a_transport_with_settings_and_a_registry_must_be_given_again() -> None:
    transport = RuntimeTransport("runtime://helper", config=TransportConfig(shutdown_timeout=1.0))
    registry = Registry("runtime")
    source = Agent(
        name="helper", transport=transport, registry=registry, discovery_ttl=5, registry_heartbeat_interval=9
    )
    with pytest.raises(ValueError, match=r"transport=\.\.\..*registry=\.\.\."):
        again(source)
    loaded = again(source, transport=transport, registry=registry)
    assert (loaded.transport, loaded.registry) == (transport, registry)
    assert loaded.to_dict() == source.to_dict()
    assert loaded.to_dict()["registry_heartbeat_interval"] == 9


def test_an_agent_may_be_loaded_on_purpose_without_its_network() -> None:
    source = Agent(name="helper", transport="runtime", registry=Registry("runtime"))
    loaded = again(source, transport=None, registry=None)
    assert (loaded.transport, loaded.registry) == (None, None)


@pytest.mark.parametrize("member", [{"transport": {}}, {"transport": 3}, {"discovery_ttl": "x"}, {"discovery_ttl": -1}])
def test_malformed_network_members_are_a_value_error(member: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Agent.from_dict({**Agent(name="helper").to_dict(), **member})
