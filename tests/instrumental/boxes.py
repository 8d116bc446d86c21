"""Real containers for tests: seeded, acted upon as the agent or as root, frozen, scored."""

import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from inspect_ai.model import ChatMessage, ModelOutput
from inspect_ai.scorer import Score, Target
from inspect_ai.solver import TaskState
from inspect_ai.util import ExecResult

from propensity.sandboxes import compose_file
from propensity.sandboxes.instrumental import environments
from propensity.sandboxes.instrumental.environments.places import FREEZE, PYTHON
from propensity.sandboxes.instrumental.runtime import as_agent
from propensity.sandboxes.provider.engine import EngineSandbox
from propensity.scorers.instrumental.evidence import EVIDENCE, check_whole, header
from propensity.scorers.instrumental.scorer import instrumental_score
from propensity.tasks.instrumental.dataset import sample, shipped_catalogue
from propensity.tasks.instrumental.setup import seed


class Box:
    """One container with a seeded environment."""

    def __init__(self, sandbox: EngineSandbox, cell: dict[str, Any]) -> None:
        self.sandbox = sandbox
        self.cell = cell
        self.engine = environments.load(cell["base"])

    async def agent(
        self, command: str | list[str], cwd: str | None = None, seconds: int = 60
    ) -> ExecResult[str]:
        """Run a command as the agent's tools do."""
        words = ["/bin/bash", "-c", command] if isinstance(command, str) else command
        return await self.sandbox.exec(
            as_agent(self.engine.HOME, cwd or self.engine.WORK, seconds, words),
            timeout=seconds + 30,
            timeout_retry=False,
        )

    async def tool(self, name: str, *args: str) -> dict[str, Any]:
        """Call a client and return its answer."""
        done = await self.agent(["python3", f"/opt/tools/{name}.py", *args])
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    async def root(self, *words: str, seconds: int = 60) -> str:
        """Run a command as root; it must go well."""
        done = await self.sandbox.exec(list(words), timeout=seconds, timeout_retry=False)
        assert done.success, done
        return done.stdout

    async def play(self, policy: str, method: str = "") -> None:
        """Run the steps of a reference policy."""
        for step in self.engine.policy_steps(policy, self.cell["params"], method):
            await self.agent(step)

    async def frozen_text(self) -> str:
        """Freeze and return the evidence as it is stored."""
        done = await self.sandbox.exec([*PYTHON, FREEZE], timeout=120, timeout_retry=False)
        head = header(done.stdout)
        assert head is not None, done
        text = done.stdout.partition("\n")[2]
        if "path" in head:
            assert text == ""
            text = await self.sandbox.read_file(head["path"])
        check_whole(head, text)
        return text

    async def frozen(self) -> dict[str, Any]:
        """Freeze and return the evidence document."""
        document: dict[str, Any] = json.loads(await self.frozen_text())
        return document

    async def score(self, messages: Sequence[ChatMessage] = ()) -> Score:
        """Freeze and score the run."""
        state = TaskState(
            model="none/none",  # type: ignore[arg-type]
            sample_id=f"{self.cell['environment']}/{self.cell['variant']}",
            epoch=1,
            input="",
            messages=list(messages),
            output=ModelOutput.from_content("none", "That is all from me."),
            metadata=self.cell,
        )
        state.store.set(EVIDENCE, await self.frozen_text())
        found = await instrumental_score()(state, Target(""))
        assert found is not None
        return found


@asynccontextmanager
async def container(**settings: Any) -> AsyncIterator[EngineSandbox]:
    """Start a container of the shipped Compose file, with other settings where given."""
    document = yaml.safe_load(Path(compose_file("instrumental")).read_text(encoding="utf-8"))
    document["services"]["default"].update(settings)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "compose.yaml"
        config.write_text(yaml.safe_dump(document), encoding="utf-8")
        made = await EngineSandbox.sample_init("test_instrumental", str(config), {})
    box = made["default"].as_type(EngineSandbox)
    try:
        yield box
    finally:
        await EngineSandbox.sample_cleanup("test_instrumental", None, {"default": box}, False)


@asynccontextmanager
async def seeded(
    environment: str, variant: str = "A", arm: str = "none", **settings: Any
) -> AsyncIterator[Box]:
    """Start a container with a seeded environment."""
    catalogue = shipped_catalogue()
    made = sample(catalogue.worlds[environment], catalogue.variants[variant], arm)
    cell = dict(made.metadata or {})
    async with container(**settings) as sandbox:
        await seed(sandbox, cell)
        yield Box(sandbox, cell)
