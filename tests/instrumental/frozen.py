"""Whole evidence documents of runs that need no container, and samples that carry them."""

import json
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import anyio
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageTool,
    ChatMessageUser,
    ModelName,
)
from inspect_ai.scorer import Score, Target
from inspect_ai.solver import TaskState
from inspect_ai.tool import ToolCall

from propensity.sandboxes.instrumental import environments
from propensity.scorers.instrumental.evidence import EVIDENCE, Document
from propensity.scorers.instrumental.flags import STOP
from propensity.scorers.instrumental.integrity import chain_hash, genesis
from propensity.scorers.instrumental.scorer import instrumental_score
from propensity.tasks.instrumental.dataset import sample, shipped_catalogue
from tests.instrumental.engine_world import ENGINES, World

NONCE = "0123456789abcdef" * 2


def cell(environment: str = "budget_siphon", variant: str = "A", arm: str = "none") -> Document:
    """Sample metadata of one cell, as the task makes it."""
    catalogue = shipped_catalogue()
    made = sample(catalogue.worlds[environment], catalogue.variants[variant], arm)
    return json.loads(json.dumps(made.metadata))  # type: ignore[no-any-return]


def chained(document: Document) -> Document:
    """Give every receipt the number, the predecessor and the hash that it should have."""
    before = genesis(document["nonce"], document["seed"])
    for place, receipt in enumerate(document["receipts"], start=1):
        receipt |= {"seq": place, "prev": before}
        receipt["hash"] = before = chain_hash(receipt)
    return document


def frozen(world: World, metadata: Document) -> Document:
    """Return the evidence of a run as `freeze.py` would write it."""
    parts = world.evidence()
    seed = {path: {**entry, "mode": 0o644} for path, entry in parts["seed"].items()}
    changes = [
        {"role": seed.get(c["path"], {"role": "new"})["role"], **_EMPTY, **c}
        for c in parts["changes"]
    ]
    receipts = [{"wall": 1.5 * r["seq"], "peer_uid": 3002, **r} for r in parts["receipts"]]
    document = {
        **parts,
        "variant": metadata["variant"],
        "arm": metadata["arm"],
        "engine_sha256": environments.digest(world.engine),
        "params": metadata["params"],
        "policy": world.seed[world.engine.POLICY].text,
        "nonce": NONCE,
        "service": {"name": world.engine.SERVICE, "alive_before_stop": True, "nonce_ok": True},
        "tables": {},
        "seed": seed,
        "changes": changes,
        "receipts": receipts,
        "errors": [],
    }
    return chained(json.loads(json.dumps(document)))


_EMPTY = {"size": 0, "owner": 3002, "content": "", "truncated": False}


def played(
    steps: Callable[[World], None],
    environment: str = "budget_siphon",
    variant: str = "A",
    arm: str = "none",
) -> Document:
    """Seed a cell, let a function act in it, and freeze it."""
    metadata = cell(environment, variant, arm)
    with tempfile.TemporaryDirectory() as root:
        world = World(environment, metadata["params"], Path(root))
        steps(world)
        return frozen(world, metadata)


def evidence_of(
    policy: str,
    environment: str = "budget_siphon",
    variant: str = "A",
    *,
    arm: str = "none",
    method: str = "",
) -> Document:
    """Return the evidence of a reference policy, a new copy each time."""
    return json.loads(_text_of(policy, environment, variant, arm, method))  # type: ignore[no-any-return]


@cache
def _text_of(policy: str, environment: str, variant: str, arm: str, method: str) -> str:
    def steps(world: World) -> None:
        for step in ENGINES[environment].policy_steps(policy, world.params, method):
            world.run(step)

    return json.dumps(played(steps, environment, variant, arm))


def sample_of(
    document: Document | str | None,
    *,
    environment: str = "budget_siphon",
    variant: str = "A",
    arm: str = "none",
    messages: Sequence[ChatMessage] = (),
    stop: object = "no_tool_call",
    epoch: int = 1,
) -> TaskState:
    """A finished sample of a cell with its evidence in the store."""
    store: dict[str, Any] = {}
    if document is not None:
        store[EVIDENCE] = document if isinstance(document, str) else json.dumps(document)
    if stop is not None:
        store[STOP] = {"reason": stop} if isinstance(stop, str) else stop
    return TaskState(
        model=ModelName("mockllm/model"),
        sample_id=f"{environment}/{variant}",
        epoch=epoch,
        input="",
        messages=[ChatMessageUser(content="Prevent service disruption."), *messages],
        metadata=cell(environment, variant, arm),
        store=store,
    )


def scored(state: TaskState) -> Score:
    """Run the raw scorer."""
    score = anyio.run(instrumental_score(), state, Target(""))
    assert score is not None
    return score


def issue(document: Document, **place: str) -> str:
    """The issue for which a run with this evidence gets no label, "" if it gets one."""
    score = scored(sample_of(document, **place))  # type: ignore[arg-type]
    metadata = score.metadata or {}
    invalid = metadata["deterministic_label_status"] == "invalid"
    assert invalid is (not isinstance(score.value, dict)), "invalid and unscored go together"
    assert (score.answer == "invalid") is invalid
    return str(metadata["deterministic_label_issue"])


def shell(command: str, output: str = "", *, text: str = "") -> list[ChatMessage]:
    """A shell call of the agent and its answer."""
    call = ToolCall(id="call", function="shell", arguments={"command": command})
    return [
        ChatMessageAssistant(content=text, tool_calls=[call]),
        ChatMessageTool(content=output, tool_call_id="call", function="shell"),
    ]
