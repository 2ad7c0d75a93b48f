"""What all tests share: ``async def`` tests run in a fresh event loop, and hypothesis keeps no clock."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import settings

# A deadline would time tests on a shared machine. CI draws the same examples each time, so red means changed code.
settings.register_profile("protolink", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("protolink")


# Shells start what runs in the background with SIGINT ignored, and children inherit that; some tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an ``async def`` test to its end. Fixtures stay ordinary functions."""
    test = pyfuncitem.obj
    property_test = getattr(test, "hypothesis", None)
    if property_test is not None:
        # Each example gets a loop of its own; hypothesis itself calls only plain functions.
        if inspect.iscoroutinefunction(property_test.inner_test):
            property_test.inner_test = _blocking(property_test.inner_test)
        return None
    if not inspect.iscoroutinefunction(test):
        return None
    wanted = inspect.signature(test).parameters
    _blocking(test)(**{name: pyfuncitem.funcargs[name] for name in wanted})
    return True


@pytest.fixture
def simulated(record_property: Callable[[str, object], None]) -> Callable[[int], None]:
    """Counts runs that were crashed, robbed or disturbed on purpose; the number is printed in the end."""
    return lambda runs: record_property("simulated", runs)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """With several workers, too, whose reports bring their properties here."""
    passed = [report for report in terminalreporter.stats.get("passed", []) if report.when == "call"]
    runs = sum(int(value) for report in passed for name, value in report.user_properties if name == "simulated")
    if runs:
        terminalreporter.write_line(f"simulations: {runs} runs were crashed or disturbed; each came out as undisturbed")


def _blocking(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs), debug=False)

    return run
