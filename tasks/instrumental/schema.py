"""Records of the data files: a variant, an environment (specification 3, "Variants as data")."""

import posixpath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from propensity.common.datafiles import FrontMatter
from propensity.sandboxes.instrumental.environments import IDS

FACTORS = (
    "monitoring",
    "clarity",
    "stakes",
    "framing",
    "permission",
    "usefulness",
    "honest_path",
)
BULLETS = ("bullet1", "bullet2", "bullet3", "bullet4")
RULE, STATE = "policy_rule", "seeded state"
CARRIERS = (*BULLETS, RULE, STATE)
PROFILES = ("open", "blocked", "slack")
USER_ROLES = ("doc", "input")

VARIANT_ID = r"^[A-Z][A-Z0-9_]{0,15}$"
ENVIRONMENT_ID = r"^[a-z][a-z0-9_]{2,31}$"
PATH = r"^/[\w./-]+$"

Level = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Passage = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=600)]
Line = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=400, pattern=r"^[^\n]+$")
]
OwnText = Annotated[Passage, Field(pattern=r"^[^\n]+$")]
"""One line: a second one would read as a further bullet, or as a further paragraph."""
Params = dict[str, Any]

RESERVED = ("all", "given_decision", "rate")
"""`-T environments=all` takes every environment; the others are names of overall metrics."""


def _shipped_id(value: str) -> str:
    if value not in IDS:
        raise ValueError(f"is none of {', '.join(IDS)}")
    return value


def _free_id(value: str) -> str:
    if value in RESERVED:
        raise ValueError(f"is reserved, as are {', '.join(RESERVED)}; choose another id")
    return value


def _plain_path(value: str) -> str:
    if posixpath.normpath(value) != value:
        raise ValueError(f"is not written plainly; write {posixpath.normpath(value)}")
    return value


ShippedId = Annotated[str, AfterValidator(_shipped_id)]


FilePath = Annotated[str, Field(pattern=PATH), AfterValidator(_plain_path)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Factors(_Record):
    """Level of each factor. Scoring asks for the permission, so it has no third level."""

    monitoring: Level
    clarity: Level
    stakes: Level
    framing: Level
    permission: Literal["forbidden", "permitted"]
    usefulness: Level
    honest_path: Level


class Texts(_Record):
    """Own texts of a variant; what is left out comes from the templates."""

    bullet1: OwnText | None = None
    bullet2: OwnText | None = None
    bullet3: OwnText | None = None
    bullet4: OwnText | None = None
    policy_rule: OwnText | None = None


class Variant(FrontMatter):
    """One setting of the factors, for all environments or for some.

    Attributes:
        contrast: The variant it is compared with.
        primary: Whether that contrast is the primary one.
        without: Environments left out of the contrast.
        one_factor: False takes the variant out of the contrasts; needs a `reason`.
        texts: Environment or "*" → own texts; slots such as {act} are filled in.
        profile: Environment → parameters over those of its profile.
        honest_feasible: Whether the official way is open, where `honest_path` is an own level.
    """

    kind: Literal["variant"]
    schema_version: Literal[1]
    id: str = Field(pattern=VARIANT_ID)
    replace: bool = False
    name: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,79}$")
    description: str = Field(min_length=1, max_length=400)
    factors: Factors
    contrast: str | None = None
    primary: bool = False
    without: tuple[str, ...] = ()
    one_factor: bool = True
    reason: str | None = None
    environments: Literal["all"] | tuple[str, ...] = "all"
    texts: dict[str, Texts] = {}
    profile: dict[str, Params] = {}
    honest_feasible: bool | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> "Variant":
        factors = self.factors
        faults = []
        if not self.one_factor and not self.reason:
            faults.append("one_factor: false needs a reason")
        if self.contrast == self.id:
            faults.append("contrast: a variant is not compared with itself")
        if self.environments == ():
            faults.append("environments: is empty; list some, or write all")
        own_level = factors.honest_path not in ("open", "blocked")
        if own_level and self.honest_feasible is None:
            faults.append(
                f"honest_path {factors.honest_path!r} is an own level; "
                "add honest_feasible: true or false"
            )
        if not own_level and self.honest_feasible is not None:
            faults.append("honest_feasible: is for own levels of honest_path; leave it out")
        if factors.usefulness == "none" and not self.is_open:
            faults.append("usefulness none does not go with a blocked honest path")
        for where, texts in self.texts.items():
            given = list(texts.model_dump(exclude_none=True))
            if self.one_factor and len(given) > 1:
                faults.append(f"texts.{where}: one text at most, got {', '.join(given)}")
        if faults:
            raise ValueError("; ".join(faults))
        return self

    @property
    def is_open(self) -> bool:
        """Whether the official way can reach the goal."""
        if self.honest_feasible is not None:
            return self.honest_feasible
        return self.factors.honest_path == "open"

    @property
    def base_profile(self) -> str:
        """Profile that the levels stand for, before the variant's own parameters."""
        if self.factors.honest_path == "blocked":
            return "blocked"
        return "slack" if self.factors.usefulness == "none" else "open"


class Slots(_Record):
    """Words of an environment in the templates."""

    dependents: Line
    medium: Line
    critical: Line
    cost: Line
    act: Line
    approval: Line


class OwnSlots(_Record):
    """Slots that differ from those of the base."""

    dependents: Line | None = None
    medium: Line | None = None
    critical: Line | None = None
    cost: Line | None = None
    act: Line | None = None
    approval: Line | None = None


class SeededFile(_Record):
    """Text and role of one seeded file."""

    content: str = Field(max_length=65_536)
    role: Literal["doc", "input", "artefact", "surface"]


class Profiles(_Record):
    """Parameters of each profile, over those of the base."""

    open: Params = {}
    blocked: Params = {}
    slack: Params = {}


class Environment(FrontMatter):
    """A user's environment on the engine, the verbs and the layout of a shipped one."""

    kind: Literal["environment"]
    schema_version: Literal[1]
    id: Annotated[str, Field(pattern=ENVIRONMENT_ID), AfterValidator(_free_id)]
    replace: bool = False
    base: ShippedId
    team: Line | None = None
    field: Line | None = None
    goal: Line | None = None
    situation: Passage | None = None
    resources: tuple[Line, ...] | None = Field(default=None, min_length=1)
    slots: OwnSlots = OwnSlots()
    profiles: Profiles = Profiles()
    files: dict[FilePath, SeededFile] = {}


class ShippedEnvironment(FrontMatter):
    """The texts of a shipped environment; its numbers stand in its engine."""

    kind: Literal["environment"]
    schema_version: Literal[1]
    id: ShippedId
    team: Line
    field: Line
    goal: Line
    situation: Passage
    resources: tuple[Line, ...]
    slots: Slots
    files: dict[FilePath, SeededFile]
