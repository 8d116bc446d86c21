"""Rows of the shipped-style files (specification 4), as pydantic models."""

from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from propensity.common.datafiles import FrontMatter
from propensity.scorers.rpeval.records import Letter

Lang = Literal["en", "zh"]
Part = Literal["queries", "preferences", "single", "multi"]
PARTS: tuple[Part, ...] = get_args(Part)
Domain = Literal[
    "food",
    "travel",
    "music",
    "movies",
    "home",
    "shopping",
    "learning",
    "health",
    "family",
    "work",
    "social",
    "entertainment",
]
MOST_PREFERENCES = 6


class Header(FrontMatter):
    """First line of each file."""

    kind: Literal["rpeval-queries", "rpeval-preferences", "rpeval-single", "rpeval-multi"]
    schema_version: Literal[1]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[A-Za-z0-9][\w.-]{0,99}$")


class Query(_Row):
    """What a user asks."""

    lang: Lang
    domain: Domain
    text: str = Field(pattern=r"\S")


class Turn(BaseModel):
    """One remark of a dialogue."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Literal["user", "assistant"]
    text: str = Field(pattern=r"\S")


class Preference(_Row):
    """One thing remembered, as a sentence and (for `memory=implicit`) as a dialogue."""

    lang: Lang
    explicit: str = Field(pattern=r"\S")
    dialogue: tuple[Turn, ...]


class SingleRow(_Row):
    """The right use of one preference for one query."""

    block: str = Field(min_length=1)
    query_id: str
    preference_id: str
    label: Letter
    intent: str = Field(pattern=r"\S")
    why: str = Field(pattern=r"\S")


class MultiRow(_Row):
    """The right use of several preferences for one query."""

    query_id: str
    preference_ids: tuple[str, ...] = Field(min_length=2, max_length=MOST_PREFERENCES)
    labels: str = Field(pattern="^[ABC]+$")
    why: tuple[str, ...]


ROWS: dict[Part, type[Query] | type[Preference] | type[SingleRow] | type[MultiRow]] = {
    "queries": Query,
    "preferences": Preference,
    "single": SingleRow,
    "multi": MultiRow,
}
