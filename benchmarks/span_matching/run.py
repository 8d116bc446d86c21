"""How long it takes to score ten JuICE judges on 1,050 responses, and how that grows.

    python benchmarks/span_matching/run.py

Texts are made of random words in four scripts; one in six spans is written otherwise than in the
text (decomposed, other quotes, without marks), one in twenty is not in it at all. Limits are held
against processor seconds of this one process, so that other work on the machine does not count.
"""

import platform
import random
import resource
import sys
import time
import unicodedata
from typing import NamedTuple

from propensity.scorers.juice.answers import Answer
from propensity.scorers.juice.comparison import Gold, compare
from propensity.scorers.juice.metrics import Row, compute_metrics
from propensity.scorers.juice.placing import Item
from propensity.scorers.juice.records import Group, Mark, Response, Settings
from propensity.scorers.juice.taxonomy import LABELS

RESPONSES, JUDGES, CODE_POINTS, GROUPS, PREDICTIONS = 1_050, 10, 4_000, 7, 8
GROWTH = (50, 500, 1_000, 2_000, 5_000)
LIMIT_SECONDS, LIMIT_GROWTH_SECONDS, LIMIT_GIB = 20.0, 5.0, 2.0

WORDS = {
    "en": "the family met before “dinner” to cook rice, it’s a well\u2011known **custom**".split(),
    "ko": "추석에 송편을 먹는다 할머니 댁에서 “가족이” 김치찌개를 끓였다 **명절** 음식".split(),
    "id": "ibu memasak nasi goreng untuk jalan\u2011jalan pagi “bersama” keluarga di pasar".split(),
    "bn": "আমরা সময় নিয়ে ভালো রান্না করি দেশের পিঠা “নতুন” চালের গুঁড়া দিয়ে".split(),
}


def make_text(rng: random.Random, language: str) -> str:
    """A response of `CODE_POINTS` code points in eight paragraphs."""
    paragraphs = []
    for _ in range(8):
        words = rng.choices(WORDS[language], k=CODE_POINTS)
        paragraphs.append(" ".join(words)[: CODE_POINTS // 8 - 2])
    return "\n\n".join(paragraphs)


def make_span(rng: random.Random, text: str) -> tuple[int, str]:
    """A stretch of one paragraph, with the paragraph's number."""
    paragraphs = text.split("\n\n")
    number = rng.randrange(len(paragraphs))
    start = rng.randrange(len(paragraphs[number]) - 60)
    return number, paragraphs[number][start : start + rng.randint(3, 60)].strip() or "x"


def make_gold(rng: random.Random, place: int) -> Gold:
    """A response with its groups, half of them of two marks."""
    language = rng.choice(list(WORDS))
    text = make_text(rng, language)
    groups = []
    for number in range(GROUPS):
        paragraph, span = make_span(rng, text)
        label = rng.choice(LABELS)
        spans = [span, span[: len(span) // 2].strip() or span] if number % 2 else [span]
        marks = [
            Mark(span=one, paragraphs=(paragraph,), label=label, finder=finder)
            for one, finder in zip(spans, ("human", "model"), strict=False)
        ]
        groups.append(Group(id=f"{place}_{number:02d}", labels=(label,), marks=tuple(marks)))
    response = Response(text=text, language=language, model="m", groups=tuple(groups))
    return Gold(response, Settings())


def make_item(rng: random.Random, gold: Gold) -> Item:
    """A predicted span: near a gold one or anywhere, sometimes written otherwise, or absent."""
    text = gold.response.text
    if rng.random() < 0.5:
        mark = rng.choice(rng.choice(gold.response.groups).marks)
        paragraph, span = mark.paragraphs[0], mark.span
        span = span[rng.randint(0, 3) : len(span) - rng.randint(0, 3)].strip() or span
    else:
        paragraph, span = make_span(rng, text)
    variant = rng.random()
    if variant < 0.05:
        span = f"{span} † not there"
    elif variant < 0.13:
        span = unicodedata.normalize("NFD", span)
    elif variant < 0.22:
        span = span.replace("“", '"').replace("’", "'").replace("**", "")
    return Item(span=span or "x", paragraph=paragraph, label=rng.choice(LABELS))


class Took(NamedTuple):
    """Processor seconds and seconds by the clock."""

    processor: float
    clock: float

    def __str__(self) -> str:
        return f"{self.processor:.2f} | {self.clock:.2f}"


class Watch:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self.processor, self.clock = time.process_time(), time.perf_counter()

    def took(self) -> Took:
        return Took(time.process_time() - self.processor, time.perf_counter() - self.clock)


def many_judges(seed: int = 0) -> tuple[Took, int]:
    """Score all judges on all responses; return the time and the number of predictions."""
    rng = random.Random(seed)
    golds = [make_gold(rng, place) for place in range(RESPONSES)]
    answers = [
        [Answer(items=tuple(make_item(rng, gold) for _ in range(PREDICTIONS))) for gold in golds]
        for _ in range(JUDGES)
    ]
    watch = Watch()
    golds = [Gold(gold.response, gold.settings) for gold in golds]
    for judge in answers:
        rows = [
            Row(compare(gold, answer).values, str(place % 350), {"pair": gold.response.language})
            for place, (gold, answer) in enumerate(zip(golds, judge, strict=True))
        ]
        compute_metrics(rows)
    return watch.took(), RESPONSES * JUDGES * PREDICTIONS


def one_response(predictions: int, groups: int, seed: int = 0) -> Took:
    """Score one response with many predictions."""
    rng = random.Random(seed)
    text = make_text(rng, "en")
    spans = [make_span(rng, text) for _ in range(groups)]
    marked = tuple(
        Group(
            id=f"{number:05d}",
            labels=(LABELS[0],),
            marks=(Mark(span=span, paragraphs=(at,), label=LABELS[0], finder="human"),),
        )
        for number, (at, span) in enumerate(spans)
    )
    items = tuple(Item(span, at) for at, span in (make_span(rng, text) for _ in range(predictions)))
    watch = Watch()
    gold = Gold(Response(text=text, language="en", model="m", groups=marked), Settings())
    compare(gold, Answer(items=items))
    return watch.took()


def main() -> int:
    """Measure, print a Markdown table, and fail if a limit is missed."""
    judges, predictions = many_judges()
    growth = {(n, groups): one_response(n, groups) for groups in (10, 1_000) for n in GROWTH}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    lines = [
        f"Python {platform.python_version()}, {platform.machine()}, one process",
        "",
        "| what | predictions | processor s | clock s | limit |",
        "|---|---|---|---|---|",
        f"| {RESPONSES} responses × {JUDGES} judges | {predictions} | {judges} | "
        f"{LIMIT_SECONDS:.0f} |",
        *(
            f"| one response, {groups} groups | {n} | {took} | "
            f"{f'{LIMIT_GROWTH_SECONDS:.0f}' if n == GROWTH[-1] else ''} |"
            for (n, groups), took in growth.items()
        ),
        "",
        f"Memory at most {memory:.2f} GiB (limit {LIMIT_GIB:.0f}).",
    ]
    print("\n".join(lines))
    slowest = max(took.processor for (n, _), took in growth.items() if n == GROWTH[-1])
    fine = (
        judges.processor < LIMIT_SECONDS and slowest < LIMIT_GROWTH_SECONDS and memory < LIMIT_GIB
    )
    return 0 if fine and predictions >= 75_000 else 1


if __name__ == "__main__":
    sys.exit(main())
