"""Versions: a benchmark's card (`eval.yaml`) and what every log says about it."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from propensity.common.datafiles import read_yaml, validated

VERSION_PATTERN = r"^[1-9][0-9]*-[A-Z]{1,2}$"
UUID_PATTERN = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CardTask(_Strict):
    """One task of a benchmark: its size after default filters and its headline metric."""

    name: str
    dataset_samples: int = Field(ge=1)
    kind: Literal["benchmark", "maintenance"]
    headline: str


class Requires(_Strict):
    """What a run needs beside a model."""

    internet: bool = False
    gpu: bool = False


class CardMetadata(_Strict):
    """Facts for listings."""

    fast: bool
    sandbox: list[Literal["docker"]] = []
    requires: Requires = Requires()


class InterfaceDefault(_Strict):
    """The value that a parameter added later stands for in older logs."""

    since: str = Field(pattern=r"^[A-Z]{1,2}$")
    default: Any


class ExternalAsset(_Strict):
    """Data from elsewhere, pinned by revision or checksum."""

    type: Literal["huggingface", "git_clone", "direct_url"]
    source: str
    revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    state: Literal["pinned", "controlled"]
    licence: str


class EvalCard(_Strict):
    """`eval.yaml` of a benchmark."""

    title: str
    description: str
    arxiv: str | None
    source_note: str | None = None
    group: Literal["Safeguards", "Scheming", "Bias", "Personality", "Assistants"]
    contributors: list[str] = Field(min_length=1)
    version: str = Field(pattern=VERSION_PATTERN)
    canary: str = Field(pattern=UUID_PATTERN)
    tasks: list[CardTask] = Field(min_length=1)
    tags: list[str]
    metadata: CardMetadata
    comparability: list[str]
    interface_defaults: dict[str, InterfaceDefault] = {}
    external_assets: list[ExternalAsset] = []

    @field_validator("tags")
    @classmethod
    def _lower_case(cls, tags: list[str]) -> list[str]:
        for tag in tags:
            if not re.fullmatch(r"[a-z][a-z0-9-]*", tag):
                raise ValueError(f"tag {tag!r} is not lower case words joined by -")
        return tags

    @property
    def comparability_version(self) -> int:
        """N of `N-X`: logs with different N are not comparable."""
        return int(self.version.split("-")[0])

    @property
    def all_tags(self) -> list[str]:
        """Tags for `Task(tags=)`."""
        return ["propensity", *self.tags]


@cache
def load_card(module_file: str) -> EvalCard:
    """Read the `eval.yaml` beside a module, once.

    Args:
        module_file: `__file__` of a module in the benchmark's folder.

    Raises:
        DataFileError: the file is missing or has faults.
    """
    path = Path(module_file).with_name("eval.yaml")
    document = read_yaml(path)[0]
    return validated(EvalCard, document.data, file=str(path), line_of=document.line)


def task_metadata(
    card: EvalCard,
    *,
    headline_key: str,
    keys: Mapping[str, Mapping[str, object]],
    factors: Mapping[str, object],
    cluster_label: str | None = None,
    contrasts: Sequence[Mapping[str, object]] = (),
    prompt_versions: Mapping[str, str] | None = None,
    data_sha256: Mapping[str, str] | None = None,
    planned_units: int | None = None,
) -> dict[str, Any]:
    """Build `Task(metadata=)`: all that the results store needs to read a log by itself.

    Args:
        card: The benchmark's card.
        headline_key: Key of the scores table behind the headline metric.
        keys: Key → `{range: [low, high], lower_is_better, label}`; `reference_for` names the key
            beside which an answer without a model stands.
        factors: Values that must agree between compared runs; names as in the card's
            `comparability`, roles left out (the store adds those from the log).
        cluster_label: What a cluster is called ("occupation").
        contrasts: `{variant, base, primary, without}` each.
        prompt_versions: Prompt stage → version.
        data_sha256: Data file → digest.
        planned_units: Units of one epoch, where these are not the samples.
    """
    major, minor = card.version.split("-")
    metadata: dict[str, Any] = {
        "full_task_version": card.version,
        "task_comparability_version": int(major),
        "task_interface_version": minor,
        "propensity_version": version("propensity"),
        "data_sha256": dict(data_sha256 or {}),
        "prompt_versions": dict(prompt_versions or {}),
        "headline_key": headline_key,
        "keys": {key: dict(about) for key, about in keys.items()},
        "factors": dict(factors),
        "contrasts": [dict(contrast) for contrast in contrasts],
    }
    if cluster_label is not None:
        metadata["cluster_label"] = cluster_label
    if planned_units is not None:
        metadata["planned_units"] = planned_units
    return metadata
