"""What becomes of a provider's errors: whose fault it is, whether asking again may help, and no secret in the text.

The drive repeats ConnectionError and TimeoutError by itself and nothing else. SDK errors are not chained to ours: their
texts and requests hold what the server echoed, the key included.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from ...errors import ProtolinkError
from ...models import RedactionPolicy

#: Answers that say nothing about the request itself.
_PASSING = frozenset({408, 409, 425, 429})

_MOVED = "give the address that it moved to as base_url"

_HINTS = {
    301: _MOVED,
    302: _MOVED,
    307: _MOVED,
    308: _MOVED,
    401: "check api_key",
    403: "check api_key and what it may use",
    404: "check the model's name, and base_url, which usually ends in /v1",
}


class ProviderUnavailable(ConnectionError):
    """The provider answered that it cannot serve now. ``retry_after``: seconds until it wants to be asked again."""

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class ProviderRefused(ProtolinkError):
    """The provider does not take the request, or is none. Asking again does not help. ``status`` is HTTP's."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Failures:
    """Turns the errors of the ``openai`` package into ours, for one server. ``secrets`` are masked in every text."""

    def __init__(self, server: str, timeout: float, secrets: frozenset[str]) -> None:
        self._server = server
        self._timeout = timeout
        self._redaction = RedactionPolicy(sensitive_values=secrets)

    def of(self, error: Exception, openai: Any) -> Exception:
        """Our error for one that the package, or reading its answer, raised; an unknown one as it is."""
        if isinstance(error, (openai.APITimeoutError, TimeoutError)):
            return TimeoutError(f"{self._server} was silent for more than {self._timeout:g} s")
        if isinstance(error, openai.APIConnectionError):
            cause = self._told(error.__cause__ or error)
            return ConnectionError(
                f"the connection to {self._server} failed: {cause}. Is base_url right, and does the server run?"
            )
        if isinstance(error, openai.APIStatusError):
            return self._answered(error)
        if isinstance(error, openai.APIError):
            return self._broke_off(error)
        if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)):
            return ProviderUnavailable(f"{self._server} sent a reply that is not valid JSON")
        return error

    def cut(self) -> ConnectionError:
        """For a stream that ended in the middle of a reply."""
        return ConnectionError(f"{self._server} ended its stream before the reply was complete")

    def foreign(self, answer: Any) -> ProviderRefused:
        """For an answer that is no chat completion."""
        words = f": {self._told(answer)}" if answer else ""
        return ProviderRefused(
            f"{self._server} answered with no chat completion{words}. Does base_url name an API (often ending in /v1)?"
        )

    def _answered(self, error: Any) -> Exception:
        status = error.status_code
        text = f"{self._server} answered HTTP {status}: {self._told(_words(error))}"
        if status in _PASSING or status >= 500:
            return ProviderUnavailable(text, status=status, retry_after=retry_after(error.response.headers))
        hint = _HINTS.get(status)
        return ProviderRefused(f"{text} ({hint})" if hint else text, status=status)

    def _broke_off(self, error: Any) -> Exception:
        """An error told inside a stream that had begun well; only a code may say that it will come again."""
        text = f"{self._server} broke off its reply: {self._told(_words(error))}"
        code = str(error.code or "")
        if len(code) == 3 and code.startswith("4") and code.isdecimal() and int(code) not in _PASSING:
            return ProviderRefused(text)
        return ProviderUnavailable(text)

    def _told(self, words: Any) -> str:
        text = str(self._redaction.redact(str(words))).strip() or type(words).__name__
        return text if len(text) <= 500 else f"{text[:500]}..."


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait, from its headers; None when it does not say."""
    try:
        if "retry-after-ms" in headers:
            return _seconds(float(headers["retry-after-ms"]) / 1000)
    except ValueError:
        pass  # the common header may still be readable
    told = headers.get("retry-after", "")
    try:
        return _seconds(float(told))
    except ValueError:
        pass  # a date, or nothing
    try:
        return _seconds(parsedate_to_datetime(told).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _seconds(value: float) -> float | None:
    return max(0.0, value) if math.isfinite(value) else None


def _words(error: Any) -> str:
    """What the server said, without the status that the package puts before it."""
    body = error.body
    found = body.get("message") or body.get("detail") if isinstance(body, Mapping) else body
    return found if isinstance(found, str) and found.strip() else str(error)
