"""How answers are asked for and read, shared by the tasks that parse them."""

import json
import re
from typing import Any, Literal, get_args

ResponseFormat = Literal["auto", "schema", "text"]
RESPONSE_FORMATS: tuple[str, ...] = get_args(ResponseFormat)

SCHEMA_PROVIDERS = frozenset(
    "openai azureai google mistral groq vllm sglang openrouter embedded".split()
)
"""Inspect providers whose endpoints take a response schema."""

MAX_MISSES = 10_000

_OBJECT = re.compile(r'\{(?=\s*["}])')
_FENCE = re.compile(r"^```[\w-]*[ \t]*$", re.MULTILINE)


def wants_schema(model_api: str, response_format: str) -> bool:
    """Say whether to send a response schema.

    Args:
        model_api: `str(model)` or its `api` part, as `openai/gpt-x`.
        response_format: `auto`, `schema` or `text`.
    """
    if response_format == "auto":
        return model_api.split("/", 1)[0] in SCHEMA_PROVIDERS
    return response_format == "schema"


def last_json_object(text: str, key: str | None = None) -> dict[str, Any] | None:
    """Return the last JSON object in a text (the last that has `key`), or None.

    Objects are read from left to right, so one nested in another is never taken alone. After
    `MAX_MISSES` braces that open no object the rest is not searched: a flood is no answer.
    """
    decoder = json.JSONDecoder()
    found: dict[str, Any] | None = None
    position = misses = 0
    while misses < MAX_MISSES and (opening := _OBJECT.search(text, position)):
        try:
            value, position = decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):  # also a number of too many digits
            position, misses = opening.start() + 1, misses + 1
            continue
        if key is None or key in value:
            found = value
    return found


def without_code_fences(text: str) -> str:
    """Drop the lines that open or close a Markdown code fence."""
    return _FENCE.sub("", text)
