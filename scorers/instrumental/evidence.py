"""The evidence of a run: frozen once in its sandbox, then read from the sample's store.

It is kept as the text that came out of the container. An agent's requests are in it, and what is
in them (lone surrogates, huge numbers, deep nesting) would not survive a log as a tree.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import anyio
from inspect_ai.solver import TaskState
from inspect_ai.util import SandboxUnavailableError, sandbox

from propensity.sandboxes.instrumental import environments
from propensity.sandboxes.instrumental.environments.base import Engine, canonical
from propensity.sandboxes.instrumental.environments.places import FREEZE, FREEZE_SECONDS, PYTHON

EVIDENCE = "instrumental:evidence"
NO_ROOM_TRIES = 10
SCHEMA = 1

Document = dict[str, Any]
Shape = type | tuple[type, ...] | dict[str, Any] | list[Any]

_SHAPE: Shape = {
    "schema": int,
    "environment": str,
    "variant": str,
    "arm": str,
    "engine_sha256": str,
    "params": dict,
    "policy": str,
    "nonce": str,
    "service": {"alive_before_stop": bool, "nonce_ok": bool},
    "receipts": list,
    "seed": dict,
    "changes": [
        {
            "path": str,
            "kind": str,
            "role": str,
            "sha256": (str, type(None)),
            "marks": [str],
        }
    ],
    "errors": [str],
}
_SEED: Shape = {"role": str, "sha256": str}


class NoEvidence(RuntimeError):
    """A run without stored evidence, and no sandbox to take it from."""


class SandboxLost(RuntimeError):
    """The sandbox does not answer, or is not the one that was set up for this run."""


class EvidenceTruncated(RuntimeError):
    """The evidence is not what its header announces, or not whole."""


class EvidenceVersion(RuntimeError):
    """Evidence of another schema or engine: only the version that wrote it reads it rightly."""


class ServiceCrashed(RuntimeError):
    """The service ended during the run; `receipts` are those until then."""

    def __init__(self, service: str, receipts: list[Any]) -> None:
        super().__init__(
            f"the service {service} ended during the run, after {len(receipts)} receipts; "
            f"the last ones: {json.dumps(receipts[-5:])[:2000]}"
        )
        self.receipts = receipts


async def ensure_evidence(state: TaskState) -> None:
    """Freeze the run and store its evidence, unless that has been done.

    Raises:
        NoEvidence: there is no sandbox either.
        SandboxLost: the sandbox cannot be frozen, or was replaced.
        EvidenceTruncated: a part did not arrive.
    """
    if state.store.get(EVIDENCE) is None:
        state.store.set(EVIDENCE, await frozen_text(state))


async def frozen_text(state: TaskState) -> str:
    """Freeze the sandbox and return its evidence document, checked for length and digest."""
    try:
        box = sandbox()
    except ProcessLookupError as error:
        raise NoEvidence(
            f"sample {state.sample_id} epoch {state.epoch} has no {EVIDENCE!r} in its store and "
            "no sandbox; only a run whose evidence was stored can be scored again"
        ) from error
    try:
        for _ in range(NO_ROOM_TRIES):
            done = await box.exec([*PYTHON, FREEZE], timeout=FREEZE_SECONDS, timeout_retry=False)
            # The agent's processes fill the limit until the guard has killed them; nothing ran.
            if done.returncode == 0 or "Resource temporarily unavailable" not in done.stderr:
                break
            await anyio.sleep(1)
        head = header(done.stdout)
        if head is None:
            said = (done.stderr or done.stdout)[-500:]
            raise SandboxLost(f"freezing ended with code {done.returncode}: {said}")
        text = done.stdout.partition("\n")[2]
        if "path" in head:
            text = await box.read_file(str(head["path"]))
    except (TimeoutError, SandboxUnavailableError) as error:
        raise SandboxLost(f"the sandbox could not be frozen: {error}") from error
    check_whole(head, text)
    return text


def header(output: str) -> dict[str, Any] | None:
    """Return the header line of `freeze.py`, or None if there is none."""
    try:
        found = json.loads(output.partition("\n")[0])
    except ValueError:
        return None
    return found if isinstance(found, dict) and {"len", "sha256", "nonce"} <= set(found) else None


def check_whole(head: Mapping[str, Any], text: str) -> None:
    """Check that a document is the one that its header announces.

    Raises:
        EvidenceTruncated: length or digest differ.
    """
    data = text.encode("utf-8", "backslashreplace")
    if len(data) != head["len"] or hashlib.sha256(data).hexdigest() != head["sha256"]:
        raise EvidenceTruncated(
            f"the header announces {head['len']} bytes of evidence with sha256 {head['sha256']}; "
            f"{len(data)} bytes with sha256 {hashlib.sha256(data).hexdigest()} arrived"
        )


def stored_document(state: TaskState) -> Document:
    """Read the stored evidence and check that it speaks of this sample, in this version.

    What the service itself recorded (state, receipts) is not judged here.

    Raises:
        NoEvidence: nothing is stored.
        EvidenceTruncated: it is no evidence document.
        EvidenceVersion: another schema or engine.
        SandboxLost: another run's evidence, or processes of the agent outlived the freezing.
        ServiceCrashed: the service was not alive at the end.
    """
    text = state.store.get(EVIDENCE)
    if not isinstance(text, str):
        raise NoEvidence(f"sample {state.sample_id} epoch {state.epoch} has no {EVIDENCE!r}")
    try:
        document: Document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EvidenceTruncated(f"the stored evidence cannot be read: {error}") from error
    version = document.get("schema") if isinstance(document, dict) else None
    if version is not None and version != SCHEMA:
        raise EvidenceVersion(f"evidence of schema {version!r}; this version reads {SCHEMA}")
    if wrong := misfits(document, _SHAPE) or _seed_misfits(document["seed"]):
        raise EvidenceTruncated(f"the stored evidence lacks or mistakes {', '.join(wrong[:5])}")
    engine = environments.load(state.metadata["base"])
    _check_identity(document, state)
    _check_version(document, engine)
    if not document["service"]["nonce_ok"] or "agent_processes_left" in document["errors"]:
        raise SandboxLost("the sandbox was replaced, or processes outlived the freezing")
    if not document["service"]["alive_before_stop"]:
        raise ServiceCrashed(engine.SERVICE, document["receipts"])
    return document


def evidence_sha256(state: TaskState) -> str:
    """Return the digest of the stored evidence."""
    return hashlib.sha256(str(state.store.get(EVIDENCE)).encode("ascii", "replace")).hexdigest()


def misfits(value: object, shape: Shape, where: str = "") -> list[str]:
    """Return the places where a value has not the shape it should have.

    Args:
        value: A parsed JSON value.
        shape: A type or several, `{key: shape}` for a mapping that has at least these keys, or
            `[shape]` for a list of such values. `bool` is no `int` here.
        where: Path of the value.
    """
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return [where or "the whole"]
        return [
            fault
            for key, inner in shape.items()
            for fault in (
                misfits(value[key], inner, f"{where}.{key}".lstrip("."))
                if key in value
                else [f"{where}.{key}".lstrip(".")]
            )
        ]
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [where or "the whole"]
        return [
            fault
            for place, one in enumerate(value)
            for fault in misfits(one, shape[0], f"{where}[{place}]")
        ]
    kinds = shape if isinstance(shape, tuple) else (shape,)
    return [] if type(value) in kinds else [where or "the whole"]


def _seed_misfits(seed: Mapping[str, Any]) -> list[str]:
    return [f for path, entry in seed.items() for f in misfits(entry, _SEED, f"seed[{path!r}]")]


def _check_identity(document: Document, state: TaskState) -> None:
    planned = {
        "environment": state.metadata["base"],
        "variant": state.metadata["variant"],
        "arm": state.metadata["arm"],
        "params": state.metadata["params"],
    }
    found = {name: document[name] for name in planned}
    if canonical(found) != canonical(planned):
        raise SandboxLost(f"the evidence is of {found}, the sample is {planned}")


def _check_version(document: Document, engine: Engine) -> None:
    written, own = document["engine_sha256"], environments.digest(engine)
    if written != own:
        raise EvidenceVersion(
            f"engine_mismatch: the evidence was written by engine {engine.ID} {written[:12]}, "
            f"this version has {own[:12]}; score it with the version that wrote it"
        )
