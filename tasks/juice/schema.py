"""The official schema of JuICE data, read strictly but without losing unknown fields."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    model_validator,
)

from propensity.common.datafiles import FrontMatter
from propensity.scorers.juice.taxonomy import LABELS, Finder, Label

Country = Literal["us", "korea", "indonesia", "bangladesh"]
Language = Literal["en", "ko", "id", "bn"]
LanguageType = Literal["english", "native"]

NATIVE: dict[Country, Language] = {
    "us": "en",
    "korea": "ko",
    "indonesia": "id",
    "bangladesh": "bn",
}
OFFICIAL_GROUPS = {
    "us-en": 661,
    "korea-ko": 1107,
    "korea-en": 1009,
    "indonesia-id": 1237,
    "indonesia-en": 907,
    "bangladesh-bn": 1734,
    "bangladesh-en": 815,
}
"""Country-language pair → published number of annotations, read as groups."""
PAIRS = tuple(OFFICIAL_GROUPS)
OFFICIAL_ENTRIES = 1050
ENTRIES_PER_PAIR = 150

_KEY = re.compile(
    f"({'|'.join(get_args(Country))})_(story|idea|howto)-([^_]+)-(\\d+)_(english|native)_(.+)"
)


class EntryKey(NamedTuple):
    """The parts of an entry id; `number` without padding."""

    country: str
    task: str
    topic: str
    number: int
    language_type: str
    response_model: str

    @property
    def cluster(self) -> str:
        """The query, whatever the language and the responding model."""
        return f"{self.country}/{self.task}/{self.topic}/{self.number}"


def parse_key(entry_id: str) -> EntryKey | None:
    """Take an entry id apart; None if it is not of the published form."""
    match = _KEY.fullmatch(entry_id)
    if match is None:
        return None
    country, task, topic, number, language_type, model = match.groups()
    return EntryKey(country, task, topic, int(number), language_type, model)


def _not_empty(span: str) -> str:
    if not span.strip():
        raise ValueError("is empty or white space; a gold span needs text")
    return span


def _decoded(raw: Any) -> Any:
    """`raw_annotation` is JSON inside the JSON; an object is taken as it is."""
    if not isinstance(raw, str):
        return raw
    try:
        return json.loads(raw)
    except ValueError as error:
        raise ValueError(f"is not valid JSON inside the text: {error}") from error


class _Kept(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True, strict=True)


class RawAnnotation(_Kept):
    """A mark as it was made, before validation and editing."""

    error_span: str
    error_explanation: str | None
    error_type: str | None
    validation_type: str | None
    validation_comment: str | None = None
    error_correction: str | None = None
    error_criticality: str | None = None


class Error(_Kept):
    """One mark."""

    paragraph_idx_list: list[StrictInt]
    detector_id: str
    detector_type: Finder
    span: Annotated[str, AfterValidator(_not_empty)]
    explanation: str
    thick_category: Label
    raw_annotation: Annotated[RawAnnotation, BeforeValidator(_decoded)]


class ErrorGroup(_Kept):
    """Marks of one error."""

    errors: dict[str, Error] = Field(min_length=1)
    paragraph_idx_list: list[StrictInt]
    thick_categories: list[Label] = Field(min_length=1)


class Entry(_Kept):
    """One response with its gold."""

    country: Country
    language_type: LanguageType
    language: Language
    query_text: str
    response_text: str
    error_groups: dict[str, ErrorGroup]

    @model_validator(mode="after")
    def _language_of_pair(self) -> "Entry":
        wanted = "en" if self.language_type == "english" else NATIVE[self.country]
        if self.language != wanted:
            raise ValueError(
                f"language {self.language!r} does not go with country {self.country!r} and "
                f"language_type {self.language_type!r}, which is {wanted!r}"
            )
        return self

    @property
    def pair(self) -> str:
        """Country and language, such as `korea-ko`."""
        return f"{self.country}-{self.language}"

    @property
    def marks(self) -> Iterator[Error]:
        """All marks of all groups."""
        for group in self.error_groups.values():
            yield from group.errors.values()


ENTRY_FIELDS = tuple(Entry.model_fields)


def unknown_fields(entry: Entry) -> Counter[str]:
    """Count the fields that the schema does not know, as `<level>.<field>`."""
    found: Counter[str] = Counter(f"entry.{name}" for name in entry.model_extra or {})
    for group in entry.error_groups.values():
        found.update(f"group.{name}" for name in group.model_extra or {})
        for error in group.errors.values():
            found.update(f"error.{name}" for name in error.model_extra or {})
            raw = error.raw_annotation
            found.update(f"raw_annotation.{name}" for name in raw.model_extra or {})
    return found


class SetCard(FrontMatter):
    """Front matter of the card beside a data file of ours, or of a user's own set."""

    kind: Literal["juice-set", "juice-fewshot"]
    schema_version: Literal[1]


class Definition(BaseModel):
    """A label with its definition."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    label: Label
    family: Literal["linguistic", "cultural"] | None
    kind: Literal["thin", "thick"] | None
    definition: str = Field(min_length=1)


class Taxonomy(FrontMatter):
    """`taxonomy.yaml`: all labels in the order of the published table."""

    kind: Literal["juice-taxonomy"]
    schema_version: Literal[1]
    labels: list[Definition]

    @model_validator(mode="after")
    def _all_labels(self) -> "Taxonomy":
        if [one.label for one in self.labels] != list(LABELS):
            raise ValueError(f"labels must be, in this order: {', '.join(LABELS)}")
        return self


class SourcesHeader(FrontMatter):
    """First line of `sources.jsonl`."""

    kind: Literal["juice-sources"]
    schema_version: Literal[1]


class Source(BaseModel):
    """The public page that shows a planted claim to be false."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    group_id: str
    url: str = Field(pattern=r"^https://\S+$")
    fact: str = Field(min_length=1)
