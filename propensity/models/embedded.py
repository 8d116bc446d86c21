"""Model provider `embedded`: real weights, run by llama.cpp inside this process."""

import os
import threading
import time
from typing import Any

from anyio import to_thread
from inspect_ai.model import (
    ChatMessage,
    GenerateConfig,
    ModelAPI,
    ModelCall,
    ModelOutput,
    messages_to_openai,
    model_output_from_openai,
    modelapi,
)
from inspect_ai.tool import ToolChoice, ToolFunction, ToolInfo
from inspect_ai.util import concurrency

from propensity.common.params import Checks
from propensity.models.llama import (
    ContextExceeded,
    Llama,
    Settings,
    acquire,
    release,
    require_llama_cpp,
)
from propensity.models.tools import answer_schema, read_answer, with_instructions
from propensity.models.weights import find_weights

SLOTS = 4
CONTEXT = 8192
MAX_TOKENS = 1024
MAX_THREADS = 8

ARGUMENTS = ("path", "slots", "context", "threads", "cache_prompt")

# Inspect's name -> llama.cpp's name. What is not set stays llama.cpp's default.
PARAMETERS = {
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
    "stop_seqs": "stop",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "logit_bias": "logit_bias",
    "logprobs": "logprobs",
    "top_logprobs": "top_logprobs",
}


async def chat_request(
    messages: list[ChatMessage],
    tools: list[ToolInfo],
    tool_choice: ToolChoice,
    config: GenerateConfig,
    *,
    template_has_tools: bool,
) -> dict[str, Any]:
    """Turn Inspect's request into an OpenAI chat request for llama.cpp."""
    request: dict[str, Any] = {
        theirs: value
        for ours, theirs in PARAMETERS.items()
        if (value := getattr(config, ours)) is not None
    }
    schema: dict[str, Any] | None = None
    if config.response_schema:
        schema = config.response_schema.json_schema.model_dump(exclude_none=True)
    # llama.cpp cannot force one tool of several, so that one alone is offered.
    if isinstance(tool_choice, ToolFunction):
        tools = [tool for tool in tools if tool.name == tool_choice.name]
    elif tool_choice == "none":
        tools = []
    forced = tool_choice != "auto"
    said: list[Any] = list(await messages_to_openai(messages))
    if not template_has_tools:
        said = with_instructions(said, tools)
        schema = answer_schema(tools, forced, schema) if tools else schema
    elif tools:
        request["tools"] = [
            {"type": "function", "function": tool.model_dump(exclude_none=True)} for tool in tools
        ]
        request["tool_choice"] = "required" if forced else "auto"
    if schema:
        answer = {"name": "answer", "schema": schema}
        request["response_format"] = {"type": "json_schema", "json_schema": answer}
    return request | (config.extra_body or {}) | {"messages": said}


class EmbeddedAPI(ModelAPI):
    """Answers with a GGUF model; servers are shared by all models of equal settings."""

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig | None = None,
        *,
        path: str | None = None,
        slots: int = SLOTS,
        context: int = CONTEXT,
        threads: int | None = None,
        cache_prompt: bool = False,
        **unknown: Any,
    ) -> None:
        """Find the weights; they are loaded by the first request.

        Args:
            model_name: Name of a packaged model; any name if `path` is given.
            base_url: Not used.
            api_key: Not used.
            config: Not used here.
            path: GGUF file, or `hf://<owner>/<repository>@<commit>/<file>.gguf`.
            slots: Requests answered at the same time, 1 to 64.
            context: Tokens of prompt and answer together, from 256; at most the model's own.
            threads: Threads that compute; default: the usable cores, at most 8.
            cache_prompt: Reuse the computed prefix of an earlier prompt. Faster for agents, but
                an answer then depends, in rare digits, on what was asked before.
            **unknown: Refused.

        Raises:
            ImportError: llama.cpp or the packaged weights are not installed.
            FileNotFoundError: There is no such file.
            TypeError: An argument does not exist.
            ValueError: An argument's value is not allowed.
        """
        super().__init__(model_name, base_url, api_key, [], config or GenerateConfig())
        cores = min(_usable_cores(), MAX_THREADS)
        checks = Checks("embedded")
        checks.unknown(unknown, ARGUMENTS)
        checks.text("path", path)
        checks.integer("slots", slots, low=1, high=64)
        checks.integer("context", context, low=256)
        checks.integer("threads", cores if threads is None else threads, low=1)
        checks.boolean("cache_prompt", cache_prompt)
        checks.done()
        require_llama_cpp()
        self.settings = Settings(find_weights(model_name, path), slots, context, threads or cores)
        self.cache_prompt = cache_prompt
        self._llama: Llama | None = None
        self._starting = threading.Lock()

    async def generate(
        self,
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> tuple[ModelOutput, ModelCall]:
        """Answer one request.

        Raises:
            LlamaError: llama.cpp cannot load the weights, or refused the request.
            ValueError: More than one choice was asked for.
        """
        if (config.num_choices or 1) > 1:
            raise ValueError("embedded models give one choice per request: use epochs instead")
        llama = await to_thread.run_sync(self._started)
        request = await chat_request(
            input, tools, tool_choice, config, template_has_tools=llama.template_has_tools
        )
        request["cache_prompt"] = self.cache_prompt
        cancelled = threading.Event()
        async with concurrency(f"embedded/{self.model_name}", self.settings.slots, visible=False):
            started = time.monotonic()
            try:
                response = await to_thread.run_sync(
                    llama.chat, request, cancelled, abandon_on_cancel=True
                )
            except ContextExceeded as error:
                output = ModelOutput.from_content(
                    self.model_name, str(error), stop_reason="model_length"
                )
                return output, ModelCall.create(request, {"error": str(error)})
            finally:
                cancelled.set()
        call = ModelCall.create(request, response, time=time.monotonic() - started)
        read_tools = bool(tools) and tool_choice != "none" and not llama.template_has_tools
        return await self._output(response, read_tools, llama.context), call

    async def aclose(self) -> None:
        """Give the server back; the last model that used it stops it."""
        with self._starting:
            llama, self._llama = self._llama, None
        if llama is not None:
            await to_thread.run_sync(release, llama)

    async def count_text_tokens(self, text: str) -> int:
        """Count tokens with the model's own tokenizer."""
        llama = await to_thread.run_sync(self._started)
        return await to_thread.run_sync(llama.count_tokens, text)

    def max_tokens(self) -> int:
        """Bound answers: a small model easily repeats itself until the context is full."""
        return MAX_TOKENS

    def max_connections(self) -> int:
        """Return the number of slots."""
        return self.settings.slots

    def connection_key(self) -> str:
        """Share connections between models that share a server."""
        return str(self.settings)

    def _started(self) -> Llama:
        with self._starting:
            if self._llama is None:
                self._llama = acquire(self.settings)
            return self._llama

    async def _output(
        self, response: dict[str, Any], read_tools: bool, context: int
    ) -> ModelOutput:
        # llama.cpp names the model by the path of its file.
        response = {**response, "model": self.model_name}
        if read_tools:
            choice = response["choices"][0]
            answer = read_answer(choice["message"].get("content") or "", response["id"])
            response["choices"] = [{**choice, "message": {**choice["message"], **answer}}]
        output = await model_output_from_openai(response)
        usage = output.usage
        if output.message.tool_calls and output.stop_reason == "stop":
            output.choices[0].stop_reason = "tool_calls"
        if output.stop_reason == "max_tokens" and usage:
            if usage.total_tokens >= context:
                output.choices[0].stop_reason = "model_length"
        return output


def _usable_cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@modelapi("embedded")
def embedded() -> type[ModelAPI]:
    """Provider of models that run inside this process."""
    return EmbeddedAPI
