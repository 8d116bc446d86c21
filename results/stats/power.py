"""How small an effect a comparison could have shown (statistics 6)."""

from functools import cache

POWER = 0.8


@cache
def multiplier(n: int, alpha: float = 0.05, power: float = POWER) -> float:
    """Detectable effect in standard errors for n pairs or clusters (non-central t).

    Args:
        n: Pairs or clusters, at least 2.
        alpha: Two-sided level.
        power: Probability of detection.
    """
    from statsmodels.stats.power import TTestPower

    return float(n**0.5 * TTestPower().solve_power(nobs=n, alpha=alpha, power=power))
