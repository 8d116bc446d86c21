"""One question to one judge: rendered from an allow-list, read without any fallback verdict."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from inspect_ai.model import GenerateConfig, Model, ModelOutput, ResponseSchema
from inspect_ai.util import json_schema
from pydantic import BaseModel, ConfigDict, ValidationError

from propensity.common.answers import wants_schema
from propensity.common.units import judge
from propensity.scorers.judging.fences import WARNING, fence, random_nonce

ATTEMPTS = 3

ValueT = TypeVar("ValueT")
ValueT_co = TypeVar("ValueT_co", covariant=True)
ModelT = TypeVar("ModelT", bound=BaseModel)


class Unreadable(ValueError):
    """A judge's reply that holds no verdict; the text names the kind of fault, never the reply."""


class GraderFailed(RuntimeError):
    """The judge gave no reading in `ATTEMPTS` replies: the key is unscored, never guessed."""

    reason = "grader_failed"

    def __init__(self, stage: str, model: str, prompt_id: str, replies: list[str]) -> None:
        super().__init__(f"{stage}: no readable verdict from {model} in {len(replies)} replies")
        self.stage, self.model, self.prompt_id = stage, model, prompt_id
        self.replies = replies

    def record(self, keys: list[str]) -> dict[str, Any]:
        """Build the `judges` record of the failed reading."""
        return judge(self.stage, self.model, self.prompt_id, keys, self.replies[-1])


class JudgeView(BaseModel):
    """The allow-list of a stage: the judge sees these fields and nothing else."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def fields(self) -> dict[str, str]:
        """Return the fields to show, as text; absent ones (`None`) are left out."""
        return {name: str(value) for name, value in self if value is not None}


@dataclass(frozen=True)
class JudgePrompt:
    """A judge's prompt: the task and scale before the data, the output rule after it."""

    stage: str
    version: str
    task: str
    output: str

    @property
    def prompt_id(self) -> str:
        """`<stage>@<version>`, as the store keeps it."""
        return f"{self.stage}@{self.version}"


class Answer(Protocol[ValueT_co]):
    """How a verdict is asked for and read."""

    def rule(self, schema: bool) -> str:
        """Describe the form of the reply, in words for the judge."""

    def schema(self) -> ResponseSchema | None:
        """Return the response schema, where the form has one."""

    def read(self, reply: str, schema: bool) -> ValueT_co:
        """Read a reply, or raise `Unreadable`."""


@dataclass(frozen=True)
class Words:
    """One word of a closed vocabulary on a labelled last line (`VERDICT: yes`)."""

    vocabulary: tuple[str, ...]
    label: str = "VERDICT"

    def rule(self, schema: bool) -> str:
        """Describe the labelled last line."""
        return (
            "You may reason first. End with one line of this form and nothing after it:\n"
            f"{self.label}: {' | '.join(self.vocabulary)}"
        )

    def schema(self) -> ResponseSchema | None:
        """A single word needs no schema."""
        return None

    def read(self, reply: str, schema: bool) -> str:
        """Return the word, spelled as in the vocabulary."""
        found = last_labelled(reply, self.label).casefold()
        for word in self.vocabulary:
            if word.casefold() == found:
                return word
        raise Unreadable("the last line names no word of the list")


@dataclass(frozen=True)
class Fields(Generic[ModelT]):
    """Several fields: by schema where the endpoint has one, else JSON on a labelled last line."""

    model: type[ModelT]
    label: str = "VERDICT"

    def rule(self, schema: bool) -> str:
        """Describe the object, and the line that holds it."""
        if schema:
            return "Reply with one JSON object in the requested form and nothing else."
        names = ", ".join(f'"{name}": …' for name in self.model.model_fields)
        return (
            "You may reason first. End with one line of this form and nothing after it:\n"
            f"{self.label}: {{{names}}}"
        )

    def schema(self) -> ResponseSchema | None:
        """Return the model's JSON schema."""
        name = self.model.__name__.lower()
        return ResponseSchema(name=name, json_schema=json_schema(self.model), strict=True)

    def read(self, reply: str, schema: bool) -> ModelT:
        """Validate strictly: nothing is clamped, converted or guessed."""
        text = reply.strip() if schema else last_labelled(reply, self.label)
        try:
            value = json.loads(text, object_pairs_hook=_unique)
        except Unreadable:
            raise
        except (ValueError, RecursionError) as error:  # also a number of too many digits
            raise Unreadable("the verdict is not one JSON object") from error
        try:
            return self.model.model_validate(value, strict=True)
        except ValidationError as error:
            kinds = sorted({_place(item) for item in error.errors(include_url=False)})
            raise Unreadable(f"the verdict has faulty fields: {', '.join(kinds)}") from error


@dataclass(frozen=True)
class Reading(Generic[ValueT]):
    """A verdict, and who gave it."""

    value: ValueT
    stage: str
    model: str
    prompt_id: str
    raw: str
    attempts: int

    def record(self, keys: list[str]) -> dict[str, Any]:
        """Build the `judges` record of the reading."""
        return judge(self.stage, self.model, self.prompt_id, keys, self.raw)


def last_labelled(reply: str, label: str) -> str:
    """Return what stands behind the label on the last non-blank line.

    The line must begin with the label; `**` around it is tolerated.

    Raises:
        Unreadable: the last line is not of that form.
    """
    lines = reply.strip().splitlines()
    match = re.fullmatch(
        rf"\s*(?:\*\*)?{re.escape(label)}(?:\*\*)?\s*:\s*(?:\*\*)?\s*(.*?)\s*(?:\*\*)?\s*",
        lines[-1] if lines else "",
        re.IGNORECASE,
    )
    if match is None or not match[1]:
        raise Unreadable(f"the last line is not a {label} line")
    return match[1]


def render(
    prompt: JudgePrompt, view: JudgeView, rule: str, nonce: str, fault: str | None = None
) -> str:
    """Render a prompt: task, warning, fenced fields, output rule, and the last fault if any."""
    fields = view.fields()
    parts = [prompt.task, WARNING]
    parts += [fence(name, text, nonce) for name, text in fields.items()]
    parts += [prompt.output, rule]
    if fault is not None:
        parts.append(f"Your last reply could not be read: {fault}.")
    return "\n\n".join(part.strip() for part in parts if part.strip())


async def ask(
    model: Model, prompt: JudgePrompt, view: JudgeView, answer: Answer[ValueT]
) -> Reading[ValueT]:
    """Ask one judge, at most `ATTEMPTS` times, never from the cache, at temperature 0.

    Raises:
        GraderFailed: no readable verdict. A failing endpoint raises its own error.
    """
    by_schema = answer.schema() is not None and wants_schema(str(model), "auto")
    config = GenerateConfig(
        temperature=0, response_schema=answer.schema() if by_schema else None, cache=False
    )
    replies: list[str] = []
    fault: str | None = None
    while len(replies) < ATTEMPTS:
        text = render(prompt, view, answer.rule(by_schema), random_nonce(), fault)
        output = await model.generate(text, config=config, cache=False)
        replies.append(output.completion)
        try:
            value = answer.read(_finished(output), by_schema)
        except Unreadable as error:
            fault = str(error)
            continue
        return Reading(value, prompt.stage, str(model), prompt.prompt_id, replies[-1], len(replies))
    raise GraderFailed(prompt.stage, str(model), prompt.prompt_id, replies)


def _finished(output: ModelOutput) -> str:
    if output.stop_reason in ("max_tokens", "model_length"):
        raise Unreadable("the reply was cut off")
    if output.stop_reason == "content_filter":
        raise Unreadable("the reply was filtered")
    return output.completion


def _unique(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise Unreadable("the verdict names a field twice")
    return value


def _place(item: Any) -> str:
    """Name a faulty field by our own field names only: a reply must not reach the next prompt."""
    if item["type"] == "extra_forbidden":
        return "a field that was not asked for"
    return ".".join(str(part) for part in item["loc"]) or "the whole object"
