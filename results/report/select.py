"""Which runs take part in a comparison, and whether they may be compared."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from propensity.common.params import nearest

PLANNED_LEVELS = ("sample", "trial")
"""Levels of units that a run plans; slots and groups are parts of them."""


class CompareRefused(ValueError):
    """A comparison that would mislead: nothing is computed; `fix` says what to do.

    `health` holds the health line of each subject, where it is known which runs were meant.
    """

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix
        self.health: tuple[str, ...] = ()


@dataclass(frozen=True)
class Selection:
    """Runs of one task that take part, and notes about those that do not."""

    task: str
    package: str
    runs: pd.DataFrame
    notes: tuple[str, ...]

    @property
    def subjects(self) -> list[str]:
        """Subjects, sorted."""
        return sorted(self.runs["subject"].unique())


def select_runs(
    runs: pd.DataFrame,
    *,
    models: Sequence[str] = (),
    latest: bool = False,
    allow_version_mismatch: bool = False,
    between: str | None = None,
) -> Selection:
    """Choose among the runs of one task.

    Of a retry chain the newest complete run counts.

    Args:
        runs: Rows of `runs`, of one task and package.
        models: Subjects to keep; empty = all.
        latest: Keep the newest run of each subject.
        allow_version_mismatch: Compare although the comparability version differs.
        between: Factor whose levels are compared: each becomes a subject of its own.

    Raises:
        CompareRefused: an unknown subject, or runs that are not comparable.
    """
    task, package = str(runs["task"].iloc[0]), str(runs["package"].iloc[0])
    kept, notes = _ends_of_chains(runs)
    if models:
        known = set(kept["subject"])
        unknown = [one for one in models if one not in known]
        if unknown:
            raise CompareRefused(
                f"{task} has no run of {', '.join(unknown)}", f"There are: {_some(sorted(known))}."
            )
        kept = kept[kept["subject"].isin(models)]
    if between is not None:
        kept = _by_level(kept, between)
    if latest:
        newest = kept.sort_values("started").groupby("subject")["eval_id"].last()
        older = kept[~kept["eval_id"].isin(newest)]
        notes += [f"older run left out: {row.subject} {row.eval_id}" for row in older.itertuples()]
        kept = kept[kept["eval_id"].isin(newest)]
    notes += _check_comparable(kept, task, allow_version_mismatch, between)
    return Selection(task, package, kept, tuple(notes))


def _ends_of_chains(runs: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The newest complete run of each retry chain; the newest where none is complete."""
    chain = runs["task_id"].fillna(runs["eval_id"])
    ordered = runs.assign(chain=chain, complete=runs["status"] == "success")
    ordered = ordered.sort_values(["complete", "started"])
    last = ordered.groupby("chain")["eval_id"].last()
    kept = ordered["eval_id"].isin(last)
    notes = [
        f"retried, left out: {row.subject} {row.eval_id} ({row.status})"
        for row in ordered[~kept].itertuples()
    ]
    return ordered[kept].drop(columns=["chain", "complete"]).sort_values("started"), notes


def _by_level(runs: pd.DataFrame, name: str) -> pd.DataFrame:
    """The same runs, each under its subject and its level of a factor."""
    factors = [json.loads(text or "{}") for text in runs["factors"]]
    known = sorted({one for each in factors for one in each})
    if not any(name in each for each in factors):
        raise CompareRefused(
            f"the runs have no factor {name!r}{nearest(name, known)}",
            f"There are: {', '.join(known) or 'none'}.",
        )
    levels = [str(each.get(name, "not set")) for each in factors]
    if len(set(levels)) < 2:
        raise CompareRefused(
            f"all runs have {name}={levels[0]}", "Name runs of two levels, or compare subjects."
        )
    subjects = [f"{who} {name}={level}" for who, level in zip(runs["subject"], levels, strict=True)]
    return runs.assign(base=runs["subject"], subject=subjects)


def _check_comparable(
    runs: pd.DataFrame, task: str, allow_version: bool, between: str | None = None
) -> list[str]:
    """Refuse runs that differ in what must agree; return notes on what may differ."""
    differences = factor_differences(runs)
    differences.pop(between or "", None)
    versions = _groups(runs, runs["comparability_version"].astype("string").fillna("unknown"))
    notes = []
    epochs = _groups(runs, runs["epochs"].astype("string").fillna("1"))
    if len(epochs) > 1:
        notes.append(f"epochs differ: {_listed(epochs)}")
    if len(versions) > 1:
        if not allow_version:
            differences = {"task version N": versions} | differences
        notes.append(f"compared across task versions: {_listed(versions)}")
    if differences:
        lines = [f"{name}: {_listed(values)}" for name, values in differences.items()]
        fix = "Choose runs that agree, with --models, --latest or by naming LOGS."
        if set(differences) == {"task version N"}:
            fix = "Choose runs of one version, or give --allow-version-mismatch."
        elif len(differences) == 1:
            fix += f" Or compare its levels: --between {next(iter(differences))}."
        raise CompareRefused(
            "\n  ".join([f"the runs of {task} are not comparable; they differ in", *lines]), fix
        )
    for column, what in (("inspect_version", "inspect-ai"), ("propensity_version", "propensity")):
        groups = _groups(runs, runs[column].fillna("unknown"))
        if len(groups) > 1:
            notes.append(f"versions of {what} differ: {_listed(groups)}")
    return notes


def factor_differences(runs: pd.DataFrame) -> dict[str, dict[str, list[str]]]:
    """Factor → value → subjects, for the factors that do not agree in all runs."""
    factors = [json.loads(text or "{}") for text in runs["factors"]]
    names = sorted({name for one in factors for name in one})
    found = {}
    for name in names:
        values = pd.Series([_shown(one, name) for one in factors], index=runs.index)
        groups = _groups(runs, values)
        if len(groups) > 1:
            found[name] = groups
    return found


def _shown(factors: dict[str, object], name: str) -> str:
    return json.dumps(factors[name], ensure_ascii=False) if name in factors else "not set"


def _groups(runs: pd.DataFrame, values: "pd.Series[str]") -> dict[str, list[str]]:
    return {
        str(value): sorted(runs.loc[rows, "subject"])
        for value, rows in values.groupby(values).groups.items()
    }


def _listed(groups: dict[str, list[str]]) -> str:
    parts = []
    for value, subjects in groups.items():
        count = f"{len(subjects)} {'run' if len(subjects) == 1 else 'runs'}"
        shown = value if len(value) <= 40 else value[:37] + "..."
        parts.append(f"{shown} ({count}: {_some(sorted(set(subjects)))})")
    return " | ".join(parts)


def _some(names: Iterable[str], limit: int = 5) -> str:
    listed = list(names)
    rest = f" and {len(listed) - limit} more" if len(listed) > limit else ""
    return ", ".join(listed[:limit]) + rest


def factor(frame: pd.DataFrame, name: str) -> "pd.Series[Any] | None":
    """A factor out of a frame's JSON column `factors`, or None if no row has it."""
    if "factors" not in frame or not frame["factors"].str.contains(f'"{name}"', regex=False).any():
        return None
    return frame["factors"].map(lambda text: json.loads(text or "{}").get(name))
