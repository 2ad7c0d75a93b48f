"""The FastAPI example: its real server, started by its one-line command, and a real HTTP client."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from protolink import Agent, DurableExecutionError, InMemoryDurableStore, PresentationEvent, SQLiteDurableStore
from protolink.llms import MockLLM

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("sse_starlette")
pytest.importorskip("httpx2")

# A plain pytest does not look for packages at the root of the repository.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from examples.fastapi_app import agent
from examples.fastapi_app.clerk import Clerk
from examples.fastapi_app.desk import Desk
from examples.fastapi_app.messages import Looks, Message, live
from examples.fastapi_app.records import Records
from tests.examples.refund_desk import (
    NEVER,
    PARKING,
    PATIENCE,
    QUICK,
    ROOT,
    Server,
    Visitor,
    activity,
    answer,
    at_delta,
    at_snapshot,
    numbers,
)

QUESTION = "What do you know about order 4712?"
STATIC = ROOT / "examples" / "fastapi_app" / "static"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose model writes at once."""
    with Server(tmp_path_factory.mktemp("quick")) as found:
        yield found
        assert found.said == ""


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose model writes its first word and then no other."""
    with Server(tmp_path_factory.mktemp("slow"), NEVER) as found:
        yield found
        assert found.said == ""


@pytest.fixture
def ann(server: Server) -> Visitor:
    return Visitor(server)


@pytest.fixture
def sue(slow: Server) -> Iterator[Visitor]:
    """Somebody at the slow server, whose runs make room when the test is over."""
    found = Visitor(slow)
    yield found
    found.clear()


def find() -> str:
    """Find it."""
    return "found"


class TestRun:
    def test_run_tells_its_activity_and_ends_with_its_answer(self, ann: Visitor) -> None:
        run = ann.begin(QUESTION)
        told = ann.read(run)
        titles = [line["title"] for line in activity(told)]
        assert titles[0] == "Run working"
        assert titles[-1] == "Run completed"
        assert "find_order completed" in titles
        assert told[-1].data == ann.get(f"/runs/{run}").json()
        assert answer(told).startswith("Order 4712 is a walnut bookend, paid with 24.50 EUR.")

    def test_answer_is_told_while_it_is_written(self, sue: Visitor) -> None:
        run = sue.begin("Hello")
        assert answer(sue.read(run, until=at_delta)) == "Which "
        assert sue.get(f"/runs/{run}").json()["status"] == "working"

    def test_same_request_gives_the_same_run(self, ann: Visitor) -> None:
        wanted = {"request_id": "the-same-one", "prompt": QUESTION}
        first, second = (ann.post("/runs", wanted).json()["run_id"] for _ in range(2))
        assert first == second
        ann.read(first)
        assert ann.post("/runs", wanted).json()["run_id"] == first
        assert len(ann.get("/runs").json()["runs"]) == 1

    def test_request_id_of_something_else_is_refused(self, ann: Visitor) -> None:
        ann.post("/runs", {"request_id": "the-same-one", "prompt": QUESTION})
        other = ann.post("/runs", {"request_id": "the-same-one", "prompt": "Something else"})
        assert other.status_code == 409
        assert "belongs to another request" in other.json()["detail"]

    def test_run_is_listed_for_its_user(self, ann: Visitor) -> None:
        runs = [ann.begin(QUESTION), ann.begin("Hello")]
        assert [run["run_id"] for run in ann.get("/runs").json()["runs"]] == runs[::-1]


class TestReconnect:
    @pytest.mark.parametrize("first", [1, 3, 9])
    def test_last_event_id_goes_on_without_missing_or_doubling_an_event(self, ann: Visitor, first: int) -> None:
        run = ann.begin(QUESTION)
        seen: list[Any] = []
        with ann.follow(run) as told:
            while len(seen) < first:
                seen.extend(activity([next(told)]))
        seen += activity(ann.read(run, after=seen[-1]["sequence"]))
        assert seen == activity(ann.read(run))
        assert seen[-1]["title"] == "Run completed"

    def test_page_that_connects_anew_names_the_number_in_the_address(self, ann: Visitor) -> None:
        run = ann.begin(QUESTION)
        whole = numbers(activity(ann.read(run)))
        text = ann.get(f"/runs/{run}/events?after={whole[4]}").text
        assert [int(number) for number in re.findall(r"^id: (\d+)", text, re.MULTILINE)] == whole[5:]

    @pytest.mark.parametrize("number", ["-1", "many"])
    def test_number_that_is_none_is_refused(self, ann: Visitor, number: str) -> None:
        run = ann.begin(QUESTION)
        refused = ann.http.get(f"/runs/{run}/events", headers={"Last-Event-ID": number})
        assert refused.status_code == 422

    @pytest.mark.claim("GRP-034")
    async def test_reader_behind_the_window_is_told_the_state_and_what_it_missed(self) -> None:
        model = MockLLM(sequential_responses=[{"type": "tool_call", "tool": "find", "args": {}}, "Found."])
        finder = Agent(name="finder", llm=model, tools=[find], durability=InMemoryDurableStore(), verbosity=0)
        handle = finder.start_run("Find it", event_buffer_size=2)
        await handle.result()

        async def stored(after: int) -> list[Message]:
            shown = map(PresentationEvent.of, finder.run_events(handle.context.run_id, after))
            return [Message.activity(event) for event in shown if event is not None]

        async def snapshot() -> dict[str, Any]:
            return {"status": "completed"}

        told = [message async for message in live(handle, 3, Looks(stored, snapshot))]
        assert [message for message in told if message.kind == "activity"] == await stored(3)
        assert [message.data for message in told if message.kind == "snapshot"] == [{"status": "completed"}]


async def turns() -> None:
    """Let others run until nothing can be left to do."""
    for _ in range(500):
        await asyncio.sleep(0)


class Talker(Clerk):
    """A model of many words."""

    def _action(self, history: Any) -> dict[str, Any]:
        return {"type": "final", "content": "word " * 500}


async def test_reader_that_leaves_while_much_waits_for_it_is_gone() -> None:
    handle = Agent(name="talker", llm=Talker({}, QUICK), verbosity=0).start_run("Talk")
    await handle.result()

    async def nothing(*_: Any) -> Any:
        raise AssertionError("nothing is missing")

    before = asyncio.all_tasks()
    told = live(handle, 0, Looks(nothing, nothing))
    await anext(told)
    await turns()  # its queue runs full
    await asyncio.wait_for(told.aclose(), PATIENCE)
    await turns()
    assert asyncio.all_tasks() == before


class TestCancel:
    def test_run_at_work_is_canceled(self, slow: Server, sue: Visitor) -> None:
        run = sue.begin("Hello")
        with sue.follow(run) as told:
            assert next(event for event in told if at_delta(event))
            canceled = sue.again(slow).post(f"/runs/{run}/cancel")
            assert (canceled.status_code, canceled.json()["status"]) == (200, "canceled")
            rest = list(told)
        assert activity(rest)[-1]["title"] == "Run canceled"
        assert answer(rest) == ""
        assert rest[-1].data["status"] == "canceled"

    def test_run_that_waits_is_canceled_and_takes_no_decision(self, server: Server, ann: Visitor) -> None:
        run = ann.begin("Please refund order 4712.")
        request = ann.waiting(run)
        assert ann.post(f"/runs/{run}/cancel").json()["status"] == "canceled"
        late = ann.decide(run, request)
        assert late.status_code == 409
        assert ("4712", "24.50") not in server.refunds

    def test_canceling_again_and_after_the_end_changes_nothing(self, ann: Visitor) -> None:
        run = ann.begin(QUESTION)
        ann.read(run)
        before = ann.get(f"/runs/{run}").json()
        assert [ann.post(f"/runs/{run}/cancel").json() for _ in range(2)] == [before, before]


class TestApproval:
    def test_approval_shows_the_exact_action_without_its_secret(self, ann: Visitor) -> None:
        run = ann.begin()
        [request] = ann.get(f"/runs/{run}/approvals").json()["approvals"] or [ann.waiting(run)]
        action = request["request"]["action"]
        assert action["payload"]["arguments"] == {"order": "4711", "amount_eur": "89.00", "card_token": "[REDACTED]"}
        assert action["artifacts"][0]["parts"][0]["content"] == "Refund 89.00 EUR for order 4711, an oak desk lamp."

    def test_nothing_that_is_told_holds_the_secret(self, server: Server, ann: Visitor) -> None:
        run = ann.begin()
        request = ann.waiting(run)
        paths = (f"/runs/{run}", f"/runs/{run}/approvals", "/runs")
        texts = [ann.get(path).text for path in paths]
        ann.decide(run, request)
        texts += [ann.get(path).text for path in (*paths, f"/runs/{run}/events")]
        assert "Run completed" in texts[-1]
        assert not [text for text in texts if "tok_" in text]

    def test_approved_refund_is_paid_once_and_the_run_goes_on(self, server: Server, ann: Visitor) -> None:
        paid = server.refunds
        run = ann.begin()
        request = ann.waiting(run)
        assert server.refunds == paid
        assert ann.decide(run, request).status_code == 200
        assert "I have paid 89.00 EUR back" in answer(ann.read(run))
        again = ann.decide(run, request)
        assert (again.status_code, again.json()["detail"].partition(";")[0]) == (409, "This is not what waits now")
        assert server.refunds == [*paid, ("4711", "89.00")]

    @pytest.mark.claim("GRP-020")
    def test_answer_after_an_approval_is_told_in_pieces_to_whoever_followed(self, server: Server, ann: Visitor) -> None:
        run = ann.begin()
        with ann.follow(run) as told:
            request = next(event.data["requests"][0] for event in told if event.kind == "snapshot")
            assert ann.again(server).decide(run, request).json()["requests"] == []
            rest = list(told)
        kinds = [event.data["kind"] for event in rest if event.kind == "answer"]
        assert kinds.count("delta") > 1
        assert kinds[-1] == "completed"
        deltas = [event.data["text"] for event in rest if at_delta(event)]
        assert "".join(deltas) == answer(rest)

    def test_answer_after_an_approval_is_told_while_it_is_written(self, sue: Visitor) -> None:
        run = sue.begin()
        seen = sue.read(run, until=at_snapshot)
        assert sue.decide(run, seen[-1].data["requests"][0]).json()["status"] == "working"
        told = sue.read(run, after=activity(seen)[-1]["sequence"], until=at_delta)
        assert answer(told) == "Order "
        assert sue.get(f"/runs/{run}").json()["status"] == "working"
        lines = activity(seen) + activity(told)
        assert [line["status"] for line in lines if line["kind"] == "approval"] == ["required", "decided"]
        sue.cancel(run)
        assert activity(sue.read(run))[: len(lines)] == lines

    def test_denied_refund_is_not_paid_and_the_run_fails(self, server: Server, ann: Visitor) -> None:
        paid = server.refunds
        run = ann.begin()
        assert ann.decide(run, ann.waiting(run), approved=False).status_code == 200
        ended = ann.read(run)[-1].data
        assert (ended["status"], ended["error"]) == ("failed", "Denied on the page")
        assert server.refunds == paid

    def test_other_fingerprint_decides_nothing(self, ann: Visitor) -> None:
        run = ann.begin()
        request = ann.waiting(run)
        stale = ann.decide(run, request, fingerprint="0" * 64)
        assert stale.status_code == 409
        assert ann.get(f"/runs/{run}/approvals").json()["approvals"] == [request]

    def test_other_request_id_decides_nothing(self, ann: Visitor) -> None:
        run = ann.begin()
        request = ann.waiting(run)
        assert ann.decide(run, {**request, "request_id": "approval_of_something"}).status_code == 409
        assert ann.get(f"/runs/{run}/approvals").json()["approvals"] == [request]

    @pytest.mark.parametrize("said", [(True, True), (True, False)])
    def test_of_two_browsers_that_decide_at_once_one_wins(
        self, server: Server, ann: Visitor, said: tuple[bool, bool]
    ) -> None:
        paid = server.refunds
        run = ann.begin()
        request = ann.waiting(run)
        both = threading.Barrier(2)

        def decide(approved: bool) -> Any:
            browser = ann.again(server)
            both.wait()
            return browser.decide(run, request, approved)

        with ThreadPoolExecutor(2) as pool:
            done = [found.status_code for found in pool.map(decide, said)]
        assert sorted(done) == [200, 409]
        won = said[done.index(200)]
        assert ann.read(run)[-1].data["status"] == ("completed" if won else "failed")
        assert len(server.refunds) == len(paid) + won


class Away(Clerk):
    """A model whose provider cannot be reached the first time."""

    asked = 0

    async def call(self, history: Any) -> str:
        self.asked += 1
        if self.asked == 1:
            raise RuntimeError("nobody answers")
        return await super().call(history)


async def test_run_whose_model_was_away_goes_on_when_it_is_told_to(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(agent, "chosen_model", lambda: Away(agent.ORDERS, QUICK))
    records = Records(tmp_path / "desk.sqlite")
    record, _ = records.add_run("ann", "a-request", QUESTION)
    async with Desk(agent.application(tmp_path), records) as desk:
        desk.begin(record)
        told = desk.follow(record, 0)
        while (message := await anext(told)).kind != "snapshot":
            pass
        [request] = message.data["requests"]
        assert request["kind"] == "retry"
        with pytest.raises(DurableExecutionError):
            await desk.decide(record, request["request_id"], request["fingerprint"], True)
        await desk.retry(record)
        rest = [message async for message in told]
        assert rest[-1].data["status"] == "completed"
        with pytest.raises(DurableExecutionError):
            await desk.retry(record)
    records.close()


async def test_reader_who_comes_when_the_attempt_is_over_is_told_how_its_answer_was_written(tmp_path: Path) -> None:
    records = Records(tmp_path / "desk.sqlite")
    record, _ = records.add_run("ann", "a-request", "Please refund order 4711.")
    async with Desk(agent.application(tmp_path, pace=QUICK), records) as desk:
        desk.begin(record)
        told = desk.follow(record, 0)
        while (message := await anext(told)).kind != "snapshot":
            pass
        [request] = message.data["requests"]
        waiting = asyncio.ensure_future(anext(told))
        await asyncio.sleep(0)  # it waits for what is decided
        look, over = desk.snapshot, asyncio.Event()

        async def late(record: Any) -> dict[str, Any]:
            await over.wait()
            return await look(record)

        desk.snapshot = late  # type: ignore[method-assign]
        await desk.decide(record, request["request_id"], request["fingerprint"], True)
        while (await look(record))["status"] != "completed":
            await asyncio.sleep(0)
        over.set()
        rest = [await waiting] + [message async for message in told]
    kinds = [message.data["kind"] for message in rest if message.kind == "answer"]
    assert kinds.count("delta") > 1
    assert kinds[-1] == "completed"
    records.close()


class TestUsers:
    @pytest.mark.parametrize("path", ["/runs", "/runs/run_x", "/runs/run_x/events", "/runs/run_x/approvals"])
    def test_nobody_sees_anything_without_a_session(self, server: Server, path: str) -> None:
        stranger = Visitor(server, cookies={})
        assert stranger.get(path).status_code == 401
        stranger.http.cookies.set("refund_desk", "made-up")
        assert stranger.get(path).status_code == 401

    def test_run_of_somebody_else_does_not_exist(self, server: Server, ann: Visitor) -> None:
        run = ann.begin()
        request = ann.waiting(run)
        ben = Visitor(server)
        for there, nowhere in ((run, "run_nowhere"),):
            for path in ("", "/events", "/approvals"):
                told = [ben.get(f"/runs/{found}{path}") for found in (there, nowhere)]
                assert [(found.status_code, found.text) for found in told] == [(404, told[1].text)] * 2
        assert ben.post(f"/runs/{run}/cancel").status_code == 404
        assert ben.decide(run, request).status_code == 404
        assert ben.get("/runs").json() == {"runs": []}
        assert ann.get(f"/runs/{run}").json()["status"] == "input-required"

    def test_two_users_may_choose_the_same_request_id(self, server: Server, ann: Visitor) -> None:
        assert ann.begin(QUESTION) != Visitor(server).begin(QUESTION)

    def test_program_signs_in_with_a_bearer_token(self, server: Server) -> None:
        program = Visitor(server, cookies={})
        token = program.post("/session").json()["token"]
        program.http.cookies.clear()
        program.http.headers["Authorization"] = f"Bearer {token}"
        assert program.get("/runs").status_code == 200

    def test_cookie_is_out_of_reach_for_scripts_and_other_sites(self, server: Server) -> None:
        cookie = Visitor(server, cookies={}).post("/session").headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()


class TestRequests:
    def test_large_body_is_refused(self, ann: Visitor) -> None:
        large = {"request_id": "a-request", "prompt": "x" * 20_000}
        assert ann.post("/runs", large).status_code == 413

    def test_large_body_that_does_not_tell_its_size_is_refused(self, ann: Visitor) -> None:
        pieces = (b"x" * 1000 for _ in range(20))
        assert ann.http.post("/runs", content=pieces).status_code == 413

    @pytest.mark.parametrize(
        "body",
        [
            {"request_id": "a-request", "prompt": "x" * 2001},
            {"request_id": "a-request", "prompt": " "},
            {"request_id": "short", "prompt": "x"},
            {"request_id": "with/slash-and-more", "prompt": "x"},
            {"prompt": "x"},
        ],
    )
    def test_unfit_request_is_refused(self, ann: Visitor, body: Any) -> None:
        assert ann.post("/runs", body).status_code == 422
        assert ann.get("/runs").json() == {"runs": []}

    def test_other_host_name_is_refused(self, server: Server) -> None:
        assert Visitor(server, cookies={}).http.get("/", headers={"Host": "desk.example"}).status_code == 400


class TestManyRuns:
    @pytest.fixture
    def full(self, sue: Visitor) -> list[str]:
        """As many runs as the server takes at once; none of them ends by itself."""
        return [sue.begin("Hello") for _ in range(8)]

    def test_run_that_is_canceled_while_it_waits_never_begins(self, sue: Visitor, full: list[str]) -> None:
        waits = sue.begin("Hello")
        assert sue.get(f"/runs/{waits}").json()["status"] == "queued"
        sue.cancel(waits)
        assert [told.kind for told in sue.read(waits)] == ["snapshot"]
        assert sue.get(f"/runs/{waits}").json()["status"] == "canceled"

    def test_full_desk_refuses_requests_and_approvals_and_takes_them_later(self, slow: Server, sue: Visitor) -> None:
        ben = Visitor(slow)
        asks = ben.begin()
        request = ben.waiting(asks)
        runs = [sue.begin("Hello") for _ in range(8 + 16)]
        wanted = {"request_id": "one-too-many", "prompt": "Hello"}
        for refused in (ben.post("/runs", wanted), ben.decide(asks, request)):
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert "hands full" in refused.json()["detail"]
        assert ben.get(f"/runs/{asks}/approvals").json()["approvals"] == [request]
        sue.cancel(runs[0])
        taken = ben.post("/runs", wanted)
        assert taken.status_code == 202
        sue.clear()
        assert ben.decide(asks, request).status_code == 200
        assert answer(ben.read(asks, until=at_delta)) == "Order "
        ben.cancel(taken.json()["run_id"])
        ben.cancel(asks)


@dataclass(frozen=True)
class Left:
    """A server that was killed and started again, and what it had told of each run before."""

    server: Server
    ann: Visitor
    seen: dict[str, list[Any]]
    runs: dict[str, str]

    def whole(self, name: str, *, unseen: int = 0) -> list[Any]:
        """The run to its next rest; what was seen before and what comes now has to be what the store has."""
        run, seen = self.runs[name], self.seen[name]
        rest = self.ann.read(run, after=seen[-1]["sequence"])
        assert seen[unseen:] + activity(rest) == activity(self.ann.read(run))
        return rest


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Left]:
    with Server(tmp_path_factory.mktemp("killed"), NEVER) as server:
        ann = Visitor(server)
        runs = {"asks": ann.begin()}
        seen = {"asks": activity(ann.read(runs["asks"], until=at_snapshot))}
        others = [ann.begin("Hello") for _ in range(7)]
        runs["at work"] = ann.begin("Hello")
        seen["at work"] = activity(ann.read(runs["at work"], until=at_delta))
        runs["admitted"], runs["queued"] = ann.begin("Hello"), ann.begin("Hello")
        runs["canceled"] = others[0]
        ann.post(f"/runs/{runs['canceled']}/cancel")
        seen["admitted"] = activity(ann.read(runs["admitted"], until=at_delta))
        server.stop(signal.SIGKILL)
        with closing(sqlite3.connect(server.data / "desk.sqlite")) as file, file:
            row = (runs.setdefault("recorded", "run_recorded"), ann.user, "a-request", QUESTION)
            file.execute("INSERT INTO runs (run_id, user, request_id, prompt) VALUES (?, ?, ?, ?)", row)
        server.start()
        yield Left(server, ann, seen, runs)
        assert server.said == ""


class TestKilledServer:
    def test_run_that_waits_still_does_and_goes_on_with_the_next_numbers(self, left: Left) -> None:
        run, seen = left.runs["asks"], left.seen["asks"]
        resting = left.ann.read(run, after=seen[-1]["sequence"], until=at_snapshot)
        assert activity(resting) == []
        assert left.ann.decide(run, resting[-1].data["requests"][0]).status_code == 200
        assert activity(left.whole("asks"))[-1]["title"] == "Run completed"
        assert left.server.refunds == [("4711", "89.00")]

    def test_run_at_work_is_taken_up(self, left: Left) -> None:
        assert answer(left.whole("at work")).startswith("Which order is it?")

    def test_run_that_had_waited_for_its_turn_keeps_its_numbers(self, left: Left) -> None:
        titles = [line["title"] for line in left.seen["admitted"][:3]]
        assert titles == ["Waiting for a free place", "Admitted", "Run working"]
        left.whole("admitted", unseen=2)  # its waiting is not stored

    def test_run_that_waited_for_its_turn_begins(self, left: Left) -> None:
        assert answer(left.ann.read(left.runs["queued"])).startswith("Which order is it?")

    def test_recorded_run_that_never_began_begins(self, left: Left) -> None:
        assert left.ann.read(left.runs["recorded"])[-1].data["status"] == "completed"

    def test_canceled_run_is_not_taken_up_again(self, left: Left) -> None:
        assert left.ann.get(f"/runs/{left.runs['canceled']}").json()["status"] == "canceled"

    def test_session_outlives_the_server_and_its_token_is_not_stored(self, left: Left) -> None:
        assert left.ann.post("/session").json() == {"user": left.ann.user}
        token = left.ann.http.cookies["refund_desk"]
        files = [path.read_bytes() for path in left.server.data.iterdir()]
        assert files
        assert not [data for data in files if token.encode() in data]


def test_stopped_server_lets_runs_end_or_park_and_the_next_one_goes_on(tmp_path: Path) -> None:
    with Server(tmp_path, QUICK, "-c", PARKING) as server:
        ann = Visitor(server)
        ends, *parks = [ann.begin("Hello"), *(ann.begin(QUESTION) for _ in range(7))]
        queued = ann.begin(QUESTION)
        with ann.follow(parks[0]) as told:
            seen = activity([next(told) for _ in range(2)])
            server.stop(signal.SIGTERM)
            seen += activity(told)
        stored = SQLiteDurableStore(server.data / "runs.sqlite")
        found = {run: getattr(stored.get(run), "status", None) for run in (ends, *parks, queued)}
        assert found == {ends: "completed", **dict.fromkeys(parks, "input-required"), queued: None}
        server.start()
        rest = ann.read(parks[0], after=seen[-1]["sequence"])
        assert seen + activity(rest) == activity(ann.read(parks[0]))
        for run in (ends, *parks, queued):
            assert ann.read(run)[-1].data["status"] == "completed"
        assert server.said == ""


class TestPage:
    def test_page_may_run_its_own_scripts_only(self, server: Server) -> None:
        page = Visitor(server, cookies={}).get("/")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|https?:", page.text)

    def test_scripts_put_texts_in_as_texts(self) -> None:
        scripts = [path.read_text() for path in STATIC.glob("*.js")]
        assert len(scripts) == 3
        risky = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval"
        assert not [text for text in scripts if re.search(risky, text)]

    def test_static_files_are_served(self, server: Server) -> None:
        visitor = Visitor(server, cookies={})
        for path in STATIC.iterdir():
            assert visitor.get(f"/static/{path.name}").content == path.read_bytes()


class TestSettings:
    """What cannot be served is said at once, in words."""

    def refused(self, folder: Path, *words: str, **known: str) -> str:
        command = [sys.executable, "examples/fastapi_app.py", "--data", str(folder / "data"), *words]
        kept = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=ROOT, env={**kept, **known}, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (1, "")
        assert "Traceback" not in done.stderr
        return done.stderr

    def test_port_that_is_taken_is_named(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            assert f"Port {port} cannot be used" in self.refused(tmp_path, "--port", port)

    @pytest.mark.parametrize("name", ["nobody", "openai-compatible:clever"])
    def test_model_that_cannot_be_made_is_told_with_its_settings(self, tmp_path: Path, name: str) -> None:
        told = self.refused(tmp_path, "--port", "0", FASTAPI_APP_MODEL=name)
        assert "FASTAPI_APP_MODEL cannot be used" in told
        assert "FASTAPI_APP_BASE_URL" in told
        assert not (tmp_path / "data").exists()
