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
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from ..engine import facts as f
from ..engine.commands import Ask, Authorize, CallModel, Command, Compose, Invoke, Prepare, Stage
from ..engine.decide import backs_off, decide, wake_at
from ..engine.evolve import NO_HANDLER
from ..engine.facts import Fact
from ..engine.state import Action, Frame, Run
from ..errors import StoreUnavailableError
from ..models import Task
from ..models.ids import iso_from_seconds as stamp
from ..models.json import encode
from ..runtime import CancellationToken, RunContext, RunEvent
from .authorize import ask, authorize
from .clock import SystemClock
from .limit import Limit
from .log import Log, Sink
from .model_call import call_model, compose
from .outcome import Outcome, Performed, broken, given_up, never_began, printable, subject
from .ports import AgentPort, Clock, Journal
from .tool_call import invoke, prepare

MAX_RESULT_BYTES = 64 * 1024 * 1024
STORE_PATIENCE = 60.0


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
        self.log = Log(
            run,
            journal,
            self.clock,
            sinks=sinks,
            shown=shown,
            patience=store_patience,
            on_cancel=self._canceled_from_outside,
        )
        self._agents = agents
        self._contexts = {"": context}
        self._redact = redact
        self._running: dict[Command, asyncio.Task[Outcome]] = {}
        self._inbox: deque[tuple[Command | None, Outcome]] = deque()
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
        return Limit(self.clock, when)

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

    # ------------------------------------------------------------------------------------------------ from outside

    def post(self, *facts: Fact) -> bool:
        """Hand in facts while the run is driven, from the driver's loop. False when the drive is over."""
        if self._done:
            return False
        self._inbox.append((None, Outcome(facts)))
        self._notify()
        return True

    def cancel(self, reason: str | None = None) -> None:
        """Ask the run to stop. Safe from any thread, and again."""
        self.token.cancel(reason)
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._notify)

    def runs(self, task: asyncio.Task[Any] | None) -> bool:
        """True when that asyncio task is one of this drive's performers."""
        return any(task is running for running in self._running.values())

    def stage(self, fact: Fact) -> None:
        """Take a fact over; it is stored and shown with the next flush."""
        self.log.stage(fact)

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
                await self._flush()
                if self._start(starting):
                    continue
            if self.log.firm:
                await self._flush()
            if self._inbox:
                self._drain()
            elif self._running:
                await self._wait()
            elif backs_off(self.run, self.clock.now()) and not self.run.uncertain:
                await self._back_off()
            elif await self._rest():
                return

    def _settle(self) -> list[Command]:
        """Stage and read until only slow work is wanted; returns the work to start."""
        self._notice_cancel()
        while True:
            again = False
            starting: list[Command] = []
            for command in decide(self.run, self.clock.now()):
                if isinstance(command, Stage):
                    self.stage(command.fact)
                    again = True
                elif self._running and command in self._running:
                    continue
                elif isinstance(command, (CallModel, Invoke)):
                    starting.append(command)
                else:
                    again = self._read(command) or again
            if not again:
                return starting
            if self.token.is_cancelled:
                self._notice_cancel()

    def _read(self, command: Command) -> bool:
        """Start what needs nothing stored before it. True when it answered at once."""
        try:
            if isinstance(command, Ask):
                return self._ask(command)
            if isinstance(command, Compose):
                performed: Any = compose(self, command)
            elif isinstance(command, Prepare):
                performed = prepare(self, command)
            else:
                performed = authorize(self, command)  # type: ignore[arg-type]
        except BaseException as error:  # the application's, signals included; see broken
            performed = self._broken(command, error)
        return self._begin(command, performed)

    def _ask(self, command: Ask) -> bool:
        """A durable run has nobody to ask: its question stays, and it parks. A live one asks, or refuses at once."""
        if self.run.durable:
            return False
        performed = ask(self, command)
        if performed is None:
            self.stage(f.Expired(command.request, NO_HANDLER))
            return True
        return self._begin(command, performed)

    def _begin(self, command: Command, performed: Any) -> bool:
        if isinstance(performed, Outcome):
            self._take(performed)
            return True
        self._run_task(command, performed)
        return False

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
            elif isinstance(command, CallModel):
                self._run_task(command, call_model(self, command))
            elif isinstance(command, Invoke):
                answered = self._begin(command, self._invoked(command)) or answered
        return answered

    def _invoked(self, command: Invoke) -> Performed:
        try:
            return invoke(self, command)
        except BaseException as error:  # the application's result, while it was made JSON; see broken
            return self._broken(command, error)

    def _run_task(self, command: Command, work: Coroutine[Any, Any, Outcome]) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(command, work))
        self._running[command] = task
        task.add_done_callback(lambda task: self._finished(command, task, work))
        if self.token.is_cancelled:
            task.cancel()

    async def _answer(self, command: Command, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        """As an exception, a signal that foreign code raised would end the loop of everybody; it ends this drive."""
        try:
            return await work
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # the application's, signals included; see broken
            return self._broken(command, error)

    def _broken(self, command: Command, error: BaseException) -> Outcome:
        return broken(self.run, command, error, self.told(error))

    def _finished(self, command: Command, task: asyncio.Task[Outcome], work: Coroutine[Any, Any, Outcome]) -> None:
        work.close()  # only a task that was canceled before its first step has not used it up
        if self._running.get(command) is not task:
            return
        del self._running[command]
        # A task that was canceled before its first step never ran, its own handlers neither: nothing has begun.
        outcome = never_began(command) if task.cancelled() else task.result()
        if not outcome.facts and not (self.token.is_cancelled or self._unwanted(command)):
            outcome = self._broken(command, asyncio.CancelledError("canceled, and not by this run"))
        self._inbox.append((command, outcome))
        self._notify()

    def _drain(self) -> None:
        while self._inbox:
            _, outcome = self._inbox.popleft()
            self._take(outcome)

    def _take(self, outcome: Outcome) -> None:
        self._notice_cancel()  # first: what comes after the cancellation is late, and a canceled tool did not fail
        for fact in outcome.facts:
            if outcome.error is not None:
                self.errors[subject(fact)] = outcome.error
            if self.run.outcome is None:
                self.stage(fact)
        if outcome.interrupt is not None:
            self._interrupt = outcome.interrupt
            self._cancel_running()

    # ------------------------------------------------------------------------------------------------ waiting

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _wait(self) -> None:
        """Until something arrives, or a time comes."""
        self._drop_unwanted()
        now = self.clock.now()
        when = wake_at(self.run, now)
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

    def _drop_unwanted(self) -> None:
        """Questions settled another way and the work of children whose parent has failed are canceled, once."""
        for command, task in list(self._running.items()):
            if not task.cancelling() and self._unwanted(command):
                task.cancel()

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
        await self._flush()
        if not self._inbox or self.run.outcome is not None:
            return True
        self.stage(f.Resumed(self.run.epoch))
        self._drain()
        return False

    # ------------------------------------------------------------------------------------------------ canceling

    def _notice_cancel(self) -> None:
        if self.token.is_cancelled and self.run.cancel is None and self.run.outcome is None:
            self.stage(f.CancelRequested(self.token.reason))
            self._cancel_running()

    def _canceled_from_outside(self) -> None:
        """The caller's coroutine was canceled. The second time, what still runs is given up."""
        self._canceled = True
        self._cancels += 1
        self.token.cancel("execution was canceled")
        if self._cancels > 1:
            for command in list(self._running):
                del self._running[command]
                self._inbox.append((command, given_up(self.run, command)))

    def _cancel_running(self) -> None:
        for task in list(self._running.values()):
            task.cancel()

    async def _stop_running(self) -> None:
        """Nothing outlives the drive: what still runs (ownership lost, store gone) is canceled and waited for."""
        tasks = list(self._running.items())
        self._running.clear()
        for _, task in tasks:
            task.cancel()
        for command, task in tasks:
            await asyncio.wait([task])
            if not task.cancelled():
                self._inbox.append((command, task.result()))

    async def _flush(self) -> None:
        await self.log.flush()
