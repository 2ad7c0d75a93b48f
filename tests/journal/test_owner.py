from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from protolink.journal import owner
from protolink.journal.lease import Lease, LeaseWatch
from protolink.journal.owner import Owner

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="identities are compared on Linux only")

REPORT = "from protolink.journal import owner; print(owner.current().to_text())"


def of_a_finished_process() -> Owner:
    done = subprocess.run([sys.executable, "-c", REPORT], capture_output=True, text=True, check=True)
    found = Owner.from_text(done.stdout)
    assert found is not None
    return found


@linux
def test_this_process_is_alive() -> None:
    assert not owner.dead(owner.current())


@linux
def test_a_process_that_ended_is_dead() -> None:
    assert owner.dead(of_a_finished_process())


@linux
def test_a_used_process_id_is_not_taken_for_its_former_owner() -> None:
    here = owner.current()
    assert here.start is not None
    assert owner.dead(replace(here, start=here.start - 1))


@linux
@pytest.mark.parametrize(
    "change",
    [{"boot": "another"}, {"space": "pid:[1]"}, {"boot": None}, {"space": None}, {"start": None}],
    ids=["boot", "namespace", "no boot", "no namespace", "no start"],
)
def test_what_cannot_be_compared_is_not_dead(change: dict[str, str | None]) -> None:
    assert not owner.dead(replace(of_a_finished_process(), **change))  # type: ignore[arg-type]


def test_identities_are_read_back() -> None:
    here = owner.current()
    assert Owner.from_text(here.to_text()) == here


@pytest.mark.parametrize("text", [None, "", "no json", "[]", "{}"])
def test_an_unreadable_identity_leaves_it_to_the_lease(text: str | None) -> None:
    assert Owner.from_text(text) is None


class Steady:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_lease_is_over_when_its_time_has_passed() -> None:
    watch = LeaseWatch(Steady())
    lease = Lease(1, 0, None, expires=160.0, seconds=60.0)
    assert watch.held_until("r", lease, now=159.0) == 160.0
    assert watch.held_until("r", lease, now=160.0) is None


def test_an_end_beyond_one_lease_is_not_believed() -> None:
    steady = Steady()
    watch = LeaseWatch(steady)
    lease = Lease(1, 0, None, expires=99_999.0, seconds=60.0)
    assert watch.held_until("r", lease, now=100.0) == 160.0
    steady.now = 59.0
    assert watch.held_until("r", lease, now=100.0) == 101.0
    steady.now = 60.0
    assert watch.held_until("r", lease, now=100.0) is None


def test_a_heartbeat_that_moves_keeps_the_lease() -> None:
    steady = Steady()
    watch = LeaseWatch(steady)
    assert watch.held_until("r", Lease(1, 5, None, 99_999.0, 60.0), now=100.0) is not None
    steady.now = 70.0
    assert watch.held_until("r", Lease(1, 6, None, 99_999.0, 60.0), now=100.0) == 160.0


@linux
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_is_somebody_else() -> None:
    here = owner.current()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, owner.current().to_text().encode())
        os._exit(0)
    os.waitpid(child, 0)
    found = Owner.from_text(os.read(reading, 4096).decode())
    os.close(reading)
    os.close(writing)
    assert found is not None
    assert (found.pid, here.pid) == (child, os.getpid())
    assert (found.start, found.boot) != (here.start, None)
    assert owner.dead(found)
