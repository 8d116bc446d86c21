"""How many questions were asked: adjusted p-values (statistics 5)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from propensity.results.stats.record import Estimate

Method = Literal["holm", "fdr_bh", "fdr_by"]
NAMES: dict[Method, str] = {"holm": "Holm", "fdr_bh": "BH", "fdr_by": "BY"}


def adjust(p: Sequence[float], method: Method) -> list[float]:
    """Adjusted p-values in the given order."""
    from statsmodels.stats.multitest import multipletests

    return [float(value) for value in multipletests(p, method=method)[1]] if p else []


def family(estimates: Sequence[Estimate], method: Method) -> list[Estimate]:
    """Fill the adjusted p of those that have one; the others leave the family."""
    tested = [index for index, one in enumerate(estimates) if one.p is not None]
    adjusted = adjust([estimates[index].p or 0.0 for index in tested], method)
    result = list(estimates)
    for index, value in zip(tested, adjusted, strict=True):
        result[index] = replace(
            result[index],
            p_adjusted=value,
            adjust_method=NAMES[method],
            family_size=len(tested),
        )
    return result
