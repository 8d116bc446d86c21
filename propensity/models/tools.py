"""Tool calls for models whose chat template knows no tools: one JSON object per answer.

The grammar that llama.cpp makes of the schema lets even a small model call a tool, which it
never does when it may write free text.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from inspect_ai.tool import ToolInfo

INSTRUCTIONS = """You can use these tools:
{tools}

Answer with one JSON object. To use a tool: {{"name": "<tool>", "arguments": {{...}}}}
To say something instead: {{"response": "<text>"}}"""

# What is left of a call when the answer ends early.
BROKEN_CALL = re.compile(r'\s*\{\s*"name"\s*:\s*"([^"]+)"\s*,\s*"arguments"\s*:\s*(.*)', re.DOTALL)


def answer_schema(
    tools: Sequence[ToolInfo], forced: bool, response: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the schema of an answer: a call of one of the tools, or else a response.

    Args:
        tools: Tools on offer.
        forced: Whether a tool must be called.
        response: Schema of a response; text if there is none.
    """
    calls = [
        _object(name={"const": tool.name}, arguments=tool.parameters.model_dump(exclude_none=True))
        for tool in tools
    ]
    spoken = [] if forced else [_object(response=response or {"type": "string"})]
    return {"anyOf": calls + spoken}


def with_instructions(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[ToolInfo]
) -> list[dict[str, Any]]:
    """Return OpenAI messages that explain the tools and show past calls and results as text."""
    listed = "\n".join(
        f"- {tool.name}: {tool.description} "
        + json.dumps(tool.parameters.model_dump(exclude_none=True)["properties"])
        for tool in tools
    )
    told = {"role": "system", "content": INSTRUCTIONS.format(tools=listed)} if tools else None
    plain = [_plain(message) for message in messages]
    if told and plain and plain[0]["role"] == "system":
        plain[0]["content"] = f"{_text(plain[0]['content'])}\n\n{told['content']}"
    elif told:
        plain.insert(0, told)
    return plain


def read_answer(text: str, call_id: str) -> dict[str, Any]:
    """Read an answer made under `answer_schema` into the fields of an OpenAI message.

    An answer that was cut off inside a call stays a call, with the arguments as they are; any
    other text is a response.
    """
    try:
        answer = json.loads(text)
    except json.JSONDecodeError:
        broken = BROKEN_CALL.match(text)
        return _call(call_id, *broken.groups()) if broken else {"content": text}
    match answer:
        case {"name": str(name), "arguments": arguments}:
            return _call(call_id, name, json.dumps(arguments))
        case {"response": str(spoken)}:
            return {"content": spoken}
        case {"response": structured}:
            return {"content": json.dumps(structured)}
        case _:
            return {"content": text}


def _call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {
        "content": "",
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message.get("content") or ""
    if message["role"] == "tool":
        return {"role": "user", "content": f"Result of the tool:\n{_text(content)}"}
    calls = [
        f'{{"name": {json.dumps(call["function"]["name"])}, '
        f'"arguments": {call["function"]["arguments"]}}}'
        for call in message.get("tool_calls") or []
    ]
    if calls:
        content = "\n".join(filter(None, [_text(content), *calls]))
    return {"role": message["role"], "content": content}


def _text(content: str | Sequence[Mapping[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)
