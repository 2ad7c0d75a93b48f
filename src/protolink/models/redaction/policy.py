"""RedactionPolicy: which names and values are masked, and by what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..._lazy import Later
from ..value import dataclass

if TYPE_CHECKING:
    from . import masking
else:
    masking = Later(".masking", __package__)

DEFAULT_SENSITIVE_KEYS: frozenset[str] = frozenset(
    {
        "access_key", "account_key", "api_key", "apikey", "auth_code", "auth_key", "authorization",
        "authorization_header", "client_assertion", "client_secret", "code_verifier", "conn_str", "connection_string",
        "cookie", "credential", "credentials", "data_base64", "decryption_key", "dsn", "encryption_key", "hmac_key",
        "jwt", "master_key", "mfa_code", "otp", "otp_code", "passcode", "passphrase", "passwd", "password",
        "private_key", "proxy_authorization", "pwd", "recovery_code", "secret", "secret_key", "session_key",
        "set_cookie", "signing_key", "ssh_key", "subscription_key", "token", "totp",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RedactionPolicy:
    """What to mask and how. ValueError for a negative ``max_string_length`` or a blank known value.

    ``sensitive_keys`` are names of fields; case, separators and camelCase do not matter. ``max_string_length`` cuts
    other strings to that many characters and ``...``. ``sensitive_values`` are secrets to mask inside any text.
    """

    sensitive_keys: frozenset[str] = DEFAULT_SENSITIVE_KEYS
    replacement: str = "[REDACTED]"
    max_string_length: int | None = None
    sensitive_values: frozenset[str] = field(default=frozenset(), kw_only=True, repr=False)
    _masking: masking.Masking | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        limit = self.max_string_length
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
            raise TypeError("RedactionPolicy max_string_length must be an int or None")
        if limit is not None and limit < 0:
            raise ValueError("RedactionPolicy max_string_length must not be negative")
        if not isinstance(self.replacement, str):
            raise TypeError("RedactionPolicy replacement must be text")
        for name in ("sensitive_keys", "sensitive_values"):
            object.__setattr__(self, name, _text_set(getattr(self, name), name))

    def is_sensitive_key(self, key: Any) -> bool:
        """True for a name under which a text would be masked. Only text can be a name."""
        return isinstance(key, str) and self._made().is_sensitive(key)

    def redact(self, value: Any) -> Any:
        """A masked copy made of JSON types; redacting it again changes nothing.

        Objects with ``to_dict()``, dataclasses, pydantic models, exceptions, sets and bytes are converted; what has no
        JSON form becomes ``<TypeName>``. A container inside itself becomes ``[CYCLE]``.
        """
        return self._made().masked(value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are made anew from what the application chose."""
        return _again, (self.sensitive_keys, self.replacement, self.max_string_length, self.sensitive_values)

    def _made(self) -> masking.Masking:
        made = self._masking
        if made is None:
            made = masking.Masking(self.sensitive_keys, self.sensitive_values, self.replacement, self.max_string_length)
            object.__setattr__(self, "_masking", made)
        return made


def _again(keys: frozenset[str], replacement: str, limit: int | None, values: frozenset[str]) -> RedactionPolicy:
    return RedactionPolicy(keys, replacement, limit, sensitive_values=values)


def _text_set(values: Iterable[str], name: str) -> frozenset[str]:
    if isinstance(values, str):
        raise TypeError(f"RedactionPolicy {name} must be a set of texts, not one text")
    found = frozenset(values)
    if not all(isinstance(value, str) for value in found):
        raise TypeError(f"RedactionPolicy {name} must hold texts only")
    if not all(value.strip() for value in found):
        raise ValueError(f"RedactionPolicy {name} must not hold blank text")
    return found


DEFAULT_REDACTION_POLICY = RedactionPolicy()
