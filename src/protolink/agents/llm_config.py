"""A model in an agent's configuration: what ``create_llm`` needs to make it again, without its secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..llms import LLM, create_llm
from ..llms.factory import made_by_name
from ..models import DEFAULT_REDACTION_POLICY, LLMModelProfile
from ..models.json import plain
from ..models.shape import mapping, optional_text, required_text, table, texts

_WHAT = "llm configuration"
_OPTIONS = ("base_url", "timeout", "answer_limit")
_KEYS = frozenset(
    {
        "provider",
        "model",
        "model_params",
        "reasoning",
        "tool_calling",
        "max_tool_corrections",
        "max_parse_failures",
        "metrics",
        "not_stored",
        "reconnect_required",
        *_OPTIONS,
    }
)


def described(llm: LLM) -> dict[str, Any]:
    """The model as JSON. ``not_stored`` names the settings that are secrets or no JSON; their values are left out.

    A model that needs them, or whose class no provider's name stands for, carries ``reconnect_required``. The script of
    a MockLLM is not part of it.
    """
    params, kept_out = _storable(llm.model_params, "model_params.")
    options, more_out = _storable(llm.constructor_options, "")
    entry: dict[str, Any] = {
        "provider": llm.provider,
        "model": llm.model,
        "model_params": params,
        "reasoning": llm.reasoning,
        "tool_calling": llm.tool_calling,
        "max_tool_corrections": llm.max_tool_corrections,
        "max_parse_failures": llm.max_parse_failures,
        **({key: options[key] for key in _OPTIONS if key in options} if made_by_name(llm) else {}),
    }
    if not llm.metrics_enabled or llm.metrics_profile != LLMModelProfile(provider=llm.provider, model=llm.model):
        entry["metrics"] = {"profile": llm.metrics_profile.to_dict(), "enabled": llm.metrics_enabled}
    if missing := [*kept_out, *more_out]:
        entry["not_stored"] = missing
    if missing or not made_by_name(llm):
        entry["reconnect_required"] = True
    return entry


def _storable(values: Mapping[str, Any], place: str) -> tuple[dict[str, Any], list[str]]:
    kept: dict[str, Any] = {}
    left_out = []
    for key, value in values.items():
        try:
            entry = plain({key: value})
        except TypeError:
            entry = None
        if entry is None or DEFAULT_REDACTION_POLICY.redact(entry) != entry:
            left_out.append(f"{place}{key}")
        else:
            kept |= entry
    return kept, left_out


def checked(data: Any) -> Mapping[str, Any]:
    """The description when its shape is right; nothing is made of it. ValueError names the member."""
    entry = mapping(data, _WHAT)
    if unknown := sorted(map(str, entry.keys() - _KEYS)):
        raise ValueError(f"{_WHAT} has no member {', '.join(unknown)}")
    required_text(entry, "provider", _WHAT)
    required_text(entry, "model", _WHAT)
    for key in ("reasoning", "tool_calling", "base_url"):
        optional_text(entry, key, _WHAT)
    table(entry, "model_params", _WHAT)
    texts(entry, "not_stored", _WHAT)
    for key in ("max_tool_corrections", "max_parse_failures", "answer_limit"):
        if entry.get(key) is not None and type(entry[key]) is not int:
            raise ValueError(f"{_WHAT} member '{key}' must be a whole number, not {type(entry[key]).__name__}")
    return entry


def missing(entry: Mapping[str, Any]) -> str | None:
    """Why the model has to be given again; None when it can be made."""
    if names := texts(entry, "not_stored", _WHAT):
        return f"llm, whose {', '.join(names)} is not stored (llm=...)"
    if entry.get("reconnect_required"):
        return f"llm, a model of the application's own, '{entry['model']}' (llm=...)"
    return None


def made(entry: Mapping[str, Any]) -> LLM:
    """The model of a checked description. ValueError for settings that its provider refuses."""
    options = {key: entry[key] for key in _OPTIONS if entry.get(key) is not None}
    try:
        llm = create_llm(
            entry["provider"],
            model=entry["model"],
            model_params=table(entry, "model_params", _WHAT),
            reasoning=entry.get("reasoning") or "none",
            tool_calling=entry.get("tool_calling"),
            max_parse_failures=entry.get("max_parse_failures"),
            max_tool_corrections=entry.get("max_tool_corrections"),
            **options,
        )
    except TypeError as error:
        raise ValueError(f"{_WHAT} does not fit the provider '{entry['provider']}': {error}") from error
    if metrics := table(entry, "metrics", _WHAT):
        llm.configure_metrics(table(metrics, "profile", _WHAT), enabled=metrics.get("enabled") is not False)
    return llm
