"""What is scored: a query, what is remembered, the right use of each preference."""

from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

Letter = Literal["A", "B", "C"]
LETTERS: tuple[Letter, ...] = get_args(Letter)
Protocol = Literal["discriminative", "generative"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
Cardinality = Literal["single", "multi"]
CARDINALITIES: tuple[Cardinality, ...] = get_args(Cardinality)
Mode = Literal["ours", "published"]
MODES: tuple[Mode, ...] = get_args(Mode)

NAMES: dict[Letter, str] = {"A": "ignore", "B": "support", "C": "dominate"}
MEANINGS: dict[Letter, str] = {
    "A": "Ignore: the preference must not shape the answer",
    "B": "Support: the answer mixes preference-based and general content",
    "C": "Dominate: the preference is a constraint; an answer that breaks it is wrong",
}

LABEL_WORDS: dict[str, Letter] = {
    "ignore": "A",
    "忽略偏好": "A",
    "support": "B",
    "supportive": "B",
    "支持性偏好": "B",
    "调和偏好": "B",
    "dominate": "C",
    "dominant": "C",
    "以偏好为主线": "C",
}
"""Label words of the official files, and of answers that name the use by word."""

UNREAD = "?"
"""Letter of a slot for which the reasoner had no valid ranking at all."""

OPB: frozenset[str] = frozenset({"AC", "BC"})
UPB: frozenset[str] = frozenset({"BA", "CA"})
RII: frozenset[str] = frozenset({"AB", "CB"})
SEVERITIES = ("OPB", "UPB", "RII", "FM", "VG", "overall")


def pattern(gold: str, used: str) -> str | None:
    """Error pattern of a shift from gold to the use made; None without one."""
    for name, shifts in (("OPB", OPB), ("UPB", UPB), ("RII", RII)):
        if gold + used in shifts:
            return name
    return None


class Scoring(BaseModel):
    """What fixes how an answer is read and counted."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    protocol: Protocol = "discriminative"
    cardinality: Cardinality = "single"
    mode: Mode = "ours"
    prompt: Literal["vanilla", "reminder", "cot"] = "vanilla"


class Record(BaseModel):
    """One record, as the scorer needs it.

    Attributes:
        id: Sample id.
        language: en or zh.
        question: The query.
        preferences: Explicit sentences, one per slot.
        memory: What the model under test is shown, one text per slot.
        gold: A letter per slot.
        intent: What the user wants, where the data say it.
        fold: Records that share it stay in one fold of a baseline.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    language: Literal["en", "zh"]
    question: str
    preferences: tuple[str, ...]
    memory: tuple[str, ...]
    gold: str = Field(pattern="^[ABC]+$")
    intent: str | None = None
    fold: str
    domain: str | None = None

    @property
    def group(self) -> Literal["ia", "lko"]:
        """`ia` if every preference is to be ignored, else `lko`."""
        return "ia" if set(self.gold) == {"A"} else "lko"
