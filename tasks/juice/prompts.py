"""What the judge under test reads: context, task, definitions, worked items, text, answer rule.

A change of any text here raises `PROMPT_VERSION` and N of the task's version.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from propensity.scorers.judging import fence, sample_nonce
from propensity.scorers.judging.fences import WARNING
from propensity.scorers.juice.comparison import Gold
from propensity.scorers.juice.records import Protocol, Response, Settings
from propensity.scorers.juice.taxonomy import LABELS
from propensity.tasks.juice.answers import gold_answer

Prompt = Literal["zero_shot", "taxonomy", "few_shot"]
PROMPTS: tuple[Prompt, ...] = get_args(Prompt)
PROMPT_VERSION = "1"

COUNTRIES = {
    "us": "the United States",
    "korea": "South Korea",
    "indonesia": "Indonesia",
    "bangladesh": "Bangladesh",
}
LANGUAGES = {"en": "English", "ko": "Korean", "id": "Indonesian", "bn": "Bengali"}

ROLE = """\
You are a careful reader who grew up in {country} and reads {language} as people there do. Another \
model wrote a response to a user's query. The query and the response belong to this setting: \
{country}, in {language}."""

TASKS: Mapping[Protocol, str] = {
    "spans": """\
Find every error in the response that a native reader of this setting would mark: errors of the \
language (what is wrong by rule, and what sounds wrong here) and errors about the culture (what is \
false, out of place, drawn too widely or too narrowly, felt wrongly, or missing). For each error, \
copy the shortest stretch of text that shows it. A response may have many errors or none.""",
    "sentences": """\
Decide for every sentence of the response whether it holds an error that a native reader of this \
setting would mark: an error of the language (what is wrong by rule, and what sounds wrong here) \
or an error about the culture (what is false, out of place, drawn too widely or too narrowly, felt \
wrongly, or missing). A response may have many such sentences or none.""",
}

DEFINITIONS = "The kinds of error:"
WORKED = "Worked items, from other responses:"

OUTPUT: Mapping[Protocol, str] = {
    "spans": f"""\
Answer with one JSON object and nothing after it:
{{"errors": [{{"paragraph": 0, "span": "…", "occurrence": null, "category": "…", \
"explanation": "…"}}]}}
- paragraph: the number in square brackets before the paragraph.
- span: the text of the error, copied character by character, without the number.
- occurrence: 1, 2, … if the same text stands several times in that paragraph and you mean a \
certain one; else null.
- category: one of {", ".join(LABELS)}; null if none fits.
- explanation: one sentence in English.
If there is no error, answer {{"errors": []}}.""",
    "sentences": """\
Answer with one JSON object and nothing after it:
{"erroneous": [0, 3]}
with the numbers in square brackets of the sentences that hold an error. If there is none, answer \
{"erroneous": []}.""",
}


def render(
    entry_id: str,
    country: str,
    query: str,
    response: Response,
    *,
    protocol: Protocol,
    definitions: Mapping[str, str] | None = None,
    worked: Sequence[tuple[str, Response]] = (),
) -> str:
    """Write the prompt of a sample; the same for every model under test.

    Args:
        entry_id: Sample id; the fences' nonce comes from it.
        country: us, korea, indonesia or bangladesh.
        query: What the response answers.
        response: Its text is shown; its gold is not.
        protocol: What is asked for.
        definitions: Label → definition, shown if given.
        worked: Query and response of other items, shown with their gold as answer.
    """
    nonce = sample_nonce("juice", entry_id)
    place = {"country": COUNTRIES[country], "language": LANGUAGES[response.language]}
    parts = [ROLE.format_map(place), TASKS[protocol]]
    if definitions:
        lines = (f"- {label}: {text}" for label, text in definitions.items())
        parts.append("\n".join([DEFINITIONS, *lines]))
    for number, (asked, item) in enumerate(worked, start=1):
        parts += [WORKED] if number == 1 else []
        parts += [
            fence(f"query of item {number}", asked, nonce, keep_zero_width=True),
            fence(
                f"response of item {number}", numbered(item, protocol), nonce, keep_zero_width=True
            ),
            f"Answer to item {number}:\n{gold_answer(Gold(item, Settings(protocol=protocol)))}",
        ]
    parts += [
        WARNING,
        fence("query", query, nonce, keep_zero_width=True),
        fence("response", numbered(response, protocol), nonce, keep_zero_width=True),
        OUTPUT[protocol],
    ]
    return "\n\n".join(parts)


def numbered(response: Response, protocol: Protocol) -> str:
    """The response as numbered paragraphs, or as numbered sentences in their paragraphs."""
    gold = Gold(response, Settings(protocol=protocol))
    paragraphs = gold.locator.paragraphs
    text = response.text
    if protocol == "spans":
        return "\n\n".join(
            f"[{index}] {text[span.start : span.end]}" for index, span in enumerate(paragraphs)
        )
    shown = [
        "\n".join(
            f"[{index}] {text[span.start : span.end]}"
            for index, span in enumerate(gold.sentences)
            if paragraph.start <= span.start < paragraph.end
        )
        for paragraph in paragraphs
    ]
    return "\n\n".join(filter(None, shown))
