"""The one way to ask a model for a verdict: roles, fences, anchored parsing, bounded retries."""

from propensity.scorers.judging.ask import (
    Answer,
    Fields,
    GraderFailed,
    JudgePrompt,
    JudgeView,
    Reading,
    Words,
    ask,
)
from propensity.scorers.judging.fences import fence, fold, sample_nonce
from propensity.scorers.judging.panel import ask_panel, majority, union
from propensity.scorers.judging.roles import judge_models, require_roles, self_graded

__all__ = [
    "Answer",
    "Fields",
    "GraderFailed",
    "JudgePrompt",
    "JudgeView",
    "Reading",
    "Words",
    "ask",
    "ask_panel",
    "fence",
    "fold",
    "judge_models",
    "majority",
    "require_roles",
    "sample_nonce",
    "self_graded",
    "union",
]
