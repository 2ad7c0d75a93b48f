"""Every Python block of the documentation runs, page by page, and prints what the page says.

A page's blocks share one namespace and one empty working directory, as if a reader typed them in order. ``await`` may
stand at the top level. A block fenced as ``python no-run`` is shown only. A ``text`` fence directly below a block is
its exact output.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if path.is_file()]
FENCE = re.compile(
    r"^(?P<indent>[ ]*)(?P<ticks>`{3,})(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=indent)(?P=ticks)[ ]*$",
    flags=re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """One block to run. ``line`` is the page's line of its first statement; ``output`` is None where none is shown."""

    line: int
    code: str
    output: str | None


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page that are to be run, in order."""
    fences = list(FENCE.finditer(text))
    for fence, below in zip_longest(fences, fences[1:]):
        words = fence["info"].split()
        if words[:1] != ["python"] or "no-run" in words:
            continue
        shown = below is not None and below["info"].strip() == "text" and not text[fence.end() : below.start()].strip()
        yield Block(
            line=text.count("\n", 0, fence.start("body")) + 1,
            code=textwrap.dedent(fence["body"]),
            output=textwrap.dedent(below["body"]) if below is not None and shown else None,
        )


def run_page(page: Path, text: str) -> None:
    """Run the page's blocks; AssertionError names the page, the line and the reason."""
    # A real module, because dataclasses and pydantic look annotations up by the module's name.
    module = types.ModuleType(f"docs_page_{page.stem.replace('-', '_')}")
    sys.modules[module.__name__] = module
    try:
        with asyncio.Runner(debug=False) as runner:
            for block in blocks(text):
                printed = _run(block, page, module, runner)
                _compare(block, page, printed)
    finally:
        del sys.modules[module.__name__]


def _run(block: Block, page: Path, module: types.ModuleType, runner: asyncio.Runner) -> str:
    printed = io.StringIO()
    # The empty lines above make a traceback show the line of the page itself.
    source = "\n" * (block.line - 1) + block.code
    try:
        code = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        with contextlib.redirect_stdout(printed):
            if code.co_flags & inspect.CO_COROUTINE:
                runner.run(eval(code, module.__dict__))
            else:
                exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        said = f"\nIt had printed:\n{printed.getvalue()}" if printed.getvalue() else ""
        raise AssertionError(
            f"{page.name}, block at line {block.line}: {type(error).__name__}: {error}{said}"
        ) from error
    return printed.getvalue()


def _compare(block: Block, page: Path, printed: str) -> None:
    if block.output is None or printed.rstrip() == block.output.rstrip():
        return
    raise AssertionError(
        f"{page.name}, block at line {block.line} prints something else than the page shows.\n"
        f"--- the page shows\n{block.output.rstrip()}\n--- it prints\n{printed.rstrip()}"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, page.read_text(encoding="utf-8"))


def _page(*fences: tuple[str, str]) -> str:
    return "# Page\n\n" + "\n\n".join(f"```{info}\n{body}\n```" for info, body in fences)


def test_blocks_share_a_namespace_and_await() -> None:
    text = _page(
        ("python", "import asyncio\nlock = asyncio.Lock()"),
        ("python", "async with lock:\n    print(await asyncio.sleep(0, 'held'))"),
        ("text", "held"),
        ("python", "async def main():\n    print(lock.locked())\n\nasyncio.run(main())"),
        ("text", "False"),
    )
    run_page(Path("page.md"), text)


def test_page_without_blocks_is_fine() -> None:
    assert list(blocks("# Only prose\n")) == []


def test_no_run_blocks_are_skipped() -> None:
    assert list(blocks(_page(("python no-run", "raise SystemExit"), ("bash", "make"), ("text", "out")))) == []


def test_indented_blocks_are_found() -> None:
    text = "1. One\n\n    ```python\n    print('in a list')\n    ```\n\n    ```text\n    in a list\n    ```\n"
    assert list(blocks(text)) == [Block(line=4, code="print('in a list')\n", output="in a list\n")]


def test_wrong_output_is_reported() -> None:
    with pytest.raises(AssertionError, match=r"(?s)page\.md, block at line 4 .*--- the page shows\ntwo\n.*prints\none"):
        run_page(Path("page.md"), _page(("python", "print('one')"), ("text", "two")))


@pytest.mark.parametrize(("code", "reason"), [("1 / 0", "ZeroDivisionError"), ("await", "SyntaxError")])
def test_failing_block_is_reported(code: str, reason: str) -> None:
    with pytest.raises(AssertionError, match=rf"page\.md, block at line 4: {reason}"):
        run_page(Path("page.md"), _page(("python", code)))
