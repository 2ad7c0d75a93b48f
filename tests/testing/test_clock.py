from __future__ import annotations

import pytest

from protolink.testing import FakeClock


def test_time_stands_still() -> None:
    clock = FakeClock(100.0)
    assert [clock.now(), clock.now()] == [100.0, 100.0]
    clock.advance(2.5)
    assert clock.now() == 102.5


async def test_sleeper_jumps_and_never_goes_back() -> None:
    clock = FakeClock(100.0)
    await clock.sleep_until(160.0)
    await clock.sleep_until(120.0)
    assert clock.now() == 160.0


def test_timers_fire_in_order_of_time() -> None:
    clock, fired = FakeClock(100.0), list[str]()
    clock.call_at(103.0, lambda: fired.append("late"))
    clock.call_at(101.0, lambda: fired.append("early"))
    forget = clock.call_at(102.0, lambda: fired.append("never"))
    forget()
    clock.advance(2.0)
    assert fired == ["early"]
    clock.advance(2.0)
    clock.advance(2.0)
    assert fired == ["early", "late"]


def test_no_step_back() -> None:
    with pytest.raises(ValueError, match="back"):
        FakeClock().advance(-1)
