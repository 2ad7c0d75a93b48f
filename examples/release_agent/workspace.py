"""The repository that the agent works on: a real one, made in a folder of its own.

Git is run without the configuration of machine and user, so that hooks, signing or a missing identity do not matter.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

IDENTITY = {"user.name": "Release Agent", "user.email": "release-agent@example.invalid"}
VERSION_FILE = "src/tideline/_version.py"
CHANGELOG = "CHANGELOG.md"

# What was committed before the agent came: message, then the files that the commit writes.
_HISTORY: list[tuple[str, dict[str, str]]] = [
    (
        "Predict the next high tide",
        {
            VERSION_FILE: '__version__ = "1.2.0"\n',
            "src/tideline/tides.py": "PERIOD = 12.42\n\n\ndef next_high(last: float) -> float:\n"
            "    return last + PERIOD\n",
            "tests/test_tides.py": "def test_next_high_is_a_period_later(): ...\n\n\ndef test_period_is_lunar(): ...\n",
            CHANGELOG: "# Changelog\n\n## 1.2.0\n\n- Predict the next high tide\n",
        },
    ),
    (
        "Add low tides",
        {
            "src/tideline/lows.py": "from .tides import PERIOD\n\n\ndef next_low(last: float) -> float:\n"
            "    return last + PERIOD\n",
            "tests/test_lows.py": "def test_low_follows_high(): ...\n",
        },
    ),
    ("Fix rounding at midnight", {"tests/test_midnight.py": "def test_midnight_is_not_rounded_up(): ...\n"}),
    ("Read stations from a file", {"src/tideline/stations.py": "def read(path: str) -> list[str]:\n    return []\n"}),
]


class GitError(RuntimeError):
    """Git said no. The text has the command and git's own words."""


class Workspace:
    """One git repository. ``root`` is its folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def git(self, *arguments: str) -> str:
        """Run git here and return what it printed. GitError when it fails or is not installed."""
        program = shutil.which("git")
        if program is None:
            raise GitError("git is not installed, or not on PATH")
        environment = _environment(self.root)
        done = subprocess.run([program, *arguments], cwd=self.root, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise GitError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout.rstrip("\n")

    def create(self) -> None:
        """Make the repository with its first four commits and the tag of the last release."""
        self.root.mkdir(parents=True)
        self.git("init", "--quiet")
        self.git("symbolic-ref", "HEAD", "refs/heads/main")
        for key, value in IDENTITY.items():
            self.git("config", key, value)
        for message, files in _HISTORY:
            for name, text in files.items():
                self.write(name, text)
            self.git("add", "--all")
            self.git("commit", "--quiet", "--message", message)
        self.git("tag", "v1.2.0", "HEAD~3")

    def write(self, name: str, text: str) -> None:
        """Write one file, its folders included."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def read(self, name: str) -> str:
        """The text of one file."""
        return (self.root / name).read_text(encoding="utf-8")

    @property
    def head(self) -> str:
        """The full id of the newest commit."""
        return self.git("rev-parse", "HEAD")

    @property
    def version(self) -> str:
        """What the version file says."""
        return self.read(VERSION_FILE).split('"')[1]

    def subjects(self, since: str) -> list[str]:
        """The first lines of the commits after a tag, the oldest first."""
        return self.git("log", "--reverse", "--format=%s", f"{since}..HEAD").splitlines()

    def tag(self, name: str) -> str | None:
        """The commit that a tag names, or None when there is no such tag."""
        return self.git("for-each-ref", "--format=%(objectname)", f"refs/tags/{name}") or None


def _environment(home: Path) -> dict[str, str]:
    """Ours, without what would lead git to another repository or to the configuration of somebody."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    nowhere = {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    return {**kept, **nowhere, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
