"""Starting and resuming runs: the way from an agent's methods to the driver.

A live run and a durable one differ in their journal. Nothing is executed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from .._lazy import Later
from ..drive.driver import Driver
from ..drive.journal import KeepNothing
from ..drive.log import Sink
from ..drive.ports import AgentPort, Journal
from ..engine import facts as f
from ..engine.commands import Ask
from ..engine.decide import decide
from ..engine.evolve import start
from ..engine.facts import Record
from ..engine.ledger import Ledger
from ..engine.project import opening
from ..engine.state import Run
from ..errors import CheckpointMismatchError, DurableExecutionError
from ..models import Task
from ..models.ids import new_uuid
from ..models.redaction.foreign import foreign_text
from ..runtime import CancellationToken, RunContext
from .changes import check
from .drive import Drive, give_up, give_up_now
from .factories import Models, make_models
from .fingerprint import configuration
from .node import Node, tree
from .observing import Observation, traced
from .parts import specs, work_parts
from .peers import find_peers
from .pointing import PointingJournal
from .remembering import RememberingJournal
from .responses import Response, answer_to
from .stored import StoredRuns
from .support import check_supported

if TYPE_CHECKING:
    from ..journal import codec
    from .agent import Agent
else:
    codec = Later("..journal.codec", __package__)


class Execution:
    """Runs of one agent. ``stored`` has those that are not driven now."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.runs = StoredRuns(agent)

    async def begin(
        self,
        task: Task,
        context: RunContext,
        *,
        token: CancellationToken | None = None,
        sinks: Iterable[Sink] = (),
        streaming: bool = False,
        number: int = 1,
    ) -> Drive | Run:
        """A drive that is about to start; for a task that is stored already, the run as it is stored.

        ``number``: that of its first event. A task that has ended does not run again: ValueError, or
        DurableExecutionError when it is not stored.
        """
        traced(self._agent, task, context)
        seen = Observation(self._agent, task, context)
        sinks = [*seen.sinks, *sinks]
        models = await make_models(self._agent)
        nodes = await self._nodes(models)
        check_supported(self._agent, models)
        how: dict[str, Any] = {"conversation": await self._recalled(task, context), "number": number}
        if self._agent.durability is None:
            if task.is_terminal:
                raise ValueError(f"Task '{task.id}' has ended already: {task.state.value}. Make a new task instead")
            return self._live(task, context, nodes, seen, token=token, sinks=sinks, streaming=streaming, **how)
        first = self._first(task, context, nodes, configuration(self._agent, models), **how)
        codec.encode(first)  # what cannot be stored, or not read again, is refused before the run's id is taken
        run = start(first)
        journal = await self._open(context.run_id, create=not task.is_terminal)
        try:
            if journal.records:
                return await self._known(journal, task)
        except BaseException:
            await give_up(journal)
            raise
        driver = self._driver(run, journal, nodes, context, task, token=token, sinks=sinks, streaming=streaming)
        driver.log.begin(first, opening(run, first))
        return Drive(driver, journal, task, seen)

    async def begin_live(
        self, task: Task, context: RunContext, ledger: Ledger, *, people: bool, above: Sequence[Any] = (), **how: Any
    ) -> Drive:
        """A drive that is never stored, on a budget that is shared. Without ``people`` nobody is asked.

        ``above``: the policies of ancestors; ``root``: the agent whose clock, budget policy and limits count, where it
        is not this one. The rest is the driver's: token, sinks, streaming.
        """
        nodes = await self._nodes(await make_models(self._agent), above=above, people=people)
        return self._live(task, context, nodes, None, ledger=ledger, **how)

    async def resume(
        self,
        run_id: str,
        response: Response,
        *,
        rerun: str | None = None,
        sinks: Iterable[Sink] = (),
        streaming: bool = False,
    ) -> Drive | Run:
        """A drive that goes on with a stored run; the run as it is stored, when there is nothing to go on with."""
        if rerun is not None:
            _check_rerun(rerun, response)
        journal = await self._open(run_id)
        try:
            models = await make_models(self._agent)
            nodes = await self._nodes(models)
            check_supported(self._agent, models)
            run = self.runs.read(journal)
            check(self._agent, run, configuration(self._agent, models))
            facts = self._next_facts(run, response, rerun)
            if facts is None:
                await give_up(journal)
                return run
        except BaseException:
            await give_up(journal)
            raise
        task = Task.from_dict(run.task.to_dict())
        context = RunContext.from_dict(run.root.context)
        seen = Observation(self._agent, task, context)
        driver = self._driver(run, journal, nodes, context, task, sinks=[*seen.sinks, *sinks], streaming=streaming)
        for fact in (f.Resumed(journal.epoch), *facts):
            driver.stage(fact)
        return Drive(driver, journal, task, seen)

    async def _open(self, run_id: str, *, create: bool = False) -> PointingJournal:
        """Own a run. A caller that is canceled meanwhile gives it back, or nobody could go on with it for a lease."""
        if create and (made := await self.runs.create(run_id)) is not None:
            return made
        claim = asyncio.get_running_loop().run_in_executor(None, partial(self.runs.open, run_id, create=create))
        try:
            return await asyncio.shield(claim)
        except asyncio.CancelledError:
            claim.add_done_callback(_give_back)
            await asyncio.wait([claim])
            raise

    # ------------------------------------------------------------------------------------------------ starting

    async def _nodes(self, models: Models, **how: Any) -> dict[str, AgentPort]:
        """The agents of this drive's tree by path, with the peers that they know now."""
        durable = self._agent.durability is not None
        return tree(Node(self._agent, models, peers=await find_peers(self._agent), durable=durable, **how))

    async def _recalled(self, task: Task, context: RunContext) -> list[dict[str, Any]] | None:
        """The conversation that the run goes on with; None when nothing is remembered, or its model is not asked."""
        agent = self._agent
        if not agent.state.modules or not agent.can_infer or all(part.type != "infer" for part in work_parts(task)):
            return None
        return await agent.memory.recall(context.session_id)

    def _live(
        self,
        task: Task,
        context: RunContext,
        nodes: dict[str, AgentPort],
        seen: Observation | None,
        *,
        conversation: list[dict[str, Any]] | None = None,
        number: int = 1,
        ledger: Ledger | None = None,
        root: Agent | None = None,
        **how: Any,
    ) -> Drive:
        first = self._first(task, context, nodes, None, conversation, number, root)
        run = start(first, task)
        if ledger is not None:
            run.ledger = ledger
            ledger.start_clock(first.at)
        journal = KeepNothing()
        driver = self._driver(run, journal, nodes, context, task, root=root, **how)
        driver.log.begin(first, opening(run, first))
        return Drive(driver, journal, task, seen)

    def _first(
        self,
        task: Task,
        context: RunContext,
        nodes: dict[str, AgentPort],
        contract: dict[str, str] | None,
        conversation: list[dict[str, Any]] | None = None,
        number: int = 1,
        root: Agent | None = None,
    ) -> Record:
        """The first fact. A live run keeps no copy of its task: the caller's is the only one."""
        durable = contract is not None
        fact = f.RunStarted(
            run_id=context.run_id,
            agent=self._agent.name,
            task=task.to_dict() if durable else {},
            parts=specs(task, nodes[""]),
            context=context.to_dict(),
            configuration=contract or {},
            durable=durable,
            salt=new_uuid()[:23],
            children=self._agent.subagent_limits.to_dict() if root is None else root.subagent_limits.below(),
            conversation=conversation,
        )
        return Record(0, number, (root or self._agent).clock.now(), fact)

    def _driver(
        self,
        run: Run,
        journal: Journal,
        nodes: dict[str, AgentPort],
        context: RunContext,
        task: Task,
        *,
        token: CancellationToken | None = None,
        sinks: Iterable[Sink] = (),
        streaming: bool = False,
        root: Agent | None = None,
    ) -> Driver:
        top = root or self._agent
        run.policy = top.budget_policy
        if context.canceled:  # before the start: the run ends as if it were canceled at its first step
            token = token or CancellationToken()
            token.cancel(context.cancel_reason)
        if run.conversation is not None:
            agent = self._agent
            journal = RememberingJournal(journal, run, agent.memory, agent.clock, agent.store_patience)
        return Driver(
            run,
            journal,
            nodes,
            context=context,
            clock=top.clock,
            token=token,
            sinks=sinks,
            streaming=streaming,
            shown=task,
            max_result_bytes=self._agent.max_result_bytes,
            store_patience=self._agent.store_patience,
            redact=foreign_text,
        )

    async def _known(self, journal: PointingJournal, task: Task) -> Run:
        """The stored run of a task that is submitted again. It is not continued.

        An id alone does not open it: whoever asks for something else under that id learns nothing of the stored task.
        """
        run = self.runs.read(journal)
        if run.task.id != task.id or _asked(run.task) != _asked(task):
            raise CheckpointMismatchError(
                f"Run '{run.id}' is stored for another task than '{task.id}' with these messages: use another run "
                f"id, or resume('{run.id}') to go on with the stored one"
            )
        await give_up(journal)
        return run

    # ------------------------------------------------------------------------------------------------ going on

    def _next_facts(self, run: Run, response: Response, rerun: str | None) -> Sequence[f.Fact] | None:
        """What a resume adds after ``Resumed``; None when there is nothing to do. Raises what cannot be done."""
        if run.outcome is not None:
            _refuse_finished(run, response)
            return None
        if rerun is not None:
            return [_rerun(run, rerun)]
        if response.given:
            answered = answer_to(run, response, self._agent.clock.now())
            if answered is not None:
                return [answered]
        grants = [f.Answered(r.id) for r in run.requests.values() if r.kind in ("yield", "retry")]
        if run.phase == "active":
            return grants
        if run.uncertain:
            return None
        wanted = decide(run, self._agent.clock.now())
        goes_on = grants or any(not isinstance(command, Ask) for command in wanted)
        return grants if goes_on else None


def _asked(task: Task) -> list[Any]:
    """What a task asks for."""
    return [(message.role, [part.to_dict() for part in message.parts]) for message in task.messages]


def _give_back(claim: asyncio.Future[PointingJournal]) -> None:
    if not claim.cancelled() and claim.exception() is None:
        give_up_now(claim.result())


def _refuse_finished(run: Run, response: Response) -> None:
    """A run that has ended gives its output and takes nothing."""
    recorded = run.responses.get(response.request_id or "") if response.given else None
    if recorded is not None:
        recorded = {**recorded, "outcome": run.outcome}
    if run.outcome != "completed":
        reason = (run.error or {}).get("message") or run.outcome
        text = f"Run '{run.id}' ended {run.outcome} and cannot be resumed: {reason}"
        raise DurableExecutionError(text, recorded=recorded)
    if response.given:
        raise DurableExecutionError(f"Run '{run.id}' is completed and takes no response", recorded=recorded)


def _check_rerun(rerun: Any, response: Response) -> None:
    if not isinstance(rerun, str):
        raise TypeError(f"rerun is an action id, which is text, not {type(rerun).__name__}")
    if response.given:
        raise ValueError("give either a response or rerun; each has a resume of its own")


def _rerun(run: Run, key: str) -> f.Fact:
    action = run.actions.get(key)
    crashed = action is not None and run.phase == "active" and action.state == "executing"
    if action is None or not (key in run.uncertain or crashed):
        raise DurableExecutionError(f"Run '{run.id}' has no uncertain action '{key}' to run again")
    if not action.idempotent:
        name = action.call.tool
        raise DurableExecutionError(f"'{name}' is not declared idempotent; look at its system and reconcile '{key}'")
    return f.RerunAllowed(key)
