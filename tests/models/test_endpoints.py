"""The ordinary way to a model: the vendors' own clients, against a server on loopback."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    Model,
    ModelOutput,
    ResponseSchema,
    get_model,
)
from inspect_ai.solver import generate
from inspect_ai.util import JSONSchema

from tests.models.loopback import SAID, TOKENS_IN, TOKENS_OUT, Loopback, Reply, serving
from tests.support import run

KEY = "sk-secret-0123456789"
SCHEMA = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}


class Endpoint(NamedTuple):
    """How one kind of endpoint is named, reached and asked."""

    model: str
    variables: str
    base: str
    path: str
    stream: str


CHAT = "/v1/chat/completions"
OPENAI = Endpoint("openai/gpt-4o-mini", "OPENAI", "/v1", CHAT, "streaming")
COMPATIBLE = Endpoint("openai-api/acme-labs/tiny", "ACME_LABS", "/v1", CHAT, "stream")
ANTHROPIC = Endpoint("anthropic/claude-haiku-5-5", "ANTHROPIC", "", "/v1/messages", "streaming")
RESPONSES = OPENAI._replace(model="openai/gpt-5-mini", path="/v1/responses")


@pytest.fixture(params=[OPENAI, COMPATIBLE, ANTHROPIC], ids=lambda e: e.model.split("/")[0])
def endpoint(request: pytest.FixtureRequest) -> Endpoint:
    chosen: Endpoint = request.param
    return chosen


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with serving() as loopback:
        for endpoint in (OPENAI, COMPATIBLE, ANTHROPIC):
            monkeypatch.setenv(f"{endpoint.variables}_API_KEY", KEY)
            monkeypatch.setenv(f"{endpoint.variables}_BASE_URL", loopback.url + endpoint.base)
        yield loopback


async def ask(endpoint: Endpoint, arguments: dict[str, Any] | None = None, **config: Any) -> Any:
    """Ask one question through the endpoint's own client."""
    question: list[ChatMessage] = [
        ChatMessageSystem(content="Be brief."),
        ChatMessageUser(content="Yes or no?"),
    ]
    settings: dict[str, Any] = {"max_tokens": 64, "temperature": 0.5} | config
    model: Model = get_model(endpoint.model, memoize=False, **(arguments or {}))
    async with model:
        return await model.generate(question, config=GenerateConfig(**settings))


def check(output: ModelOutput) -> None:
    """Check that the ordinary answer was read whole."""
    assert (output.completion, output.stop_reason) == (SAID, "stop")
    assert output.usage is not None
    assert (output.usage.input_tokens, output.usage.output_tokens) == (TOKENS_IN, TOKENS_OUT)


pytestmark = pytest.mark.anyio


async def test_the_request_is_right_and_the_answer_read(
    server: Loopback, endpoint: Endpoint
) -> None:
    check(await ask(endpoint))
    [request] = server.requests
    assert request.path == endpoint.path
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body["model"] == endpoint.model.split("/")[-1]
    assert request.body["max_tokens"] == 64
    # Anthropic's API knows no temperature any more; Inspect warns and leaves it out.
    assert request.body.get("temperature") == (None if endpoint is ANTHROPIC else 0.5)
    assert not request.body.get("stream")
    said = json.dumps(request.body)
    assert said.index("Be brief.") and said.index("Yes or no?")
    assert [m["role"] for m in request.body["messages"]][-1] == "user"


async def test_the_responses_api_is_used_where_it_is_preferred(server: Loopback) -> None:
    check(await ask(RESPONSES, temperature=None))
    # Inspect first asks once whether the account may see summaries of the reasoning.
    assert {request.path for request in server.requests} == {"/v1/responses"}
    body = server.requests[-1].body
    assert (body["model"], body["max_output_tokens"]) == ("gpt-5-mini", 64)


async def test_seed_and_stop_reach_an_openai_endpoint(server: Loopback) -> None:
    await ask(COMPATIBLE, seed=7, top_p=0.9, stop_seqs=["END"])
    body = server.requests[0].body
    assert (body["seed"], body["top_p"], body["stop"]) == (7, 0.9, ["END"])


async def test_a_response_schema_is_sent(server: Loopback, endpoint: Endpoint) -> None:
    schema = ResponseSchema(name="verdict", json_schema=JSONSchema.model_validate(SCHEMA))
    await ask(endpoint, response_schema=schema)
    body = server.requests[0].body
    if endpoint is ANTHROPIC:
        assert body["output_format"]["type"] == "json_schema"
        sent = body["output_format"]["schema"]
    else:
        assert body["response_format"]["type"] == "json_schema"
        assert body["response_format"]["json_schema"]["name"] == "verdict"
        sent = body["response_format"]["json_schema"]["schema"]
    assert (sent["type"], sent["required"]) == ("object", ["yes"])
    assert sent["properties"]["yes"]["type"] == "boolean"


async def test_a_streamed_answer_is_the_same(server: Loopback, endpoint: Endpoint) -> None:
    check(await ask(endpoint, {endpoint.stream: True}))
    assert server.requests[0].body["stream"] is True


async def test_a_rate_limit_is_waited_out(server: Loopback, endpoint: Endpoint) -> None:
    server.replies.append(Reply(429, {"Retry-After": "1"}))
    check(await ask(endpoint))
    first, second = server.requests
    assert 1 <= second.at - first.at < 5
    assert first.body == second.body


async def test_a_server_error_is_tried_again(server: Loopback, endpoint: Endpoint) -> None:
    server.replies.append(Reply(500))
    check(await ask(endpoint))
    assert len(server.requests) == 2


async def test_inspect_backs_off_where_the_client_gives_up(
    server: Loopback, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    real_sleep = anyio.sleep

    async def quick(seconds: float) -> None:
        waits.append(seconds)
        await real_sleep(0)

    monkeypatch.setattr(anyio, "sleep", quick)
    server.replies.extend([Reply(500), Reply(429)])
    check(await ask(endpoint, {"max_retries": 0}))
    assert len(server.requests) == 3
    assert [wait for wait in waits if wait >= 3]


async def test_retries_end_where_they_were_told_to(server: Loopback, endpoint: Endpoint) -> None:
    server.replies.extend([Reply(500)] * 5)
    with pytest.raises(Exception, match="InternalServerError"):
        await ask(endpoint, {"max_retries": 0}, max_retries=0)
    assert len(server.requests) == 1


async def test_a_wrong_key_is_one_request_and_a_clear_error(
    server: Loopback, endpoint: Endpoint
) -> None:
    server.replies.extend([Reply(401, message="this key is not known")] * 5)
    with pytest.raises(Exception, match="401") as caught:
        await ask(endpoint)
    assert "this key is not known" in str(caught.value)
    assert KEY not in str(caught.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize("variable", ["API_KEY", "BASE_URL"])
async def test_what_is_not_set_is_named(
    server: Loopback, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv(f"ACME_LABS_{variable}")
    with pytest.raises(Exception) as caught:
        await ask(COMPATIBLE)
    assert f"ACME_LABS_{variable}" in str(vars(caught.value))
    assert server.requests == []


@pytest.mark.parametrize("status", [200, 401])
def test_no_key_gets_into_a_log(
    server: Loopback, endpoint: Endpoint, tmp_path: Path, status: int
) -> None:
    if status != 200:
        server.replies.extend([Reply(status, message="this key is not known")] * 5)
    log = run(
        Task(dataset=[Sample(id="s", input="Yes or no?")], solver=generate()),
        model=get_model(endpoint.model, memoize=False),
        log_dir=str(tmp_path / "logs"),
        log_format="json",
        log_model_api=True,
        score=False,
    )
    assert log.status == ("success" if status == 200 else "error")
    assert len(server.requests) == 1
    if status == 200:
        assert log.stats.model_usage[endpoint.model].total_tokens == 16
    written = [path.read_text(encoding="utf-8") for path in (tmp_path / "logs").rglob("*.json")]
    assert written and not any(KEY in text for text in written)
    assert all(SAID in text or "this key is not known" in text for text in written)
