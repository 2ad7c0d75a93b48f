"""Who owns a run: one process of one boot of one machine.

A run may be taken from its owner before the lease ends only when that owner is *provably* gone. A process id alone
proves nothing: ids are used again, and mean something else in another container or on another host. So an identity has
four parts, and two identities are compared only when boot and namespaces are the same. Where the system does not tell
all of them (anything but Linux), nobody is ever proven dead and the lease decides.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from ..models import json
from ..models.value import dataclass

_GONE_STATES = frozenset("ZXx")


@dataclass(frozen=True, slots=True)
class Owner:
    """``boot``: the boot of the machine. ``space``: namespaces of process ids and of time. ``start``: ticks since boot.

    None means that the system does not tell.
    """

    boot: str | None
    space: str | None
    pid: int
    start: int | None

    def to_text(self) -> str:
        """JSON for the store."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str | None) -> Owner | None:
        """Read ``to_text`` back; None for anything else, which leaves the decision to the lease."""
        try:
            value: Any = json.loads(text or "null")
            return cls(value["boot"], value["space"], value["pid"], value["start"])
        except (ValueError, TypeError, KeyError):
            return None


_known: Owner | None = None


def current() -> Owner:
    """The identity of this process. Kept once it is known whole; a forked child is somebody else."""
    global _known
    pid = os.getpid()
    found = _known
    if found is None or found.pid != pid:
        boot, space = _boot(), _space(pid)
        process = _process(pid) if boot and space else None
        found = Owner(boot, space, pid, process[1] if process else None)
        _known = found if process else None
    return found


def _forget() -> None:
    """In a forked child: it may have its parent's number, in another namespace."""
    global _known
    _known = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def dead(owner: Owner) -> bool:
    """True only when this process can prove that the owner is gone: no such process, or another one with its id."""
    here = current()
    parts = (owner.boot, owner.space, owner.start, here.boot, here.space)
    if None in parts or (owner.boot, owner.space) != (here.boot, here.space):
        return False
    if not _exists(owner.pid):
        return True
    process = _process(owner.pid)
    if process is None:
        return False
    state, start, threads = process
    return start != owner.start or (state in _GONE_STATES and threads <= 1)


def _boot() -> str | None:
    return _text("/proc/sys/kernel/random/boot_id")


def _space(pid: int) -> str | None:
    """None also when /proc shows the processes of another namespace than ours."""
    try:
        if os.readlink("/proc/self") != str(pid):
            return None
        links = [os.readlink("/proc/self/ns/pid")]
        # Start times are told in the reader's time namespace.
        if os.path.lexists("/proc/self/ns/time"):
            links.append(os.readlink("/proc/self/ns/time"))
    except OSError:
        return None
    return " ".join(links)


def _exists(pid: int) -> bool:
    """Asked of the kernel, because /proc may hide other users' processes."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _process(pid: int) -> tuple[str, int, int] | None:
    """State letter, start time in ticks since boot, number of threads."""
    text = _text(f"/proc/{pid}/stat")
    if text is None:
        return None
    # The second field is the program's name in parentheses; it may hold spaces and parentheses itself.
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19]), int(fields[17])


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None
