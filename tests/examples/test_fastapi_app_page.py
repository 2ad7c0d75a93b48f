"""The page of the FastAPI example, in a real browser in front of its real server."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("sse_starlette")
pytest.importorskip("httpx2")

# A plain pytest does not look for packages at the root of the repository.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.examples.browser import Browser, found_browser
from tests.examples.refund_desk import NEVER, Server

CHROMIUM = found_browser()
if CHROMIUM is None:
    pytest.skip("no Chromium is installed; on Debian and Ubuntu: apt-get install chromium", allow_module_level=True)

CARD = "document.querySelector('#approve')"
DECIDE = """(async () => {
    const api = await import("/static/api.js");
    const id = location.hash.slice(1);
    const { requests } = await api.showRun(id);
    await api.decide(id, requests[0], true);
})()"""
ANSWER = "document.querySelector('#answer').textContent"
NUMBERS = "[...document.querySelectorAll('#activity .muted')].map((found) => found.textContent)"


def status(word: str) -> str:
    return f"document.querySelector('#status').textContent === '{word}'"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert CHROMIUM is not None
    with Browser(CHROMIUM, tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """A browser in which nobody is signed in."""
    chromium.forget()
    return chromium


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose model writes at once."""
    with Server(tmp_path_factory.mktemp("quick")) as found:
        yield found
        assert found.said == ""


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose model writes the first word of an answer and then no other."""
    with Server(tmp_path_factory.mktemp("slow"), NEVER) as found:
        yield found
        assert found.said == ""


def start(browser: Browser, server: Server, prompt: str | None = None) -> None:
    """Open the page, sign in as it does, and start a run."""
    browser.open(server.url)
    browser.until("document.querySelector('#user').textContent")
    if prompt is not None:
        browser.run(f"document.querySelector('#prompt').value = {prompt!r}")
    browser.click("#ask button")


def test_run_with_an_approval_from_the_first_word_to_the_last(browser: Browser, server: Server) -> None:
    paid = server.refunds
    start(browser, server)
    browser.until(CARD)
    card = browser.text("#requests")
    assert "Refund 89.00 EUR for order 4711, an oak desk lamp." in card
    assert "[REDACTED]" in card
    assert browser.text("#status") == "waits for you"
    assert server.refunds == paid
    browser.click("#approve")
    browser.until(status("completed"))
    browser.until("document.querySelectorAll('#runs .completed').length === 1")
    assert "I have paid 89.00 EUR back" in browser.text("#answer")
    assert not browser.run(CARD + " !== null")
    lines = browser.text("#activity").splitlines()
    assert [line for line in lines if line.startswith("refund")] == [
        "refund requested",
        "refund started",
        "refund completed",
    ]
    assert server.refunds == [*paid, ("4711", "89.00")]
    assert "tok_" not in browser.run("document.documentElement.outerHTML")
    assert browser.problems == []


def test_denied_run_ends_and_says_so(browser: Browser, server: Server) -> None:
    paid = server.refunds
    start(browser, server)
    browser.until(CARD)
    browser.click("#deny")
    browser.until(status("failed"))
    assert server.refunds == paid
    assert browser.problems == []


def test_page_goes_on_by_itself_when_the_server_was_killed_and_comes_back(browser: Browser, server: Server) -> None:
    paid = server.refunds
    start(browser, server)
    browser.until(CARD)
    before = browser.run(NUMBERS)
    server.stop(signal.SIGKILL)
    browser.until("document.body.classList.contains('away')")
    server.start()
    browser.until("!document.body.classList.contains('away')")
    browser.until(CARD)
    browser.click("#approve")
    browser.until(status("completed"))
    after = browser.run(NUMBERS)
    assert after[: len(before)] == before
    assert after == list(dict.fromkeys(after))
    assert after == sorted(after, key=lambda number: int(number[1:]))
    assert server.refunds == [*paid, ("4711", "89.00")]


def test_reloaded_page_shows_the_run_again(browser: Browser, server: Server) -> None:
    start(browser, server)
    browser.until(CARD)
    before = browser.run(NUMBERS)
    browser.reload()
    browser.until(CARD)
    browser.until(f"{NUMBERS}.length === {len(before)}")
    assert browser.run(NUMBERS) == before


def test_answer_grows_on_the_page_and_cancel_ends_it(browser: Browser, slow: Server) -> None:
    start(browser, slow, "Hello")
    browser.until(ANSWER + " === 'Which '")
    browser.click("#cancel")
    browser.until(status("canceled"))
    browser.until("document.querySelector('#cancel').hidden")
    assert browser.problems == []


def test_answer_grows_after_an_approval_too(browser: Browser, slow: Server) -> None:
    start(browser, slow)
    browser.until(CARD)
    browser.click("#approve")
    browser.until(ANSWER + " === 'Order '")
    browser.until("!" + CARD)
    assert browser.text("#status") == "at work"
    assert browser.problems == []


def test_text_stays_text(browser: Browser, server: Server) -> None:
    evil = "<img src=x onerror=\"document.title='evil'\"><b>Hello</b>"
    start(browser, server, evil)
    browser.until(status("completed"))
    assert browser.text("#title") == evil
    assert browser.run("document.querySelectorAll('#run img, #run b, #runs img, #runs b').length") == 0
    assert browser.run("document.title") == "Refund desk"


def test_second_tab_sees_that_the_first_one_has_decided(browser: Browser, slow: Server) -> None:
    start(browser, slow)
    browser.until(CARD)
    browser.run(DECIDE)
    browser.until("!" + CARD)
    browser.until(ANSWER + " === 'Order '")
    browser.until("document.querySelector('#runs .working')")
    assert browser.problems == []


def test_second_tab_that_decides_too_late_is_told(browser: Browser, server: Server) -> None:
    paid = server.refunds
    start(browser, server)
    browser.until(CARD)
    # Another tab of the same person: the decision comes by another way and this page's buttons are pressed at once.
    browser.run(
        f"""(async () => {{
            const button = document.querySelector("#deny");
            await {DECIDE};
            button.click();
        }})()"""
    )
    browser.until("!document.querySelector('#notice').hidden")
    assert "somebody may have decided already" in browser.text("#notice")
    browser.until(status("completed"))
    assert server.refunds == [*paid, ("4711", "89.00")]
