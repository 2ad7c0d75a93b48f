"""Starting and resuming runs: the way from an agent's methods to the driver.

A live run and a durable one differ in their journal. Nothing is executed here.
"""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

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
from ..journal.codec import encode
from ..models import DEFAULT_REDACTION_POLICY, Task
from ..models.redaction.provider_keys import without_keys
from ..runtime import CancellationToken, RunContext
from .drive import Drive, give_up
from .factories import make_models
from .fingerprint import check, configuration
from .node import Node, tree
from .observing import Observation, traced
from .parts import specs
from .pointing import PointingJournal
from .responses import Response, answer_to
from .stored import StoredRuns
from .support import check_supported

if TYPE_CHECKING:
    from .agent import Agent


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
    ) -> Drive | Run:
        """A drive that is about to start; for a task that is stored already, the run as it is stored."""
        traced(self._agent, task, context)
        seen = Observation(self._agent, task, context)
        sinks = [*seen.sinks, *sinks]
        models = await make_models(self._agent)
        nodes = tree(Node(self._agent, models))
        check_supported(self._agent, models)
        if self._agent.durability is None:
            return self._live(task, context, nodes, seen, token=token, sinks=sinks, streaming=streaming)
        first = self._first(task, context, nodes, configuration(self._agent, models))
        encode(first)  # what cannot be stored is refused before the run's id is taken
        journal = await self._open(context.run_id, create=True)
        try:
            if journal.records:
                return await self._known(journal, task)
        except BaseException:
            await give_up(journal)
            raise
        run = start(first)
        driver = self._driver(run, journal, nodes, context, task, token=token, sinks=sinks, streaming=streaming)
        driver.log.begin(first, opening(run, first))
        return Drive(driver, journal, task, seen)

    async def begin_live(
        self, task: Task, context: RunContext, ledger: Ledger, *, people: bool, above: Sequence[Any] = (), **how: Any
    ) -> Drive:
        """A drive that is never stored, on a budget that is shared. Without ``people`` nobody is asked.

        ``above``: the policies of ancestors. The rest is the driver's: token, sinks, streaming.
        """
        nodes = tree(Node(self._agent, await make_models(self._agent), above=above, people=people))
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
        journal = await self._open(run_id)
        try:
            models = await make_models(self._agent)
            nodes = tree(Node(self._agent, models))
            check_supported(self._agent, models)
            run = self.runs.read(journal)
            check(run_id, run.configuration, configuration(self._agent, models))
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
        claim = asyncio.get_running_loop().run_in_executor(None, partial(self.runs.open, run_id, create=create))
        try:
            return await asyncio.shield(claim)
        except asyncio.CancelledError:
            claim.add_done_callback(_give_back)
            await asyncio.wait([claim])
            raise

    # ------------------------------------------------------------------------------------------------ starting

    def _live(
        self, task: Task, context: RunContext, nodes: dict[str, AgentPort], seen: Observation | None, **how: Any
    ) -> Drive:
        first = self._first(task, context, nodes, None)
        run = start(first, task)
        ledger = how.pop("ledger", None)
        if ledger is not None:
            run.ledger = ledger
        journal = KeepNothing()
        driver = self._driver(run, journal, nodes, context, task, **how)
        driver.log.begin(first, opening(run, first))
        return Drive(driver, journal, task, seen)

    def _first(
        self, task: Task, context: RunContext, nodes: dict[str, AgentPort], contract: dict[str, str] | None
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
            salt=str(uuid.UUID(bytes=secrets.token_bytes(16), version=4))[:23],
            children=self._agent.subagent_limits.to_dict(),
        )
        return Record(0, 1, self._agent.clock.now(), fact)

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
    ) -> Driver:
        run.policy = self._agent.budget_policy
        return Driver(
            run,
            journal,
            nodes,
            context=context,
            clock=self._agent.clock,
            token=token,
            sinks=sinks,
            streaming=streaming,
            shown=task,
            max_result_bytes=self._agent.max_result_bytes,
            store_patience=self._agent.store_patience,
            redact=_redacted,
        )

    async def _known(self, journal: PointingJournal, task: Task) -> Run:
        """The stored run of a task that is submitted again. It is not continued."""
        run = self.runs.read(journal)
        if run.task.id != task.id:
            raise CheckpointMismatchError(f"Run '{run.id}' is stored for task '{run.task.id}', not for '{task.id}'")
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


def _give_back(claim: asyncio.Future[PointingJournal]) -> None:
    if not claim.cancelled() and claim.exception() is None:
        claim.result().release_now()


def _redacted(text: str) -> str:
    """Texts of foreign errors become facts and events; recognisable secrets stay out of them."""
    return str(DEFAULT_REDACTION_POLICY.redact(without_keys(text)))


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


def _rerun(run: Run, key: str) -> f.Fact:
    action = run.actions.get(key)
    crashed = action is not None and run.phase == "active" and action.state == "executing"
    if action is None or not (key in run.uncertain or crashed):
        raise DurableExecutionError(f"Run '{run.id}' has no uncertain action '{key}' to run again")
    if not action.idempotent:
        name = action.call.tool
        raise DurableExecutionError(f"'{name}' is not declared idempotent; look at its system and reconcile '{key}'")
    return f.RerunAllowed(key)
