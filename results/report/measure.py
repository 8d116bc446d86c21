"""From the store's frames to what the statistics take: one row per item and epoch."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from propensity.common.params import nearest
from propensity.results.report.select import PLANNED_LEVELS, CompareRefused, Selection, factor
from propensity.results.stats.items import Items, by_item
from propensity.results.stats.rates import range_if_missing
from propensity.results.store.tables import Frames

IDENTITY = ["variant", "item_id"]
ROW = ["eval_id", "sample_uuid", "unit_id", "epoch"]
Interval = tuple[float, float]


@dataclass(frozen=True)
class KeyAbout:
    """What a key is: its range, which end is better, its label."""

    key: str
    label: str
    lower_is_better: bool
    low: float | None
    high: float | None

    @property
    def is_rate(self) -> bool:
        """Whether values are shares between 0 and 1."""
        return self.low == 0 and self.high == 1


@dataclass(frozen=True)
class Measured:
    """Rows of one key: `item` = variant and item id, `value` nan where not scored.

    `invalid` marks scored rows whose answer was none: they count by the task's own rule.
    """

    about: KeyAbout
    is_ratio: bool
    rows: pd.DataFrame
    notes: tuple[str, ...]

    def of(self, subject: str, group: str | None = None) -> pd.DataFrame:
        """Rows of one subject, in one group."""
        rows = self.rows[self.rows["subject"] == subject]
        return rows if group is None else rows[rows["group"] == group]


def measure(
    selection: Selection,
    frames: Frames,
    *,
    key: str | None = None,
    by: str | None = None,
    intersect: bool = False,
    subjects: Sequence[str] | None = None,
) -> Measured:
    """Collect the rows of a key for the selected runs.

    A unit that is unscored or in error counts for every key, but not where another epoch or
    subject shows that the key does not apply to its item.

    Args:
        selection: The runs.
        frames: Tables that hold at least these runs.
        key: Key of `scores`; default: the headline key of the runs.
        by: Column or factor that makes the groups; default: `variant`.
        intersect: Use the items that all subjects have.
        subjects: Subjects whose items must agree; default: all.

    Raises:
        CompareRefused: an unknown key or column, unequal items, duplicate rows, or a value
            outside the key's declared range.
    """
    runs = selection.runs.set_index("eval_id")
    units = frames.units[frames.units["eval_id"].isin(runs.index)].copy()
    units["subject"] = units["eval_id"].map(runs["subject"])
    scores = frames.scores[frames.scores["eval_id"].isin(runs.index)]
    key = key or _headline(selection)
    about = key_about(selection.runs, key)
    mine = scores[scores["key"] == key]
    if mine.empty:
        keys = sorted(scores["key"].unique())
        named = f"{nearest(key, keys)}" if keys else ""
        raise CompareRefused(
            f"{selection.task} has no scores of {key!r}{named}",
            f"There are: {', '.join(keys) or 'no scores at all'}.",
        )
    _check_duplicates(mine.assign(subject=mine["eval_id"].map(runs["subject"])), selection.task)
    rows = _rows(mine, units)
    _check_range(rows, about)
    notes = [*_notes(rows, units, frames.labels, key)]
    names = list(subjects or selection.subjects)
    shared, note = _item_sets(units[units["level"].isin(PLANNED_LEVELS)], names, intersect)
    rows = rows[rows["subject"].isin(names)]
    kept = _among(rows, shared, units)
    if note:
        notes += [note, *_dropped(rows[~kept], names)]
    rows = rows[kept]
    rows = rows.assign(
        item=_item_of(rows),
        group=_groups(rows, by, units, frames, selection).to_numpy(),
        invalid=rows["scored"].astype(bool) & _invalid(rows, units),
    )
    return Measured(about, bool(mine["denominator"].notna().any()), rows, tuple(notes))


def items_of(rows: pd.DataFrame, is_ratio: bool) -> Items:
    """Rows of one subject as items, epochs averaged first."""
    sums = (
        {
            "numerator": rows["numerator"].where(rows["scored"]).to_numpy(float),
            "denominator": rows["denominator"].where(rows["scored"]).to_numpy(float),
        }
        if is_ratio
        else {}
    )
    cluster = rows["cluster_id"].astype(object).where(rows["cluster_id"].notna(), None)
    return by_item(
        rows["item"].to_numpy(str), rows["value"].to_numpy(float), cluster.to_numpy(), **sums
    )


def missing_range(rows: pd.DataFrame, about: KeyAbout, is_ratio: bool) -> Interval | None:
    """The mean with missing rows at the key's minimum and maximum; None if that is not known."""
    if is_ratio or about.low is None or about.high is None or rows.empty:
        return None
    highest = rows["value_max"].astype(float).fillna(about.high)
    lowest = np.full(len(rows), about.low)
    return range_if_missing(
        rows["item"].tolist(), rows["value"].tolist(), lowest.tolist(), highest.tolist()
    )


def counts(rows: pd.DataFrame) -> dict[str, int]:
    """Scored, unscored and errored rows."""
    status = rows["status"].value_counts()
    return {
        "scored": int(status.get("scored", 0)),
        "unscored": int(status.get("unscored", 0)),
        "errored": int(status.get("error", 0)),
    }


def key_about(runs: pd.DataFrame, key: str) -> KeyAbout:
    """What the runs declare about a key; rates are assumed lower-is-better only if declared."""
    for text in runs["keys"]:
        declared = json.loads(text or "{}").get(key)
        if isinstance(declared, dict):
            low, high = (declared.get("range") or (None, None))[:2]
            return KeyAbout(
                key,
                str(declared.get("label") or key),
                bool(declared.get("lower_is_better")),
                None if low is None else float(low),
                None if high is None else float(high),
            )
    return KeyAbout(key, key, False, None, None)


def display(item: str) -> str:
    """An item for people: variant and item id."""
    return item.replace("\t", " ").strip()


def _headline(selection: Selection) -> str:
    keys = selection.runs["headline_key"].dropna().unique()
    if len(keys) != 1:
        raise CompareRefused(
            f"the runs of {selection.task} have no headline key in common: {', '.join(keys)}",
            "Name one with --metric.",
        )
    return str(keys[0])


def _item_of(rows: pd.DataFrame) -> "pd.Series[str]":
    return rows["variant"].fillna("").astype(str) + "\t" + rows["item_id"].astype(str)


def _rows(mine: pd.DataFrame, units: pd.DataFrame) -> pd.DataFrame:
    """Scored and unscored rows of the key, and one row per unit without any reading."""
    adjudicated = mine["adjudicated_by"].notna()
    value = mine["value"].where(~adjudicated, mine["adjudicated_value"]).astype(float)
    empty = mine["denominator"].eq(0) & mine["reason"].isna()
    facts = units[[*ROW, "subject", "level", "sample_id", "value_max", "status", "reason"]]
    joined = mine.assign(value_raw=mine["value"], value=value, scored=value.notna() | empty)
    joined = joined.merge(
        facts.rename(columns={"status": "unit_status", "reason": "unit_reason"}),
        on=ROW,
        how="left",
    )
    joined["status"] = np.where(joined["scored"], "scored", "unscored")
    joined["reason"] = joined["reason"].fillna(joined["unit_reason"])
    bad = _without_reading(joined, units)
    return pd.concat([joined, bad], ignore_index=True)


def _without_reading(joined: pd.DataFrame, units: pd.DataFrame) -> pd.DataFrame:
    """Units that are unscored or in error, at the level of the key's rows."""
    bad = units[units["status"] != "scored"]
    levels = set(joined["level"].dropna())
    parts = units.loc[units["level"].isin(levels), ["eval_id", "sample_uuid"]].drop_duplicates()
    has_parts = pd.MultiIndex.from_frame(bad[["eval_id", "sample_uuid"]]).isin(
        pd.MultiIndex.from_frame(parts)
    )
    at_level = bad["level"].isin(levels)
    bad = bad[at_level | (bad["level"].isin(PLANNED_LEVELS) & ~has_parts)]
    read = pd.MultiIndex.from_frame(joined[ROW])
    bad = bad[~pd.MultiIndex.from_frame(bad[ROW]).isin(read)]
    applies = set(_item_of(joined))
    scored = units[(units["status"] == "scored") & units["level"].isin(levels)]
    does_not_apply = set(_item_of(scored)) - applies
    bad = bad[~_item_of(bad).isin(does_not_apply)]
    return bad.assign(value=np.nan, value_raw=np.nan, numerator=np.nan, denominator=np.nan,
                      scored=False, unit_reason=bad["reason"])  # fmt: skip


def _invalid(rows: pd.DataFrame, units: pd.DataFrame) -> "pd.Series[bool]":
    """Rows of a planned unit that is scored with a reason; slots and groups follow theirs."""
    planned = units["level"].isin(PLANNED_LEVELS)
    bad = units[planned & (units["status"] == "scored") & units["reason"].notna()]
    itself = pd.MultiIndex.from_frame(rows[ROW]).isin(pd.MultiIndex.from_frame(bad[ROW]))
    part = ~rows["level"].isin(PLANNED_LEVELS) & rows["sample_uuid"].isin(bad["sample_uuid"])
    return part | itself


def _check_duplicates(mine: pd.DataFrame, task: str) -> None:
    identity = ["subject", *IDENTITY, "unit_id", "epoch", "key"]
    twice = mine[mine.duplicated(identity, keep=False)]
    if twice.empty:
        return
    if mine.duplicated(ROW).any():
        raise CompareRefused(
            f"{task}: several scorers give this key: {', '.join(sorted(twice['scorer'].unique()))}",
            "Score the log with --action overwrite, so that one of them remains.",
        )
    first = twice.groupby(identity, dropna=False)["eval_id"].agg(list).head(5)
    lines = []
    for index, evals in first.items():
        values = dict(zip(identity, index, strict=True))  # type: ignore[call-overload]
        lines.append(
            f"{values['subject']} {values['unit_id']} epoch {values['epoch']}: runs "
            + ", ".join(sorted(set(evals)))
        )
    raise CompareRefused(
        "\n  ".join([f"{task}: the same items stand in several runs of one subject", *lines]),
        "Give --latest for the newest run of each, or name LOGS.",
    )


def _check_range(rows: pd.DataFrame, about: KeyAbout) -> None:
    value = rows["value"].astype(float)
    wrong = value.isin([np.inf, -np.inf])
    if about.low is not None:
        wrong |= value < about.low
    if about.high is not None:
        wrong |= value > rows["value_max"].astype(float).fillna(about.high)
    if wrong.any():
        row = rows[wrong].iloc[0]
        raise CompareRefused(
            f"{about.key} is {row['value']} in run {row['eval_id']}, item {row['item_id']}; "
            f"declared range {about.low} to {about.high}",
            "The log does not keep to what its task declares: ingest a mended one.",
        )


def _item_sets(
    units: pd.DataFrame, subjects: Sequence[str], intersect: bool
) -> tuple[set[str], str | None]:
    """The planned items that all subjects share; refused where they are not the same."""
    sets = {subject: set(_item_of(units[units["subject"] == subject])) for subject in subjects}
    shared = set.intersection(*sets.values())
    everything = set.union(*sets.values())
    if shared == everything:
        return shared, None
    first, other = next((a, b) for a in subjects for b in subjects if sets[a] != sets[b])
    text = (
        f"{first} has {len(sets[first])} items, {other} {len(sets[other])}; "
        f"{len(sets[first] & sets[other])} shared"
    )
    for one, rest in ((first, other), (other, first)):
        only = sorted(sets[one] - sets[rest])
        if only:
            more = f" and {len(only) - 5} more" if len(only) > 5 else ""
            text += f"; only in {one}: {', '.join(display(item) for item in only[:5])}{more}"
    if not intersect:
        raise CompareRefused(f"the items differ: {text}", "Give --intersect to use shared items.")
    if not shared:
        raise CompareRefused(f"no shared item: {text}", "Compare runs of the same items.")
    return shared, f"{len(shared)} of {len(everything)} items are shared and used"


def _among(rows: pd.DataFrame, shared: set[str], units: pd.DataFrame) -> "pd.Series[bool]":
    """Rows of shared items; rows of slots and groups follow their sample."""
    planned = rows["level"].isin(PLANNED_LEVELS)
    samples = set(units.loc[_item_of(units).isin(shared), "sample_id"])
    return _item_of(rows).isin(shared).where(planned, rows["sample_id"].isin(samples))


def _dropped(rows: pd.DataFrame, subjects: Sequence[str]) -> list[str]:
    """Rates on the items that --intersect left out."""
    notes = []
    for subject in subjects:
        values = rows.loc[rows["subject"] == subject, "value"].astype(float).dropna()
        mean = f"{values.mean():.3f}" if len(values) else "not available"
        notes.append(f"{subject} on the items left out: mean {mean} of {len(values)} rows")
    return notes


def _notes(rows: pd.DataFrame, units: pd.DataFrame, labels: pd.DataFrame, key: str) -> list[str]:
    notes = []
    changed = rows[rows.get("adjudicated_by", pd.Series(dtype=str)).notna()]
    for subject, part in changed.groupby("subject"):
        mine = rows[(rows["subject"] == subject)]
        raw, final = mine["value_raw"].astype(float).mean(), mine["value"].astype(float).mean()
        notes.append(
            f"{subject}: {len(part)} rows adjudicated; raw mean {raw:.3f}, now {final:.3f}"
        )
    judged = rows.get("judge_model")
    if judged is not None and judged.notna().any() and not (labels["key"] == key).any():
        notes.append("judge not validated: the store holds no human labels of this key")
    formats = factor(units, "response_format")
    if formats is not None:
        seen = formats.groupby(units["subject"]).agg(
            lambda one: "+".join(sorted(set(one.dropna())))
        )
        if seen[seen != ""].nunique() > 1:
            listed = ", ".join(f"{subject} {form}" for subject, form in seen.items())
            notes.append(f"response formats differ: {listed}")
    return notes


def _groups(
    rows: pd.DataFrame, by: str | None, units: pd.DataFrame, frames: Frames, selection: Selection
) -> "pd.Series[Any]":
    """The group of each row: looked for in units, then samples, then runs."""
    if by is None:
        return rows["variant"]
    sources = (
        (units, ROW),
        (frames.samples[frames.samples["eval_id"].isin(selection.runs["eval_id"])],
         ["eval_id", "sample_uuid"]),
        (selection.runs, ["eval_id"]),
    )  # fmt: skip
    for frame, on in sources:
        values = frame[by] if by in frame else factor(frame, by)
        if values is not None:
            table = frame[on].assign(group=values.astype("string").to_numpy())
            joined = rows[on].merge(table.drop_duplicates(on), on=on, how="left")
            return joined["group"].astype(object)
    names = sorted(
        {name for text in units["factors"].unique() for name in json.loads(text or "{}")}
    )
    raise CompareRefused(
        f"there is no column or factor {by!r}{nearest(by, names)}",
        f"Factors of the units: {', '.join(names) or 'none'}; or a column of the store.",
    )
