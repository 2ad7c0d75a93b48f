"""The HTTP face of the desk: who may do what, in which sizes, and the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from anyio import Event
from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field
from sse_starlette import EventSourceResponse, JSONServerSentEvent
from starlette.middleware.trustedhost import TrustedHostMiddleware

from protolink import AdmissionError, DurableExecutionError, StoreUnavailableError, UncertainExecutionError

from .agent import PACE, application
from .desk import Desk
from .headers import PageHeaders
from .messages import until
from .records import Record, Records

STATIC = Path(__file__).parent / "static"
COOKIE = "refund_desk"
MONTH = 30 * 24 * 3600

#: No request of this application is larger.
MAX_BODY_BYTES = 16 * 1024

#: Milliseconds after which a browser connects again.
RETRY = 1000

#: What a client is told, in words of ours: what an error says is for programmers. The closest class counts.
REFUSALS = {
    AdmissionError: (503, "The desk has its hands full; send the same request again in a moment"),
    StoreUnavailableError: (503, "The desk cannot open its books; send the same request again in a moment"),
    UncertainExecutionError: (409, "Nobody knows whether its last action happened; an operator has to look"),
    DurableExecutionError: (409, "This is not what waits now; somebody may have decided already. Look once more"),
}

router = APIRouter()


def create_app(folder: Path, *, pace: float = PACE) -> FastAPI:
    """The application over the databases of a folder."""
    records = Records(folder / "desk.sqlite")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with Desk(application(folder, pace=pace), records) as app.state.desk:
            yield
        records.close()

    # The generated pages would load scripts from elsewhere.
    bare = {"docs_url": None, "redoc_url": None, "openapi_url": None}
    app = FastAPI(title="Refund desk", lifespan=lifespan, max_body_size=MAX_BODY_BYTES, **bare)
    app.state.records = records
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=STATIC))
    for kind, (status, detail) in REFUSALS.items():
        app.add_exception_handler(kind, partial(refused, status, detail))
    app.add_middleware(PageHeaders)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    return app


async def refused(status: int, detail: str, request: Request, error: Exception) -> JSONResponse:
    """Nothing has changed. 409: look at the run again. 503: send the same request again."""
    return JSONResponse({"detail": detail}, status, {"Retry-After": "1"} if status == 503 else None)


# ---------------------------------------------------------------------------------------------------- who is it


def the_records(request: Request) -> Records:
    return request.app.state.records


def the_desk(request: Request) -> Desk:
    return request.app.state.desk


def the_user(request: Request, records: Annotated[Records, Depends(the_records)]) -> str:
    """The user of the cookie or of the bearer token. An application puts its own sign-in here."""
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    token = bearer if scheme.lower() == "bearer" else request.cookies.get(COOKIE, "")
    user = records.user_of(token)
    if user is None:
        raise HTTPException(401, "Sign in first: POST /session", {"WWW-Authenticate": "Bearer"})
    return user


def the_run(
    run_id: str, user: Annotated[str, Depends(the_user)], records: Annotated[Records, Depends(the_records)]
) -> Record:
    """The user's run. Somebody else's does not exist."""
    found = records.run(run_id, user)
    if found is None:
        raise HTTPException(404, "There is no such run")
    return found


User = Annotated[str, Depends(the_user)]
Run = Annotated[Record, Depends(the_run)]
TheDesk = Annotated[Desk, Depends(the_desk)]
TheRecords = Annotated[Records, Depends(the_records)]

# ---------------------------------------------------------------------------------------------------- what it may do


class NewRun(BaseModel):
    """``request_id`` is made by the client; sent again, it gives the same run."""

    request_id: str = Field(pattern=r"^[A-Za-z0-9_-]{8,64}$")
    prompt: str = Field(min_length=1, max_length=2000, pattern=r"\S")


class Decision(BaseModel):
    """``fingerprint`` is that of the action as it was displayed."""

    fingerprint: str = Field(max_length=128)
    approved: bool


@router.get("/")
def page() -> FileResponse:
    return FileResponse(STATIC / "index.html")


@router.post("/session")
def sign_in(request: Request, response: Response, records: TheRecords) -> dict[str, str]:
    """Who the caller is; a caller without a token becomes a new user. ``token`` is told once."""
    known = records.user_of(request.cookies.get(COOKIE, ""))
    if known is not None:
        return {"user": known}
    user, token = records.add_user()
    # Behind HTTPS, add secure=True.
    response.set_cookie(COOKIE, token, max_age=MONTH, httponly=True, samesite="strict")
    return {"user": user, "token": token}


@router.get("/runs")
async def list_runs(user: User, desk: TheDesk, records: TheRecords) -> dict[str, Any]:
    found = await asyncio.to_thread(records.runs, user)
    return {"runs": [await desk.snapshot(record) for record in found]}


@router.post("/runs", status_code=202)
async def begin_run(wanted: NewRun, user: User, desk: TheDesk, records: TheRecords) -> dict[str, Any]:
    """Begin a run. The record is written first: whatever happens then, the run begins, and once only."""
    record, new = await asyncio.to_thread(records.add_run, user, wanted.request_id, wanted.prompt)
    if record.prompt != wanted.prompt:
        raise HTTPException(409, "This request_id belongs to another request; make a new one")
    if new:
        try:
            desk.begin(record)
        except AdmissionError:
            await asyncio.to_thread(records.remove, record.run_id)
            raise
    return await desk.snapshot(record)


@router.get("/runs/{run_id}")
async def show_run(run: Run, desk: TheDesk) -> dict[str, Any]:
    return await desk.snapshot(run)


@router.get("/runs/{run_id}/events")
async def follow_run(
    run: Run,
    desk: TheDesk,
    last_event_id: Annotated[int | None, Header(ge=0)] = None,
    after: Annotated[int, Query(ge=0)] = 0,
) -> EventSourceResponse:
    """The run as server-sent events, on from ``Last-Event-ID``, which browsers send by themselves."""

    stop = Event()
    told = desk.follow(run, after if last_event_id is None else last_event_id)

    async def events() -> AsyncIterator[JSONServerSentEvent]:
        async with aclosing(until(stop, told)) as messages:
            async for message in messages:
                number = None if message.number is None else str(message.number)
                yield JSONServerSentEvent(message.data, event=message.kind, id=number, retry=RETRY)

    return EventSourceResponse(events(), shutdown_event=stop, shutdown_grace_period=1)


@router.post("/runs/{run_id}/cancel")
async def cancel_run(run: Run, desk: TheDesk) -> dict[str, Any]:
    await desk.cancel(run)
    return await desk.snapshot(run)


@router.post("/runs/{run_id}/retry")
async def retry_run(run: Run, desk: TheDesk) -> dict[str, Any]:
    await desk.retry(run)
    return await desk.snapshot(run)


@router.get("/runs/{run_id}/approvals")
async def list_approvals(run: Run, desk: TheDesk) -> dict[str, Any]:
    waiting = (await desk.snapshot(run))["requests"]
    return {"approvals": [request for request in waiting if request["kind"] == "approval"]}


@router.post("/runs/{run_id}/approvals/{request_id}")
async def decide(run: Run, request_id: str, decision: Decision, desk: TheDesk) -> dict[str, Any]:
    """Approve or deny. 409 tells the second one that somebody was faster."""
    await desk.decide(run, request_id, decision.fingerprint, decision.approved)
    return await desk.snapshot(run)
