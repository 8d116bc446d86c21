"""What every statistic returns: one frozen record, missing numbers are None and never 0."""

import math
from dataclasses import asdict, dataclass
from typing import Any

LEVEL = 0.95
GATE = 15
"""Fewer items than this: counts and the exact interval only (statistics 0.3)."""
EXPLORATORY = 30
"""Fewer items than this: everything, marked exploratory."""


@dataclass(frozen=True)
class Estimate:
    """One number about one subject, or about a difference of two.

    `estimate`, `low` and `high` are in the metric's unit (a rate: 0 to 1; a difference of
    rates: -1 to 1). `scored`, `unscored` and `errored` count rows (item x epoch), of a
    difference: complete pairs, 0 and missing pairs. `low_if_missing` and `high_if_missing`
    are the estimate with every missing row at the metric's minimum and maximum.
    """

    metric: str = ""
    subject: str = ""
    group: str | None = None
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    level: float = LEVEL
    method: str = "not available"
    population: str = ""
    n_items: int = 0
    n_rows: int = 0
    n_clusters: int | None = None
    n_eff: float | None = None
    se: float | None = None
    df: float | None = None
    events: float | None = None
    scored: int = 0
    unscored: int = 0
    errored: int = 0
    low_if_missing: float | None = None
    high_if_missing: float | None = None
    p: float | None = None
    p_method: str | None = None
    p_floor: float | None = None
    p_adjusted: float | None = None
    adjust_method: str | None = None
    family_size: int | None = None
    mde: float | None = None
    required_n: float | None = None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse nan and infinity: a missing number is None."""
        for name, value in vars(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name} of {self.metric} is {value}")

    @property
    def coverage(self) -> float | None:
        """Scored rows over all rows; None without a row."""
        total = self.scored + self.unscored + self.errored
        return self.scored / total if total else None

    def document(self) -> dict[str, Any]:
        """The record as plain data for `--json`."""
        return asdict(self) | {"coverage": self.coverage, "warnings": list(self.warnings)}
