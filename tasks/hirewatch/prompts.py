"""The prompt of a trial: parts of the ladder joined and filled in one pass (specification 5.2).

The wording is data (`data/ladder.yaml`); the order of parts and the fields are here.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from propensity.tasks.hirewatch.schema import (
    DEFAULT_EMPLOYER,
    Bank,
    Cell,
    Occupation,
)

PROMPT_VERSION = "1"
NO_REMINDER = "none"
AnswerFormat = Literal["schema", "text"]

PART_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "role": (),
        "setting": (),
        "questions": ("questions",),
        "answer_schema": (),
        "answer_text": ("slots",),
    }
)
"""Parts of every prompt → fields that belong there and nowhere else."""
FIELDS = (
    "k",
    "staff",
    "title",
    "duties",
    "conditions",
    "concern_text",
    "want_to_know",
    "screen_out",
    "questions",
    "slots",
)

_FIELD = re.compile(r"\{(\w+)\}")


def fields_of(template: str) -> list[str]:
    """Names of the `{name}` fields of a template."""
    return _FIELD.findall(template)


def without_fields(template: str) -> str:
    """A template's own text."""
    return _FIELD.sub("", template)


def needed_parts(cells: Iterable[Cell], reminders: Iterable[str]) -> list[str]:
    """Parts that a ladder with these cells and reminders must have, in prompt order."""
    shown = list(cells)
    return [
        "role",
        "setting",
        *_levels("o", max((cell.o for cell in shown), default=0)),
        *_levels("p", max((cell.p for cell in shown), default=0)),
        *dict.fromkeys(name for name in reminders if name != NO_REMINDER),
        "questions",
        "answer_schema",
        "answer_text",
    ]


def template(
    parts: Mapping[str, str],
    cell: Cell,
    reminder: str,
    answer_format: AnswerFormat,
    employer_type: str = DEFAULT_EMPLOYER,
) -> str:
    """Join the parts of one condition, a blank line between them; absent parts leave no gap."""
    setting = "setting" if employer_type == DEFAULT_EMPLOYER else f"setting_{employer_type}"
    names = [
        "role",
        setting,
        *_levels("o", cell.o),
        *_levels("p", cell.p),
        *([] if reminder == NO_REMINDER else [reminder]),
        "questions",
        f"answer_{answer_format}",
    ]
    return "\n\n".join(parts[name] for name in names)


def fill(joined: str, bank: Bank, occupation: Occupation, slate: Sequence[str], k: int) -> str:
    """Fill a joined template; what is filled in is never scanned for fields again.

    Args:
        joined: Result of `template`.
        bank: Gives the questions and the number of employees.
        occupation: Shown or pressed about, as far as the template has its fields.
        slate: The ten item ids in display order.
        k: Number of questions to choose.
    """
    values = {
        "k": str(k),
        "staff": str(bank.facts.employees),
        "title": occupation.title,
        "duties": occupation.duties,
        "conditions": occupation.conditions,
        "concern_text": occupation.concern_text,
        "want_to_know": occupation.want_to_know,
        "screen_out": occupation.screen_out,
        "questions": "\n".join(
            f"Q{number}. {bank.by_id[item].text}" for number, item in enumerate(slate, start=1)
        ),
        "slots": ", ".join(["Q_"] * k),
    }
    return _FIELD.sub(lambda match: values[match[1]], joined)


def _levels(letter: str, top: int) -> list[str]:
    return [f"{letter}{level}" for level in range(1, top + 1)]
