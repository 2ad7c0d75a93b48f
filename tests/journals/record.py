"""Records the golden journals of the current schema version: ``python -m tests.journals.record``.

Recorded once for each version and never again: an existing file is left alone. A journal that no longer folds to its
summary is a broken promise to everybody who has stored runs; mend the code, not the file.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.journals.summary import summary
from tests.sim.scenes import LONG, SCENES, TREE

from protolink.engine.fold import fold
from protolink.journal import SCHEMA_VERSION, codec
from protolink.testing import Crash
from protolink.testing.trial import Loop, Subject, Trial

FOLDER = Path(__file__).parent / f"v{SCHEMA_VERSION}"

#: File name, scene, where the first process dies, and after how many steps the recording stops.
JOURNALS = (
    ("tool", "one tool", None, 99),
    ("approved", "two parts", None, 99),
    ("waiting", "four calls, two to approve", None, 1),
    ("refused", "refused by a person", None, 99),
    ("edited", "edited before approval", None, 99),
    ("child_asks", "paused two levels below", None, 99),
    ("worker_tool", "worker tool", None, 99),
    ("slices", "slices below", None, 99),
    ("slice_waits", "slices", None, 1),
    ("retry", "provider away for long", None, 99),
    ("uncertain_reconciled", "unknown outcome below", None, 99),
    ("cut_off", "one tool", Crash(3, after=True), 1),
    ("crash_reconciled", "one tool", Crash(3, after=True), 99),
    ("canceled", "canceled while it waits", None, 99),
    ("expired", "too late to approve", None, 99),
    ("changed", "changed after it was shown", None, 99),
    ("corrected", "corrections", None, 99),
    ("misspoken", "misspoken and repeated", None, 99),
    ("beyond_budget", "children beyond the budget", None, 99),
    ("streamed", "streamed", None, 99),
    ("everything", LONG, None, 99),
    ("unchanged", "rejected by its executor", Crash(3, after=True), 99),
    ("tree", TREE, None, 99),
)


def record(name: str, scene_name: str, crash: Crash | None, steps: int) -> None:
    """Write the journal, one fact a line, and beside it what it folds to."""
    scene = SCENES[scene_name]
    world = scene.world
    subject = Subject(scene.make_agent, scene.make_task, scene.respond(world), world.reconcile, world.effects)
    trial = Trial(subject, [[crash]] if crash else [])
    with Loop() as loop:
        loop.run(trial.to_its_end(steps))
    records = trial.records()
    lines = b"\n".join(map(codec.encode, records)) + b"\n"
    (FOLDER / f"{name}.jsonl").write_bytes(lines)
    text = json.dumps(summary(fold(records)), indent=1, sort_keys=True, ensure_ascii=False)
    (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for entry in JOURNALS:
        if not (FOLDER / f"{entry[0]}.jsonl").exists():
            record(*entry)
