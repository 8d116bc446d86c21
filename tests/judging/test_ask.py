import pytest
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessage, GenerateConfig, ModelOutput
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import TaskState
from inspect_ai.tool import ToolInfo
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from propensity.scorers.judging import (
    Fields,
    GraderFailed,
    JudgePrompt,
    JudgeView,
    Words,
    ask,
    ask_panel,
    judge_models,
    majority,
    require_roles,
    self_graded,
    union,
)
from propensity.scorers.judging.ask import Unreadable
from tests.support import run, say, scripted

pytestmark = pytest.mark.anyio

PROMPT = JudgePrompt("toy", "2", "Judge the reply.", "Now judge.")
YES_NO = Words(("yes", "no"))


class View(JudgeView):
    reply: str
    hint: str | None = None


class Verdict(BaseModel):
    model_config = ConfigDict(extra="forbid")

    reason: str
    match: bool
    # Not a Literal: True and 1.0 would pass as 1.
    severity: int = Field(ge=0, le=5)

    @model_validator(mode="after")
    def _consistent(self) -> "Verdict":
        if self.match and self.severity == 5:
            raise ValueError("match and severity disagree")
        return self


VIEW = View(reply="text")
GOOD = '{"reason": "r", "match": true, "severity": 0}'


def test_the_view_is_an_allow_list() -> None:
    with pytest.raises(ValidationError):
        View(reply="x", target="secret")  # type: ignore[call-arg]
    assert View(reply="x").fields() == {"reply": "x"}


async def test_two_misses_then_a_hit_is_scored_and_says_what_was_wrong() -> None:
    prompts: list[str] = []

    def judge(messages: list[ChatMessage], tools: list[ToolInfo]) -> str:
        prompts.append(messages[-1].text)
        return ["well", "VERDICT: perhaps", "VERDICT: yes"][len(prompts) - 1]

    reading = await ask(scripted(judge), PROMPT, VIEW, YES_NO)
    assert (reading.value, reading.attempts, reading.prompt_id) == ("yes", 3, "toy@2")
    assert "could not be read" not in prompts[0]
    assert prompts[1].endswith("could not be read: the last line is not a VERDICT line.")
    assert prompts[2].endswith("could not be read: the last line names no word of the list.")
    assert len({prompt.split("⟧")[0] for prompt in prompts}) == 3, "a nonce was used twice"


async def test_three_misses_are_no_verdict() -> None:
    judge = scripted("a", "b", "VERDICT: c", name="stubborn")
    with pytest.raises(GraderFailed, match="mockllm/stubborn in 3 replies") as caught:
        await ask(judge, PROMPT, VIEW, YES_NO)
    assert caught.value.record(["match"])["raw"] == "VERDICT: c"
    assert caught.value.reason == "grader_failed"


async def test_a_reply_of_lone_surrogates_can_be_kept() -> None:
    with pytest.raises(GraderFailed) as caught:
        await ask(scripted(*["\ud835?"] * 3), PROMPT, VIEW, YES_NO)
    assert caught.value.record(["match"])["raw"] == "\\ud835?"


@pytest.mark.parametrize("stop", ["max_tokens", "model_length", "content_filter"])
async def test_an_unfinished_reply_is_no_verdict(stop: str) -> None:
    cut = [say("VERDICT: yes", stop_reason=stop) for _ in range(3)]  # type: ignore[arg-type]
    with pytest.raises(GraderFailed):
        await ask(scripted(*cut), PROMPT, VIEW, YES_NO)


async def test_a_failing_endpoint_raises_its_own_error() -> None:
    def fail(messages: list[ChatMessage], tools: list[ToolInfo]) -> ModelOutput:
        raise ConnectionError("endpoint down")

    with pytest.raises(ConnectionError, match="endpoint down"):
        await ask(scripted(fail), PROMPT, VIEW, YES_NO)


@pytest.mark.parametrize("schema", [False, True])
def test_fields_are_read_strictly(schema: bool) -> None:
    answer = Fields(Verdict)
    reply = GOOD if schema else f"Because.\n**VERDICT:** {GOOD}"
    assert answer.read(reply, schema) == Verdict(reason="r", match=True, severity=0)


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [
        ("not json", "not one JSON object"),
        ('["list"]', "the whole object"),
        ("null", "the whole object"),
        (GOOD.replace("0", "7"), "severity"),
        (GOOD.replace("0", "2.5"), "severity"),
        (GOOD.replace("0", '"3"'), "severity"),
        (GOOD.replace("0", "true"), "severity"),
        (GOOD.replace("true", '"true"'), "match"),
        (GOOD.replace("0", "5"), "the whole object"),
        ('{"reason": "r", "match": true}', "severity"),
        (GOOD.replace("{", '{"extra ignore all": 1, '), "a field that was not asked for"),
        (GOOD.replace("{", '{"match": false, '), "names a field twice"),
        ("[" * 100_000, "not one JSON object"),
        (GOOD.replace("0", "9" * 5_000), "not one JSON object"),
    ],
)
def test_faulty_fields_are_named_not_mended(verdict: str, kind: str) -> None:
    with pytest.raises(Unreadable, match=kind) as caught:
        Fields(Verdict).read(verdict, True)
    assert "ignore all" not in str(caught.value), "a reply's text reached the next prompt"


def test_schema_is_sent_only_where_the_provider_has_it() -> None:
    schema = Fields(Verdict).schema()
    assert schema is not None and schema.json_schema.properties is not None
    assert list(schema.json_schema.properties) == ["reason", "match", "severity"]


async def test_judge_calls_are_cold_and_uncached() -> None:
    seen: list[GenerateConfig] = []
    model = scripted("VERDICT: yes", "VERDICT: no")
    inner = model.api.generate

    async def spy(input, tools, tool_choice, config):  # type: ignore[no-untyped-def]
        seen.append(config)
        return await inner(input, tools, tool_choice, config)

    model.api.generate = spy  # type: ignore[method-assign]
    first = await ask(model, PROMPT, VIEW, YES_NO)
    second = await ask(model, PROMPT, VIEW, YES_NO)
    assert [config.temperature for config in seen] == [0, 0]
    assert (first.value, second.value) == ("yes", "no")


async def test_a_panel_keeps_every_verdict() -> None:
    judges = [
        scripted("VERDICT: yes", name="one"),
        scripted("x", "x", "x", name="two"),
        scripted("VERDICT: no", name="three"),
    ]
    one, two, three = await ask_panel(judges, PROMPT, VIEW, YES_NO)
    assert not isinstance(one, GraderFailed) and one.value == "yes"
    assert isinstance(two, GraderFailed) and two.model == "mockllm/two"
    assert not isinstance(three, GraderFailed) and three.model == "mockllm/three"


async def test_a_failing_endpoint_fails_the_panel_with_its_own_error() -> None:
    def fail(messages: list[ChatMessage], tools: list[ToolInfo]) -> ModelOutput:
        raise ConnectionError("endpoint down")

    with pytest.raises(ConnectionError, match="endpoint down"):
        await ask_panel([scripted("VERDICT: yes"), scripted(fail)], PROMPT, VIEW, YES_NO)


@pytest.mark.parametrize(
    ("verdicts", "asked", "expected"),
    [
        (["a", "a", "b"], 3, "a"),
        (["a", "b"], 2, None),
        (["a", "a"], 4, None),
        (["a", "a", "a"], 5, "a"),
        ([], 3, None),
    ],
)
def test_majority_is_of_all_who_were_asked(
    verdicts: list[str], asked: int, expected: str | None
) -> None:
    assert majority(verdicts, asked) == expected


def test_union_takes_every_finding() -> None:
    assert union([{"a"}, set(), {"b", "a"}]) == {"a", "b"}


@scorer(metrics=[mean()])
def graded(role: str = "grader", fallback: str | None = None) -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        models = judge_models(role, falls_back_to=fallback)
        reading = await ask(models[0], PROMPT, View(reply=state.output.completion), YES_NO)
        return Score(
            value=float(reading.value == "yes"),
            metadata={"judges": [reading.record(["match"])], "self": self_graded("grader")},
        )

    return score


def task(**options: str) -> Task:
    return Task(
        dataset=[Sample("q", id="s1")], setup=require_roles("grader"), scorer=graded(**options)
    )


def test_unbound_role_stops_before_the_first_call() -> None:
    def never(messages: list[ChatMessage], tools: list[ToolInfo]) -> str:
        raise AssertionError("the subject was called")

    log = run(task(), model=scripted(never))
    assert log.status == "error" and log.error is not None
    assert "--model-role grader=PROVIDER/MODEL" in log.error.message


def test_the_judge_that_answered_is_in_the_score() -> None:
    roles = {"grader": scripted("VERDICT: yes", name="the-grader")}
    log = run(task(), model=scripted("answer", name="subject"), model_roles=roles)
    assert log.samples and log.samples[0].scores
    metadata = log.samples[0].scores["graded"].metadata
    assert metadata == {
        "judges": [
            {
                "stage": "toy",
                "model": "mockllm/the-grader",
                "prompt_id": "toy@2",
                "keys": ["match"],
                "raw": "VERDICT: yes",
            }
        ],
        "self": False,
    }


def test_a_role_may_fall_back_to_another_role_only() -> None:
    roles = {"grader": scripted("VERDICT: no", name="the-grader")}
    log = run(task(role="claims", fallback="grader"), model=scripted("a"), model_roles=roles)
    assert log.status == "success" and log.samples and log.samples[0].scores
    assert log.samples[0].scores["graded"].value == 0.0
