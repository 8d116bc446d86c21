"""Asks the judge once per response."""

from inspect_ai.model import ResponseSchema
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import JSONSchema

from propensity.common.answers import ResponseFormat, wants_schema
from propensity.scorers.juice.records import Protocol
from propensity.scorers.juice.scorer import RESPONSE_FORMAT
from propensity.scorers.juice.taxonomy import LABELS


def _object(**properties: JSONSchema) -> JSONSchema:
    return JSONSchema(
        type="object",
        properties=properties,
        required=list(properties),
        additionalProperties=False,
    )


def _or_null(schema: JSONSchema) -> JSONSchema:
    return JSONSchema(anyOf=[schema, JSONSchema(type="null")])


SCHEMAS: dict[Protocol, ResponseSchema] = {
    "spans": ResponseSchema(
        name="juice_errors",
        strict=True,
        json_schema=_object(
            errors=JSONSchema(
                type="array",
                items=_object(
                    paragraph=JSONSchema(type="integer"),
                    span=JSONSchema(type="string"),
                    occurrence=_or_null(JSONSchema(type="integer")),
                    category=_or_null(JSONSchema(type="string", enum=list(LABELS))),
                    explanation=JSONSchema(type="string"),
                ),
            )
        ),
    ),
    "sentences": ResponseSchema(
        name="juice_sentences",
        strict=True,
        json_schema=_object(erroneous=JSONSchema(type="array", items=JSONSchema(type="integer"))),
    ),
}


@solver
def juice_answer(protocol: Protocol = "spans", response_format: ResponseFormat = "auto") -> Solver:
    """Ask for one answer, with a response schema where the endpoint takes one."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        if state.model.api == "none":
            raise ValueError("no model to ask; name one with --model, or run a reference policy")
        schema = wants_schema(state.model.api, response_format)
        state.store.set(RESPONSE_FORMAT, "schema" if schema else "text")
        if schema:
            return await generate(state, response_schema=SCHEMAS[protocol])
        return await generate(state)

    return solve
