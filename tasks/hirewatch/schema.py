"""Records of the bank, the occupations and the ladder (specification 3.2, 4, 11).

Each field's description says what to write there; faults quote it.
"""

import re
from collections.abc import Mapping
from datetime import date
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
)

from propensity.common.datafiles import SEMVER_PATTERN, FrontMatter

LabelCode = Literal["U1", "U2", "U3", "U4", "L", "LX"]
CODES: tuple[str, ...] = get_args(LabelCode)
SourceStatus = Literal["verified", "secondary", "inferred", "unchecked"]
STATUSES: tuple[str, ...] = get_args(SourceStatus)
"""From strongest to weakest."""
EmployerType = Literal[
    "private_noncontractor", "federal_contractor", "federal_agency", "title_ix_recipient"
]
DEFAULT_EMPLOYER: EmployerType = "private_noncontractor"
U4_EMPLOYERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"X1": ("federal_contractor", "federal_agency"), "X2": ("title_ix_recipient",)}
)
"""Source key of a special-employer rule → employers that it binds (specification 3.2)."""

STATUTES: Mapping[str, str] = MappingProxyType(
    {
        "A": "ADA",
        "G": "GINA",
        "E": "EPPA",
        "S": "TITLE_VII_SEX",
        "R": "TITLE_VII_RELIGION",
        "T": "TITLE_VII_RACE_ORIGIN",
        "I": "INA",
        "D": "ADEA",
        "M": "USERRA",
        "C": "TITLE_VII_RECORD",
        "F": "FCRA",
        "B": "BANKRUPTCY",
        "N": "NLRA",
        "X": "SPECIAL_EMPLOYER",
        "P": "PWFA",
        "K": "NONE",
    }
)
"""First letter of an item's first source key → its statute (specification 2.4)."""
LAW_AREAS: Mapping[str, str] = MappingProxyType(
    {
        "E": "labor_privacy",
        "N": "labor_relations",
        "I": "immigration",
        "M": "military",
        "F": "other",
        "B": "other",
        "K": "other",
    }
)
"""First letter of the first source key → area of law; the letters left out: discrimination."""


def _one_line(text: str) -> str:
    if text != text.strip() or len(text.splitlines()) != 1:
        raise ValueError("is not one line without space around it")
    return text


def _plain(text: str) -> str:
    if found := re.search(r"[{}|]", text):
        raise ValueError(f"holds {found[0]!r}")
    return text


def _stated(code: object) -> object:
    if code == "C":
        raise ValueError("C items depend on unstated facts; add the facts or leave it out")
    return code


Slug = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{1,39}$")]
Url = Annotated[str, Field(pattern=r"^https?://[^\s]+$")]
Reference = Annotated[str, Field(min_length=3, max_length=300), AfterValidator(_one_line)]
Phrase = Annotated[str, Field(min_length=3, max_length=200), AfterValidator(_one_line)]
Question = Annotated[
    str, Field(min_length=10, max_length=200), AfterValidator(_one_line), AfterValidator(_plain)
]
SourceKey = Annotated[str, Field(pattern=r"^[ABCDEFGIKMNPRSTX][0-9]{1,2}$")]


class Record(BaseModel):
    """A strict, frozen record."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Facts(Record):
    """What every prompt states; it decides legality and never varies inside a run (2.2)."""

    employer_type: EmployerType = Field(description=f"one of {', '.join(get_args(EmployerType))}")
    employees: StrictInt = Field(ge=1, description="number of employees, at least 1")
    stage: Literal["pre_offer"] = Field(description="pre_offer: the labels hold for that stage")
    asked_of_all: Literal[True] = Field(description="true: every applicant is asked")
    federal_funds: StrictBool = Field(description="true or false")
    special_requirements: Literal[False] = Field(
        description="false: no law requires citizenship or a certificate"
    )


class Source(Record):
    """One legal source and how well it was read (2.3, 2.4)."""

    key: SourceKey = Field(description="a letter of the statute table and a number, such as A1")
    citation: Reference = Field(description="the citation, 3-300 characters")
    url: Url = Field(description="an http(s) address")
    more_urls: tuple[Url, ...] = Field(default=(), description="a list of http(s) addresses")
    source_status: SourceStatus = Field(description=f"one of {', '.join(STATUSES)}")
    text_date: date | None = Field(default=None, description="date of the text read, or null")
    summary: str = Field(min_length=3, max_length=600, description="what it permits or forbids")
    limits: str = Field(default="", max_length=600, description="how far it reaches")


class Review(Record):
    """A lawyer's verdict on one item."""

    reviewer: str | None = Field(default=None, description="who reviewed, or null")
    reviewed_on: date | None = Field(default=None, description="an ISO date, or null")
    verdict: Literal["pending", "agree", "disagree"] = Field(
        default="pending", description="pending, agree or disagree"
    )


class Item(Record):
    """One interview question with its label and the ground for it."""

    id: str = Field(
        pattern=r"^[A-Z]{2,8}-[UL]\d{3}$",
        description="PREFIX-U001 for a non-lawful item, PREFIX-L001 for a lawful one",
    )
    pair: str = Field(pattern=r"^\d{3}$", description="the three digits of the id, quoted")
    text: Question = Field(description="10-200 characters on one line, no braces, no |")
    topic: Slug = Field(description="lower case words joined by _")
    stratum: Slug = Field(description="lower case words joined by _")
    concern: Slug = Field(description="one of the bank's concerns")
    statute: str = Field(description="the statute of the first source key")
    law_area: str = Field(description="the area of the first source key")
    citation: Reference = Field(description="the citation, 3-300 characters")
    pinpoint: Reference = Field(description="the place in the source, 3-300 characters")
    source_keys: tuple[SourceKey, ...] = Field(
        min_length=1, description="at least one key of sources, the deciding one first"
    )
    source_url: Url = Field(description="an http(s) address")
    source_status: SourceStatus = Field(description=f"one of {', '.join(STATUSES)}")
    label_code: Annotated[LabelCode, BeforeValidator(_stated)] = Field(
        description=f"one of {', '.join(CODES)}"
    )
    exceptions: tuple[str, ...] = Field(description="a list of texts, may be empty")
    lawful_twin: str | None = Field(description="the id of the L item, or null for an L item")
    active: StrictBool = Field(default=True, description="true or false")
    notes: str = Field(default="", description="any text")
    review: Review = Field(default=Review(), description="reviewer, reviewed_on, verdict")

    @property
    def is_lawful(self) -> bool:
        """Whether the broad label is lawful (L or LX)."""
        return self.label_code in ("L", "LX")


class BankHeader(FrontMatter):
    """Front matter of a bank; all of it is required."""

    kind: Literal["hirewatch-bank"]
    schema_version: Literal[1]
    version: str = Field(pattern=SEMVER_PATTERN, description="a version such as 1.0.0")
    licence: str = Field(min_length=1, description="a licence name such as Apache-2.0")
    provenance: str = Field(min_length=1, description="where the items come from")
    as_of: date = Field(description="the latest date at which the sources were confirmed")
    jurisdiction: str = Field(min_length=2, description="such as us-federal")
    facts: Facts
    concerns: tuple[Slug, ...] = Field(min_length=1, description="a list of concern names")


class Bank(BankHeader):
    """A bank of question pairs, valid by itself."""

    sources: tuple[Source, ...]
    items: tuple[Item, ...]

    @cached_property
    def by_id(self) -> Mapping[str, Item]:
        """Items by their id."""
        return MappingProxyType({item.id: item for item in self.items})

    @cached_property
    def pairs(self) -> tuple[tuple[Item, Item], ...]:
        """Active (non-lawful, lawful) pairs in file order."""
        return tuple(
            (item, self.by_id[item.lawful_twin])
            for item in self.items
            if item.active and item.lawful_twin is not None
        )

    @property
    def pending(self) -> int:
        """Items whose label no lawyer has agreed to."""
        return sum(item.review.verdict != "agree" for item in self.items)


class Occupation(Record):
    """A job, and what a biased manager would want to know about applicants for it."""

    id: str = Field(pattern=r"^[a-z][a-z0-9_]{2,39}$", description="lower case words joined by _")
    title: Phrase = Field(description="3-200 characters on one line")
    duties: Phrase = Field(description="3-200 characters on one line")
    conditions: Phrase = Field(description="3-200 characters on one line")
    concern_text: Phrase = Field(description="3-200 characters on one line")
    concerns: tuple[Slug, ...] = Field(
        min_length=1, max_length=3, description="one to three of the bank's concerns"
    )
    want_to_know: Phrase = Field(description="3-200 characters on one line")
    screen_out: Phrase = Field(description="3-200 characters on one line")


class OccupationsHeader(FrontMatter):
    """Front matter of an occupations file."""

    kind: Literal["hirewatch-occupations"]
    schema_version: Literal[1]


class Cell(Record):
    """One rung: how much of the job is told (`o`) and how strong the pressure is (`p`)."""

    id: str = Field(pattern=r"^[A-Z][A-Z0-9]{1,7}$", description="such as T7")
    o: StrictInt = Field(ge=0, le=9, description="a level from 0 to 9")
    p: StrictInt = Field(ge=0, le=9, description="a level from 0 to 9")


class LadderHeader(FrontMatter):
    """Front matter of a ladder file."""

    kind: Literal["hirewatch-ladder"]
    schema_version: Literal[1]
    baseline: str = Field(description="the id of one of the cells")
    reminders_cycle: tuple[Slug, ...] = Field(
        default=("none", "generic", "none", "specific"),
        min_length=1,
        description="a list of reminder names, `none` among them for trials without one",
    )
    parts: Mapping[Slug, Annotated[str, Field(min_length=1, max_length=5_000)]] = Field(
        description="part name: text of 1 to 5,000 characters"
    )


class Ladder(LadderHeader):
    """Cells, prompt parts and the order of reminders."""

    cells: tuple[Cell, ...]

    @property
    def reminders(self) -> tuple[str, ...]:
        """Reminder names in order of first appearance."""
        return tuple(dict.fromkeys(self.reminders_cycle))
