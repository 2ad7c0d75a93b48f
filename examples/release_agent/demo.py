"""``make demo``: the story of one release, in a process for each step.

This is only the conductor: it makes the folder, starts the steps of ``steps`` one after the other and sees how they
end. RELEASE_DEMO_MODEL and RELEASE_DEMO_BASE_URL let a model take the decisions (see ``model``). A Ctrl-C kills the
step under way, as any crash would; what is left is the folder with the store.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "examples.release_agent"
USAGE = f"usage: python -m {PACKAGE}.demo [--by-hand]"

KILLED = -signal.SIGKILL
#: A step ends so when its run went elsewhere; it has told where.
ASTRAY = 3
STORY = {"start": 0, "answer": 0, "approve": KILLED, "restart": 0, "settle": 0, "finish": 0}
BY_HAND = {"start": 0, "hand_over": 0}


class Stopped(Exception):
    """The story cannot go on. The text says why, and ``code`` is the exit code."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


def main(arguments: list[str]) -> int:
    """Tell the whole story; with ``--by-hand`` its beginning, the rest being the reader's."""
    if arguments not in ([], ["--by-hand"]):
        print(USAGE, file=sys.stderr)
        return 2
    # Stopped by make or a supervisor, it ends as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    made: list[Path] = []
    try:
        check_installed()
        check_model()
        made.append(make_folder())
        for name, ending in (BY_HAND if arguments else STORY).items():
            take(name, made[0], ending)
    except Stopped as stop:
        print(f"\n{stop}", file=sys.stderr)
        return stop.code
    except KeyboardInterrupt:
        kept = f" What was done so far is in {made[0]}." if made else ""
        print(f"\nStopped.{kept} The next demonstration starts anew.", file=sys.stderr)
        return 130
    return 0


def check_installed() -> None:
    """Stopped, naming what is missing, before anything is made."""
    if shutil.which("git") is None:
        raise Stopped("The demonstration works on a git repository, and git is not installed (or not on PATH).", 2)
    for package in ("protolink", "rich", "typer"):
        if importlib.util.find_spec(package) is None:
            raise Stopped(f"The package '{package}' is not installed; make demo installs what is needed.", 2)


def check_model() -> None:
    """Stopped, saying which variable is wrong, before anything is made. Nothing is connected."""
    # Loaded here, because it needs what check_installed looks for.
    try:
        chosen = importlib.import_module(f"{PACKAGE}.model").chosen_model()
    except ValueError as error:
        raise Stopped(str(error), 2) from error
    if chosen is not None and importlib.util.find_spec("openai") is None:
        raise Stopped("A model needs the package 'openai', which is not installed: pip install protolink[openai]", 2)


def make_folder() -> Path:
    """A new folder of this demonstration alone. Stopped where none can be made."""
    try:
        return Path(tempfile.mkdtemp(prefix="protolink-demo-"))
    except OSError as error:
        raise Stopped(f"No folder can be made for the demonstration: {error}. Set TMPDIR to a writable one.") from error


def take(name: str, folder: Path, ending: int) -> None:
    """Take one step in a process of its own. Stopped unless it ends as it should.

    The process has a session of its own, so that a Ctrl-C reaches this one alone, which then kills the other.
    """
    columns = min(100, shutil.get_terminal_size((100, 24)).columns)
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": str(columns)}
    words = [sys.executable, "-m", f"{PACKAGE}.steps", name, str(folder)]
    with subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            found = process.wait()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):  # it may just have ended by itself
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    if found == ASTRAY:
        raise Stopped(f"The demonstration ends here, as told above. The folder stays: {folder}")
    if found != ending:
        raise Stopped(f"Step '{name}' ended with exit code {found}, not {ending}. The folder stays: {folder}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
