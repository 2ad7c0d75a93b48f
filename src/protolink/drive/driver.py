"""The driver: the one IO loop of every run, live or durable, streamed or not, fresh or resumed.

One pass: stage every fact that ``decide`` records and do what answers at once, until only slow work is wanted; stage
the intents of what is about to start; flush; start it; wait for the next answer. ``flush`` is one journal append of
everything staged and *then* the sinks: nothing is shown before it is stored, and no effect starts before its intent is.

Nothing runs and nothing is wanted: the run is finished, or it parks. Suspension never travels as an exception through
application code.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import CoroutineType
from typing import Any

from ..engine import facts as f
from ..engine.commands import Ask, Authorize, CallModel, Command, Compose, Invoke, Prepare, Stage
from ..engine.decide import backs_off, decide, wake_at
from ..engine.facts import Fact
from ..engine.state import Action, Frame, Run
from ..errors import StoreUnavailableError, UncertainExecutionError
from ..models import Task
from ..models.ids import iso_from_seconds as stamp
from ..models.json import encode
from ..models.printable import printable
from ..runtime import CancellationToken, RunContext, RunEvent
from .authorize import ask, authorize
from .clock import SystemClock
from .defaults import MAX_RESULT_BYTES, STORE_PATIENCE
from .limit import Limit, limited
from .log import Log, Sink
from .model_call import call_model, compose
from .outcome import Brought, Outcome, Performed, broken, given_up, never_began, subject
from .ports import AgentPort, Clock, Journal
from .privacy import visible
from .running import Running
from .tool_call import invoke, prepare

_PERFORMERS: dict[type[Command], Callable[[Driver, Any], Performed]] = {
    Compose: compose,
    Prepare: prepare,
    Authorize: authorize,
    Ask: ask,
    CallModel: call_model,
    Invoke: invoke,
}


class Driver:
    """Drives one run to its next rest. Used once.

    ``agents`` maps the path of each agent of the tree to its port. ``shown`` is the caller's task, brought up to date
    after each flush. After ``drive()`` the run is finished, parked or uncertain; ``errors`` has the exceptions behind
    the facts of this drive, by action or frame id.
    """

    def __init__(
        self,
        run: Run,
        journal: Journal,
        agents: Mapping[str, AgentPort],
        *,
        context: RunContext,
        clock: Clock | None = None,
        token: CancellationToken | None = None,
        sinks: Iterable[Sink] = (),
        streaming: bool = False,
        shown: Task | None = None,
        max_result_bytes: int = MAX_RESULT_BYTES,
        store_patience: float = STORE_PATIENCE,
        redact: Callable[[str], str] | None = None,
    ) -> None:
        self.run = run
        self.journal = journal
        self.clock: Clock = clock or SystemClock()
        self.token = token or CancellationToken()
        self.streaming = streaming
        self.max_result_bytes = max_result_bytes
        self.errors: dict[str, BaseException] = {}
        #: Live runs on the same budget that stop with this one.
        self.beside: list[Driver] = []
        self.log = Log(
            run,
            journal,
            self.clock,
            sinks=sinks,
            shown=shown,
            patience=store_patience,
            on_cancel=self._canceled_from_outside,
        )
        #: Take a fact over; it is stored and shown with the next flush.
        self.stage = self.log.stage
        self._agents = agents
        self._contexts = {"": context}
        self._redact = redact
        self._running = Running(self._arrived, self._broken)
        self._inbox: deque[Brought] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._canceled = False
        self._cancels = 0
        self._interrupt: BaseException | None = None
        self._done = False
        self._loop: asyncio.AbstractEventLoop | None = None

    # ------------------------------------------------------------------------------------------- what performers use

    def agent(self, frame: Frame) -> AgentPort:
        return self._agents[frame.spec.agent]

    def context(self, frame: Frame) -> RunContext:
        found = self._contexts.get(frame.scope)
        if found is None:
            found = self._contexts[frame.scope] = RunContext.from_dict(self.run.scopes[frame.scope].context)
        return found

    def limit(self, when: float | None) -> Limit:
        return limited(self.clock, when)

    def time(self) -> str:
        return stamp(self.clock.now())

    def redact(self, text: str) -> str:
        return self._redact(text) if self._redact else text

    def told(self, error: BaseException) -> str:
        """The text of a foreign error as it may be stored: redacted and printable; its type's name when it has none."""
        try:
            text = str(error)
        except Exception:  # the error's own text is broken; its type still says something
            text = ""
        return self.redact(printable(text) or type(error).__name__)

    def delta(self, frame: Frame, text: str) -> None:
        """Show a fragment of a model's text; it waits for what is shown before it."""
        if not self.log.fragment(frame, text):
            self._notify()

    def emitted(self, frame: Frame, action: Action, type: str, payload: dict[str, Any]) -> RunEvent:
        """A running tool tells something; it is a fact like any other. TypeError for what cannot be stored."""
        if self.run.durable:
            encode([type, payload])
        if self.run.actions[action.id].state == "executing":
            self.stage(f.Emitted(action.id, type, payload))
            self.log.firm = True  # it is shown while the tool still runs, not with its receipt
            self._notify()
        scope = self.run.scope(frame)
        return RunEvent(
            type=type,
            run_id=scope.run_id,
            task_id=scope.task.id,
            agent_name=scope.agent,
            action_id=action.id,
            payload=payload,
        )

    def relayed(self, action: Action, event: RunEvent) -> None:
        """A peer tells something of its work; it is shown while the peer still works, under the peer's own ids.

        UncertainExecutionError when it speaks for a run of this tree: nothing that it says can be relied on.
        """
        if event.run_id == self.run.id or event.run_id in self.run.scopes:
            raise UncertainExecutionError("The peer told events of its caller's runs; it is not known what it did")
        if self.run.actions[action.id].state == "executing":
            self.stage(f.Relayed(action.id, event.to_dict()))
            self.log.firm = True
            self._notify()

    # ------------------------------------------------------------------------------------------------ from outside

    def post(self, *facts: Fact) -> bool:
        """Hand in facts while the run is driven, from the driver's loop. False when the drive is over."""
        if self._done:
            return False
        self._inbox.append(Outcome(facts))
        self._notify()
        return True

    def cancel(self, reason: str | None = None) -> None:
        """Ask the run to stop, and those beside it. Safe from any thread, and again."""
        self.token.cancel(reason)
        for driver in tuple(self.beside):
            driver.cancel(reason)
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._notify)

    def park(self) -> None:
        """Have a durable run yield before its next model turn; a live one goes on. In the driver's loop."""
        self.run.parking = self.run.durable
        self._notify()

    def runs(self, task: asyncio.Task[Any] | None) -> bool:
        """True when that asyncio task is one of this drive's performers."""
        return self._running.has(task)

    # ------------------------------------------------------------------------------------------------ the loop

    async def drive(self) -> None:
        """Run to the next rest. Raises what store trouble raises, and CancelledError when the caller was canceled."""
        self._loop = asyncio.get_running_loop()
        try:
            await self._drive()
        except StoreUnavailableError:
            await self._stop_running()
            self._drain()  # receipts that came while the store was away are kept with the others
            raise
        finally:
            self._done = True
            await self._stop_running()
            if self.run.durable and not self.log.buffer:
                self.log.show()
        if self._interrupt is not None:
            raise self._interrupt
        if self._canceled:
            raise asyncio.CancelledError(self.token.reason)

    async def _drive(self) -> None:
        while True:
            starting = self._settle()
            if starting:
                self._intend(starting)
                if (storing := self.log.flush()) is not None:
                    await storing
                if self._start(starting):
                    if any(type(command) is CallModel for command in starting):  # once a turn
                        await self._let_others_go_on()
                    continue
            if self.log.firm and (storing := self.log.flush()) is not None:
                await storing
            if self._inbox:
                self._drain()
            elif self._running.tasks:
                await self._wait()
            elif backs_off(self.run, self.clock.now()) and not self.run.uncertain:
                await self._back_off()
            elif await self._rest():
                return

    def _settle(self) -> list[Command]:
        """Stage and read until only slow work is wanted; returns the work to start."""
        self._notice_cancel()
        running = self._running.tasks
        while True:
            again = False
            starting: list[Command] = []
            for command in decide(self.run, self.clock.now()):
                kind = type(command)
                if kind is Stage:
                    self.stage(command.fact)  # type: ignore[union-attr]
                    again = True
                elif running and command in running:
                    continue
                elif kind is CallModel or kind is Invoke:
                    starting.append(command)
                elif kind is Authorize and self.run.actions[command.action].state != "prepared":  # type: ignore[union-attr]
                    continue  # its preparation goes on, or found nothing to judge
                elif kind is not Ask or not self.run.durable:  # a durable run has nobody to ask; it parks
                    again = self._begin(command) or again
            if not again:
                return starting
            if self.token.is_cancelled:
                self._notice_cancel()

    def _begin(self, command: Command) -> bool:
        """Have the command performed. True when that answered at once."""
        if len(self.run.scopes) == 1:
            return self._perform(command)
        with visible(self.run, command):
            return self._perform(command)

    def _perform(self, command: Command) -> bool:
        try:
            performed = _PERFORMERS[type(command)](self, command)
        except BaseException as error:  # the application's, signals included; see broken
            performed = self._broken(command, error)
        if isinstance(performed, CoroutineType):
            task = self._running.start(command, performed)
            if self.token.is_cancelled:
                task.cancel()
            return False
        self._take(performed)  # type: ignore[arg-type]
        return True

    def _intend(self, starting: list[Command]) -> None:
        for command in starting:
            if isinstance(command, Invoke):
                self.stage(f.ToolStarted(command.action))
            elif isinstance(command, CallModel):
                started = f.ModelStarted(command.frame, command.turn, command.attempt, command.tokens, self.streaming)
                self.stage(started)

    def _start(self, starting: list[Command]) -> bool:
        """The intents are stored. True when something answered at once: then there may be more to do already.

        What was canceled meanwhile has not begun, and says so.
        """
        answered = False
        for command in starting:
            if self.token.is_cancelled or self._interrupt is not None:
                self._take(never_began(command))
                answered = True
            else:
                answered = self._begin(command) or answered
        return answered

    def _broken(self, command: Command, error: BaseException) -> Outcome:
        return broken(self.run, command, error, self.told(error))

    def _arrived(self, command: Command, brought: Brought) -> None:
        empty = isinstance(brought, Outcome) and not brought.facts
        if empty and not (self.token.is_cancelled or self._unwanted(command)):
            brought = self._broken(command, asyncio.CancelledError("canceled, and not by this run"))
        self._inbox.append(brought)
        self._notify()

    def _drain(self) -> None:
        while self._inbox:
            self._take(self._inbox.popleft())

    def _take(self, brought: Brought) -> None:
        if self.token.is_cancelled:
            self._notice_cancel()  # first: what comes after it is late, and a canceled tool did not fail
        if isinstance(brought, Outcome):
            self._take_all(brought)
        elif self.run.outcome is None:
            self.stage(brought)

    def _take_all(self, outcome: Outcome) -> None:
        if outcome.error is not None:
            self.errors.update((subject(fact), outcome.error) for fact in outcome.facts)
        if self.run.outcome is None:
            for fact in outcome.facts:
                self.stage(fact)
        if outcome.interrupt is not None:
            self._interrupt = outcome.interrupt
            self._running.cancel()

    # ------------------------------------------------------------------------------------------------ waiting

    async def _let_others_go_on(self) -> None:
        """A model that answers at once must not keep the event loop, hide that the caller was canceled, or hold up what
        other work of the run has brought.
        """
        if self._running.tasks:
            self._cancel_unwanted()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._canceled_from_outside()
        self._drain()

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _wait(self) -> None:
        """Until something arrives, or a time comes."""
        self._cancel_unwanted()
        when = wake_at(self.run, self.clock.now())
        forget = self.clock.call_at(when, self._notify) if when is not None else None
        try:
            await self._sleep()
        finally:
            if forget is not None:
                forget()
        self._drain()

    async def _sleep(self) -> None:
        if self._inbox or (self.log.firm and self.log.buffer):
            return
        self._wake = asyncio.get_running_loop().create_future()
        try:
            await self._wake
        except asyncio.CancelledError:
            self._canceled_from_outside()
        finally:
            self._wake = None

    async def _back_off(self) -> None:
        """Only a provider's backoff is waited for with nothing running."""
        when = wake_at(self.run, self.clock.now())
        assert when is not None
        sleeper = asyncio.ensure_future(self.clock.sleep_until(when))
        sleeper.add_done_callback(lambda _: self._notify())
        try:
            await self._sleep()
        finally:
            sleeper.cancel()
        self._drain()

    def _cancel_unwanted(self) -> None:
        """Questions settled another way and the work of children whose parent has failed are canceled, once."""
        if self.run.asked_by or len(self.run.frames) > 1:
            self._running.cancel(lambda command: not self._unwanted(command))

    def _unwanted(self, command: Command) -> bool:
        run = self.run
        match command:
            case Ask():
                return command.request not in run.requests
            case Compose() | CallModel():
                return run.abandoned(run.frames[command.frame])
            case Invoke() if run.durable and not run.actions[command.action].read_only:
                return False  # to cut it off would make its effect unknown; it ends by itself and is recorded
            case Prepare() | Authorize() | Invoke():
                return run.abandoned(run.frames[run.actions[command.action].frame])
            case _:
                return False

    async def _rest(self) -> bool:
        """Nothing runs and nothing is wanted. True when the drive is over."""
        if self.run.outcome is None:
            if not self.run.durable:
                raise AssertionError("a live run has come to rest unfinished")
            self.stage(f.Parked())
        if (storing := self.log.flush()) is not None:
            await storing
        if not self._inbox or self.run.outcome is not None:
            return True
        self.stage(f.Resumed(self.run.epoch))
        self._drain()
        return False

    # ------------------------------------------------------------------------------------------------ canceling

    def _notice_cancel(self) -> None:
        if self.token.is_cancelled and self.run.cancel is None and self.run.outcome is None:
            self.stage(f.CancelRequested(self.token.reason))
            self._running.cancel()

    def _canceled_from_outside(self) -> None:
        """The caller's coroutine was canceled. The second time, what still runs is given up."""
        self._canceled = True
        self._cancels += 1
        self.token.cancel("execution was canceled")
        if self._cancels > 1:
            self._inbox.extend(given_up(self.run, command) for command in self._running.give_up())

    async def _stop_running(self) -> None:
        """Nothing outlives the drive: what still runs (ownership lost, store gone) is canceled and waited for."""
        self._inbox.extend(await self._running.stop())
