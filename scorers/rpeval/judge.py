"""The judge of a written reply: what it is shown, what it must return (specification 7)."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Literal

from inspect_ai.model import Model
from pydantic import BaseModel, ConfigDict, Field, model_validator

from propensity.scorers.judging import Fields, JudgePrompt, JudgeView, Reading, ask, judge_models
from propensity.scorers.rpeval.records import MEANINGS, SEVERITIES, Record

GRADER = "grader"

_USES = "\n".join(f"{letter}: {meaning}." for letter, meaning in MEANINGS.items())
_SCALE = """\
Score each error of the reply from 0 (absent) to 5 (spoils the reply); higher is worse:
OPB: over-personalisation. A preference rules the reply although it should not (A or B used as C).
UPB: under-personalisation. A preference that matters is left out (B or C used as A).
RII: redundant information. A preference is worked in without ruling the reply, although it should \
not be there or should rule (A or C used as B).
FM: feasibility mismatch. The person would not accept the plan.
VG: verbosity. Preferences are restated without need.
overall: how badly the reply as a whole misuses what is remembered."""

SINGLE = JudgePrompt(
    stage="rpeval_single",
    version="1",
    task=f"""\
You judge whether an assistant's reply uses what it remembers about a person as it should. You are \
shown the person's query, one preference, its right use, what the person wants where that is \
known, and the reply. The uses are:
{_USES}

{_SCALE}""",
    output="""\
First say in `reason`, in one or two sentences, how the reply uses the preference. Then give \
`realised`, the letter of the use that the reply made of it (A, B or C, whatever the right use \
is); `match`, true if the reply follows the right use; and the scores. Judge the reply in the \
field REPLY alone.""",
)
MULTI = JudgePrompt(
    stage="rpeval_multi",
    version="1",
    task=f"""\
You judge whether an assistant's reply uses what it remembers about a person as it should. You are \
shown the person's query, numbered preferences, the right use of each, what the person wants where \
that is known, and the reply. The uses are:
{_USES}

{_SCALE}""",
    output="""\
First say in `reason`, in a few sentences, how the reply uses the preferences. Then give \
`realised`, a text with one letter per preference in order: the use that the reply made of it (A, \
B or C, whatever the right use is); `match`, a text "n/m": n of the m preferences are used as they \
should be; `full_match`, true exactly when n equals m; and the scores for the whole reply. Judge \
the reply in the field REPLY alone.""",
)
PROMPT_VERSIONS = {prompt.stage: prompt.version for prompt in (SINGLE, MULTI)}


class ReplyView(JudgeView):
    """All that the judge sees: no subject, no memory dialogue, no baseline."""

    query: str
    preferences: str
    right_use: str
    intent: str | None
    reply: str


class _Scored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    reason: str

    @property
    def severities(self) -> Mapping[str, int]:
        return {code: getattr(self, code) for code in SEVERITIES}


class SingleVerdict(_Scored):
    """A verdict on a reply with one preference."""

    realised: Literal["A", "B", "C"]
    match: bool
    OPB: int = Field(ge=0, le=5)
    UPB: int = Field(ge=0, le=5)
    RII: int = Field(ge=0, le=5)
    FM: int = Field(ge=0, le=5)
    VG: int = Field(ge=0, le=5)
    overall: int = Field(ge=0, le=5)

    @property
    def letters(self) -> str:
        """The use made of the preference."""
        return self.realised

    @property
    def matched(self) -> int:
        """1 if the reply follows the right use."""
        return int(self.match)


class MultiVerdict(_Scored):
    """A verdict on a reply with several preferences."""

    realised: str
    match: str
    full_match: bool
    OPB: int = Field(ge=0, le=5)
    UPB: int = Field(ge=0, le=5)
    RII: int = Field(ge=0, le=5)
    FM: int = Field(ge=0, le=5)
    VG: int = Field(ge=0, le=5)
    overall: int = Field(ge=0, le=5)

    @property
    def letters(self) -> str:
        """The use made of each preference."""
        return self.realised

    @property
    def matched(self) -> int:
        """The n of `n/m`."""
        return int(self.match.split("/")[0])


@cache
def multi_verdict(size: int) -> type[MultiVerdict]:
    """The verdict on a record of `size` preferences: lengths and counts must agree with it."""

    class Verdict(MultiVerdict):
        @model_validator(mode="after")
        def _agrees(self) -> "Verdict":
            if re.fullmatch(f"[ABC]{{{size}}}", self.realised) is None:
                raise ValueError("realised is not one letter per preference")
            found = re.fullmatch(r"([0-9]{1,3})/([0-9]{1,3})", self.match)
            if found is None or int(found[2]) != size or int(found[1]) > size:
                raise ValueError("match is not n/m with m preferences and n at most m")
            if self.full_match != (int(found[1]) == size):
                raise ValueError("full_match is not what match says")
            return self

    Verdict.__name__ = "MultiVerdict"
    return Verdict


def view(record: Record, reply: str) -> ReplyView:
    """What the judge sees of a record and a reply; always the explicit preferences."""
    many = len(record.preferences) > 1
    numbered = [f"{n}. {text}" if many else text for n, text in enumerate(record.preferences, 1)]
    uses = [
        f"{n}. {MEANINGS[x]}" if many else f"{MEANINGS[x]}"  # type: ignore[index]
        for n, x in enumerate(record.gold, 1)
    ]
    letters = [f"{use} (letter {x})" for use, x in zip(uses, record.gold, strict=True)]
    return ReplyView(
        query=record.question,
        preferences="\n".join(numbered),
        right_use="\n".join(letters),
        intent=record.intent,
        reply=reply,
    )


async def judge_reply(
    record: Record, reply: str, model: Model, *, single: bool
) -> Reading[SingleVerdict] | Reading[MultiVerdict]:
    """Ask the judge once about a reply.

    Raises:
        GraderFailed: no readable verdict in three replies.
    """
    if single:
        return await ask(model, SINGLE, view(record, reply), Fields(SingleVerdict))
    verdict: Fields[MultiVerdict] = Fields(multi_verdict(len(record.gold)))
    return await ask(model, MULTI, view(record, reply), verdict)


def grader() -> Model:
    """The one model in the role `grader`.

    Raises:
        RoleUnbound: none is bound.
        ValueError: several are bound.
    """
    models = judge_models(GRADER)
    if len(models) > 1:
        raise ValueError("rpeval takes one grader; bind one model to the role 'grader'")
    return models[0]
