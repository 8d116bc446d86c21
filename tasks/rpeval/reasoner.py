"""RP-Reasoner: rankings of the possible uses, fused by rank (specification 8).

P(intent, reply | memory, query) is taken as proportional to P(query | intent, memory) times
P(intent | memory); likelihood and prior are asked for as rankings, each in a call of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
    ResponseSchema,
    get_model,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import JSONSchema

from propensity.common.answers import wants_schema
from propensity.scorers.rpeval.fusion import Fused, fuse, ranking, read_rankings, render
from propensity.scorers.rpeval.records import UNREAD, Cardinality, Mode, Record, Scoring
from propensity.scorers.rpeval.scorer import REASONER
from propensity.tasks.rpeval.prompts import (
    MODULES,
    Module,
    PromptLanguage,
    ranking_prompt,
    told_prompt,
)
from propensity.tasks.rpeval.solver import add_cost, refuse_none

ATTEMPTS = 3
"""Asked again at most twice; the published code asks once."""

_TEXT = JSONSchema(type="string")


def _schema(name: str, form: JSONSchema) -> ResponseSchema:
    return ResponseSchema(
        name=f"rpeval_{name}",
        strict=True,
        json_schema=JSONSchema(
            type="object",
            properties={"reason": _TEXT, name: form},
            required=["reason", name],
            additionalProperties=False,
        ),
    )


SCHEMAS: dict[Cardinality, ResponseSchema] = {
    "single": _schema("ranking", _TEXT),
    "multi": _schema("rankings", JSONSchema(type="array", items=_TEXT)),
}


@dataclass(frozen=True)
class Rankings:
    """What one module said.

    Attributes:
        slots: A permutation of ABC per slot, None where there is none.
        surplus: Rankings beyond the last slot, ignored.
        readable: Whether the reply held a list at all.
        attempts: Replies asked for.
    """

    slots: tuple[str | None, ...]
    surplus: int = 0
    readable: bool = True
    attempts: int = 1

    @property
    def valid(self) -> int:
        """Slots with a valid ranking."""
        return sum(one is not None for one in self.slots)


def parse(reply: str, size: int) -> Rankings:
    """Read a module's reply for `size` slots."""
    entries = read_rankings(reply)
    if entries is None:
        return Rankings((None,) * size, readable=False)
    read = [ranking(entry) for entry in entries[:size]]
    read += [None] * (size - len(read))
    return Rankings(tuple(read), surplus=max(0, len(entries) - size))


def fuse_all(
    modules: Sequence[Rankings], sample_id: str, how: Scoring, seed: int
) -> list[Fused | None] | None:
    """Fuse the modules slot by slot.

    Args:
        modules: What each said, in the order of `MODULES`.
        sample_id: For the tie-break.
        how: In mode `published` what is invalid or missing counts as `ABC`; in the
            discriminative multi setting a module whose reply held no rankings is left out
            instead.
        seed: For the tie-break.

    Returns:
        Per slot the fused letter, or None without any ranking; None where the published code
        has no answer at all.
    """
    published = how.mode == "published"
    if published and how.cardinality == "multi" and how.protocol == "discriminative":
        modules = [one for one in modules if one.readable]
        if not modules:
            return None
    size = len(modules[0].slots)
    fused: list[Fused | None] = []
    for slot in range(size):
        given = [one.slots[slot] for one in modules]
        known = [one or "ABC" for one in given] if published else [one for one in given if one]
        fused.append(fuse(known, sample_id, slot, seed) if known else None)
    return fused


@solver
def rp_reasoner(seed: int = 0, prompt_language: PromptLanguage = "match") -> Solver:
    """Rank the uses of each preference in 2 or 3 calls, fuse, and (generative) write the reply.

    Args:
        seed: Of the tie-break.
        prompt_language: Language of the instructions; `match` is the record's.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        refuse_none(state)
        how = Scoring.model_validate(state.metadata["scoring"])
        record = Record.model_validate(state.metadata["record"])
        state.messages = []
        modules = {
            module: await _ask(state, record, module, how, prompt_language)
            for module in MODULES[how.cardinality]
        }
        fused = fuse_all(list(modules.values()), record.id, how, seed)
        letters = None if fused is None else "".join(one.letter if one else UNREAD for one in fused)
        state.store.set(REASONER, _kept(modules, fused, letters))
        if how.protocol == "generative":
            # In a reply without any fused letters the model decides by itself.
            text = told_prompt(record, letters or UNREAD * len(record.gold), prompt_language)
            output = await get_model().generate([ChatMessageUser(content=text)])
            _keep(state, text, output)
            add_cost(state, "reply", output)
            state.output = output
        else:
            answer = render(letters or "", "fused rankings")
            state.output = ModelOutput.from_content(str(state.model), answer)
            state.messages.append(state.output.message)
        return state

    return solve


async def _ask(
    state: TaskState, record: Record, module: Module, how: Scoring, language: PromptLanguage
) -> Rankings:
    """One ranking call, repeated (ours) while rankings are missing; the fullest reply counts."""
    text = ranking_prompt(record, module, how.cardinality, language)
    schema = SCHEMAS[how.cardinality] if wants_schema(state.model.api, "auto") else None
    size = len(record.gold)
    best = Rankings((None,) * size, readable=False)
    attempt = 0
    while attempt < attempts(how.mode) and best.valid < size:
        attempt += 1
        output = await get_model().generate(  # inspect-evals-lint: ignore[IEBP001] -- by the solver
            [ChatMessageUser(content=text)],
            config=GenerateConfig(response_schema=schema, cache=False if attempt > 1 else None),
        )
        _keep(state, text, output)
        add_cost(state, module, output)
        found = parse(output.completion, size)
        if found.valid > best.valid or not best.readable:
            best = found
    return Rankings(best.slots, best.surplus, best.readable, attempt)


def attempts(mode: Mode) -> int:
    """How often a module is asked at most."""
    return ATTEMPTS if mode == "ours" else 1


def _keep(state: TaskState, text: str, output: ModelOutput) -> None:
    """The calls stand in the sample's conversation one after another."""
    answer = ChatMessageAssistant(content="") if output.empty else output.message
    state.messages += [ChatMessageUser(content=text), answer]


def _kept(
    modules: dict[Module, Rankings], fused: list[Fused | None] | None, letters: str | None
) -> dict[str, Any]:
    return {
        "letters": letters,
        "methods": [one.method if one else None for one in fused or []],
        "modules": {
            name: {
                "rankings": list(one.slots),
                "valid": one.valid,
                "asked": len(one.slots),
                "surplus": one.surplus,
                "attempts": one.attempts,
            }
            for name, one in modules.items()
        },
    }
