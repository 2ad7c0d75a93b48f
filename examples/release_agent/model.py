"""Who takes the decisions: the script, or a model that the environment names.

``make demo MODEL=openai-compatible:NAME BASE_URL=http://...`` sets the first two variables for all processes. A key is
read from the third and nowhere else, so that it stands in no command and no file.
"""

from __future__ import annotations

import os

from protolink import LLM, create_llm

MODEL = "RELEASE_DEMO_MODEL"
BASE_URL = "RELEASE_DEMO_BASE_URL"
API_KEY = "RELEASE_DEMO_API_KEY"

#: Stored runs go on under the same instructions only, so each process must give these very words.
INSTRUCTIONS = """You release the software in a git repository. Work in this order, with the tools you are given:
1. Look at the repository: call git_log, read_version and list_tests.
2. Call ask_user once, with the question which version to release and a few versions above the present one as options.
   The choice is the person's, not yours.
3. When the answer is there, call release with exactly the version that was answered, such as 1.3.0. The person sees the
   complete change and approves it, so do not ask for approval yourself.
4. When release has given its result, finish with one sentence that names the version. Call no more tools.
Call release once at most. When the person declines, finish without it."""


def variables() -> dict[str, str]:
    """What the processes of one demonstration need to ask the same model; empty for the script, and never the key."""
    return {name: os.environ[name] for name in (MODEL, BASE_URL) if os.environ.get(name)}


def chosen_model() -> LLM | None:
    """The model that the environment names; None for the script. Nothing is connected.

    ValueError says which variable is wrong or missing; it never shows the key.
    """
    given = variables()
    if MODEL not in given:
        if given:
            raise ValueError(f"{BASE_URL} is set and {MODEL} is not: name the model too, MODEL=openai-compatible:NAME")
        return None
    provider, _, name = given[MODEL].partition(":")
    if provider.strip().lower() != "openai-compatible" or not name.strip():
        raise ValueError(f"{MODEL} is {given[MODEL]!r}; it must be openai-compatible:NAME")
    if BASE_URL not in given:
        raise ValueError(f"{MODEL} is set and {BASE_URL} is not: give the server too, BASE_URL=http://HOST:PORT/v1")
    try:
        return create_llm(given[MODEL], base_url=given[BASE_URL], api_key=os.environ.get(API_KEY) or None)
    except ValueError as error:
        raise ValueError(f"{MODEL}, {BASE_URL} or {API_KEY} cannot work: {error}") from error
