"""An agent behind a web page: runs, live streams, approvals and restarts, served by FastAPI.

Run it at the root of the repository: .venv/bin/python examples/fastapi_app.py
Then open the address that it prints. It needs no key and no network; `--help` lists what can be set.
"""

from __future__ import annotations

import argparse
import os
import socket
from pathlib import Path

import uvicorn
from fastapi_app.agent import PACE, chosen_model
from fastapi_app.web import create_app

DATA = Path("fastapi_app_data")

#: Seconds that requests have to end when the server stops. Then the runs have their own time, of the desk.
REQUESTS_END = 5


MODEL = (
    "A model of yours decides in place of the script with FASTAPI_APP_MODEL=openai-compatible:NAME, "
    "FASTAPI_APP_BASE_URL and, where it needs one, FASTAPI_APP_API_KEY in the environment."
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Serve the refund desk on this machine.", epilog=MODEL)
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (default: 8000)")
    parser.add_argument("--data", type=Path, default=DATA, help=f"folder of its databases (default: {DATA})")
    parser.add_argument("--pace", type=float, default=PACE, help=f"the scripted model's seconds a word ({PACE})")
    return parser.parse_args()


def usable_model() -> None:
    """SystemExit for settings that make no model: said now, in one line, and not by the first run."""
    try:
        chosen_model()
    except (ValueError, TypeError, ImportError) as error:
        raise SystemExit(f"FASTAPI_APP_MODEL cannot be used with the settings it has: {error}\n{MODEL}") from None


def listener(port: int) -> socket.socket:
    """A socket of this machine alone. SystemExit when the port is not free."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else error
        raise SystemExit(f"Port {port} cannot be used ({why}); name another one with --port") from None


def main() -> None:
    """Serve until SIGINT or SIGTERM; the next start goes on with the runs that have not ended."""
    given = arguments()
    usable_model()
    given.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    app = create_app(given.data, pace=given.pace)
    with listener(given.port) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=REQUESTS_END)
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
