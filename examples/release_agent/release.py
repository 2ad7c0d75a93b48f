"""The one tool with an effect: version file, changelog, commit and tag, shown exactly before it happens."""

from __future__ import annotations

import difflib
import os
import re
import signal
from collections.abc import Mapping
from typing import Any

from protolink import Artifact, Part, ProbeFinding, RunAction, RunContext, ToolExecution, ToolRejectedError
from protolink.tools.prepared import PreparedTool

from .workspace import CHANGELOG, VERSION_FILE, Workspace

#: Set to "after-commit", the process kills itself with SIGKILL when the commit is made and the tag is not.
CRASH = "RELEASE_DEMO_CRASH"

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def release(version: str) -> dict[str, str]:
    """Release a version: write version file and changelog, commit them and tag the commit."""
    raise AssertionError("only its name, its docstring and its parameters are used")


def release_tool(workspace: Workspace) -> PreparedTool:
    """The tool ``release(version)``. Its result is ``{"version", "commit", "tag"}``."""
    return PreparedTool(
        release,
        prepare=lambda arguments, context: prepare(workspace, arguments, context),
        execute=lambda execution: execute(workspace, execution),
        capabilities=["git.write"],
        probe=lambda action: probe(workspace, action),
    )


def prepare(workspace: Workspace, arguments: Mapping[str, Any], context: RunContext) -> RunAction:
    """Everything that would be written, and on which commit. Changes nothing, and gives the same when asked again."""
    version = arguments["version"]
    _check(workspace, version)
    files = _files(workspace, version)
    action = RunAction(
        kind="tool.call",
        name="release",
        payload={"arguments": dict(arguments), "base": workspace.head, "tag": f"v{version}", "files": files},
        description=f"Release {version}: write {len(files)} files, commit them, tag the commit v{version}",
    )
    preview = Artifact(kind="preview", name="release.diff", media_type="text/x-diff")
    preview.add_part(Part.text("".join(_diff(name, workspace.read(name), text) for name, text in files.items())))
    return action.with_artifacts([preview])


def execute(workspace: Workspace, execution: ToolExecution) -> dict[str, str]:
    """Do what was approved, if the repository is still the one that was looked at."""
    planned = execution.authorization.action.payload
    if workspace.head != planned["base"]:
        raise ToolRejectedError("The repository has moved since the release was prepared; nothing changed.")
    for name, text in planned["files"].items():
        workspace.write(name, text)
    workspace.git("add", "--", *planned["files"])
    workspace.git("commit", "--quiet", "--message", f"Release {planned['arguments']['version']}")
    if os.environ.get(CRASH) == "after-commit":
        os.kill(os.getpid(), signal.SIGKILL)
    workspace.git("tag", planned["tag"])
    return {"version": planned["arguments"]["version"], "commit": workspace.head, "tag": planned["tag"]}


def probe(workspace: Workspace, action: RunAction) -> ProbeFinding:
    """What the repository shows of a release that left no receipt. It only looks, and proves nothing about the rest."""
    version, tag = action.payload["arguments"]["version"], action.payload["tag"]
    made = workspace.git("log", "-1", "--format=%s") == f"Release {version}"
    tagged = workspace.tag(tag) is not None
    if made and tagged:
        return ProbeFinding.done({"version": version, "commit": workspace.head, "tag": tag})
    if made or tagged:
        seen = f"commit {workspace.head[:7]}, no tag {tag}" if made else f"the tag {tag}, and no commit"
        return ProbeFinding.unknown(f"{seen}: a part of it")
    return ProbeFinding.absent(f"neither a commit nor the tag {tag}")


def _check(workspace: Workspace, version: str) -> None:
    """ToolRejectedError for a version that cannot be released; the model may propose another."""
    wanted, present = _VERSION.fullmatch(version), _VERSION.fullmatch(workspace.version)
    if wanted is None or present is None:
        raise ToolRejectedError(f"{version!r} is no version such as 1.3.0; nothing changed.", code="bad_version")
    if tuple(map(int, wanted.groups())) <= tuple(map(int, present.groups())):
        raise ToolRejectedError(f"{version} is not above {present[0]}; nothing changed.", code="old_version")
    if workspace.git("status", "--porcelain"):
        raise ToolRejectedError("There are uncommitted changes; nothing changed.", code="not_clean")


def _files(workspace: Workspace, version: str) -> dict[str, str]:
    present = workspace.version
    news = "\n".join(f"- {subject}" for subject in workspace.subjects(f"v{present}"))
    log = workspace.read(CHANGELOG)
    return {
        VERSION_FILE: workspace.read(VERSION_FILE).replace(present, version),
        CHANGELOG: log.replace(f"## {present}", f"## {version}\n\n{news}\n\n## {present}", 1),
    }


def _diff(name: str, old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{name}", f"b/{name}", n=1)
    return "".join(lines)
