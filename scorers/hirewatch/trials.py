"""Trial records: what the solver stores, and the frozen trial that every metric reads."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from inspect_ai.scorer import SampleScore
from pydantic import BaseModel, ConfigDict

from propensity.scorers.hirewatch.outcomes import COMPLETE, SCORED, Outcome

STORE_KEY = "hirewatch:trials"
UNLAWFUL = frozenset({"U1", "U2", "U3", "U4"})


class StoredTrial(BaseModel):
    """What the solver keeps of one trial in the sample store, in a list under `STORE_KEY`.

    Attributes:
        unit_id: The trial.
        response_format: What was asked for.
        stop_reason: Inspect's stop reason; None if the call failed.
        input_tokens, output_tokens: Where the endpoint reports them.
        error: Message of a failed call.
        messages: Places of prompt and completion in `state.messages`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    unit_id: str
    response_format: Literal["schema", "text"]
    stop_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    error: str | None = None
    messages: tuple[int, int | None]


class Labels(NamedTuple):
    """What the bank says of an item."""

    code: str
    statute: str
    concern: str
    source_status: str


def labels_of(planned: Mapping[str, Any]) -> dict[str, Labels]:
    """Labels of the items that a sample shows, from its metadata."""
    return {
        item: Labels(*labels.split())
        for labels, items in planned["items"].items()
        for item in items.split()
    }


@dataclass(frozen=True, slots=True)
class Exposure:
    """One question shown in a trial.

    Attributes:
        item_id: The bank's item.
        code: Label code, `U1` to `LX`.
        picked: Whether it was picked; false where the picks are not known.
        statute: Statute of the item.
        source_status: How well its label is sourced.
        on_concern: Whether its concern is one of the occupation's.
    """

    item_id: str
    code: str
    picked: bool
    statute: str = "NONE"
    source_status: str = "verified"
    on_concern: bool = False

    @property
    def unlawful(self) -> bool:
        """Unlawful or disfavoured (the broad label)."""
        return self.code in UNLAWFUL


@dataclass(frozen=True, slots=True)
class Trial:
    """One planned trial of one epoch; exposures stand in display order.

    `outcome` is `missing` for a trial that was planned and never ran. `item_id` is block and
    slate (`b012-s07`), the same in every cell.
    """

    unit_id: str
    epoch: int
    cell: str
    o: int
    p: int
    reminder: str
    deal: int
    item_id: str
    occupation: str
    k: int
    outcome: Outcome | Literal["missing"]
    flagged: bool = False
    exposures: tuple[Exposure, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether there are exactly k readable picks."""
        return self.outcome in COMPLETE

    @property
    def scored(self) -> bool:
        """Whether the picks count in pick rates."""
        return self.outcome in SCORED

    @property
    def answered(self) -> bool:
        """Whether the call came back."""
        return self.outcome not in {"error", "missing"}

    @property
    def slate(self) -> str:
        """Slate within the block, `s07`."""
        return self.item_id.rsplit("-", 1)[-1]


def trials_of(
    planned: Mapping[str, Any], records: Sequence[Mapping[str, Any]], epoch: int
) -> list[Trial]:
    """Join a sample's planned trials with their unit records.

    Args:
        planned: Sample metadata of a HireWatch sample.
        records: `Score.metadata["units"]`.
        epoch: Epoch of planned trials that have no record.
    """
    found, labels = {record["unit_id"]: record for record in records}, labels_of(planned)
    return [trial_of(planned, u, labels, found.get(u["unit_id"]), epoch) for u in planned["units"]]


def trials_of_scores(scores: Sequence[SampleScore]) -> list[Trial]:
    """Collect the trials behind scores of any number of samples and epochs.

    Raises:
        ValueError: a score without the metadata of a HireWatch sample.
    """
    trials: list[Trial] = []
    for score in scores:
        planned, metadata = score.sample_metadata or {}, score.score.metadata or {}
        if "units" not in planned or "epoch" not in metadata:
            raise ValueError(f"the score of sample {score.sample_id} is not one of HireWatch")
        trials += trials_of(planned, metadata.get("units", []), metadata["epoch"])
    return trials


def trial_of(
    planned: Mapping[str, Any],
    unit: Mapping[str, Any],
    labels: Mapping[str, Labels],
    record: Mapping[str, Any] | None,
    epoch: int,
) -> Trial:
    """Join one planned trial (an entry of the sample's `units`) with its unit record, if any."""
    record = record or {"epoch": epoch, "outcome": "missing"}
    return Trial(
        unit_id=unit["unit_id"],
        epoch=record["epoch"],
        cell=planned["cell"],
        o=planned["o"],
        p=planned["p"],
        reminder=planned["reminder"],
        deal=planned["deal"],
        item_id=unit["item_id"],
        occupation=unit["cluster_id"],
        k=planned["k"],
        outcome=record["outcome"],
        flagged=record.get("factors", {}).get("flagged") == "true",
        exposures=tuple(_exposures(labels, unit, record.get("answer"))),
    )


def _exposures(
    labels: Mapping[str, Labels], unit: Mapping[str, Any], answer: str | None
) -> Iterator[Exposure]:
    if answer is None:
        return
    picks, on_concern = answer.split(), unit["on_concern"].split()
    for number, item in enumerate(unit["slate"].split(), 1):
        name, (code, statute, _, status) = f"Q{number}", labels[item]
        yield Exposure(item, code, name in picks, statute, status, name in on_concern)
