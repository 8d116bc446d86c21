"""llama.cpp servers in this process, one for each choice of weights and settings."""

import atexit
import http.client
import importlib.util
import json
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from propensity.models.weights import HubFile, fetched


class LlamaError(RuntimeError):
    """llama.cpp could not load the weights, or refused or broke off a request."""


class ContextExceeded(LlamaError):
    """The prompt is longer than the context of one slot."""


@dataclass(frozen=True)
class Settings:
    """What makes two servers different.

    Attributes:
        weights: The GGUF file.
        slots: Requests answered at the same time; more of them wait.
        context: Tokens of prompt and answer together that each slot should hold.
        threads: Threads that compute.
    """

    weights: Path | HubFile
    slots: int
    context: int
    threads: int


def require_llama_cpp() -> None:
    """Raise `ImportError` with what to install if llama.cpp or what it needs is missing."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise ImportError(
            "embedded models need llama.cpp, which is not installed: "
            "pip install 'propensity[embedded]'"
        )
    try:
        importlib.import_module("xllamacpp")
    except ImportError as error:
        advice = (
            "; install OpenMP (Debian: apt-get install libgomp1)" if "gomp" in str(error) else ""
        )
        raise ImportError(f"llama.cpp cannot be loaded: {error}{advice}") from error


class Llama:
    """A running server; its methods block and may be called from several threads.

    It listens on a Unix socket in a folder of its own, never on a port.

    Attributes:
        settings: What it was started with.
        users: How many have acquired it and not yet released it.
        context: Tokens that fit into one slot.
        template_has_tools: Whether the model's chat template can show tools.
    """

    def __init__(self, settings: Settings) -> None:
        """Load the weights.

        Raises:
            LlamaError: llama.cpp cannot use them.
            FileNotFoundError: They could not be fetched.
        """
        self.settings = settings
        self.users = 0
        self._quiet = threading.Condition()
        self._active = 0
        self._closing = False
        weights = fetched(settings.weights)
        # The address of a Unix socket holds about a hundred characters.
        parent = tempfile.gettempdir()
        self._folder = tempfile.mkdtemp(
            prefix="propensity-", dir=parent if len(parent) < 70 else "/tmp"
        )
        self._socket = os.path.join(self._folder, "llama.sock")
        try:
            self._server: Any = _server(weights, settings, self._socket)
        except RuntimeError as error:
            shutil.rmtree(self._folder)
            raise LlamaError(
                f"llama.cpp cannot load {weights.name}: check that it is whole, that it is a "
                "language model, and that there is memory for it (fewer slots, less context)"
            ) from error
        properties = self._http("GET", "/props")
        # Rounded to whole blocks, and no more than the model was trained for.
        self.context = int(properties["default_generation_settings"]["n_ctx"])
        self.template_has_tools = bool(properties["chat_template_caps"]["supports_tools"])

    def chat(self, request: Mapping[str, Any], cancelled: threading.Event) -> dict[str, Any]:
        """Answer one OpenAI chat request; generation stops soon after `cancelled` is set.

        Returns:
            The chat completion, with usage.

        Raises:
            ContextExceeded: The prompt does not fit into a slot.
            LlamaError: llama.cpp refused the request or broke it off.
        """
        received: list[bytes] = []

        def receive(chunk: bytes) -> bool:
            received.append(chunk)
            return self._closing or cancelled.is_set()

        streamed = {**request, "stream": True, "stream_options": {"include_usage": True}}
        # A lone surrogate is no text that llama.cpp could read.
        body = json.dumps(streamed, ensure_ascii=False).encode("utf-8", "replace")
        with self._in_use():
            try:
                self._server.handle_chat_completions(body, receive)
            except (RuntimeError, ValueError) as error:
                raise LlamaError(f"llama.cpp refused the request: {error}") from error
        return _completion([json.loads(chunk) for chunk in received])

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text."""
        with self._in_use():
            return len(self._http("POST", "/tokenize", {"content": text})["tokens"])

    def close(self) -> None:
        """Stop what is being generated, then the server and its threads."""
        with self._quiet:
            self._closing = True
            self._quiet.wait_for(lambda: self._active == 0)
            self._server = None
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        with self._quiet:
            if self._closing:
                raise LlamaError("this llama.cpp server was closed")
            self._active += 1
        try:
            yield
        finally:
            with self._quiet:
                self._active -= 1
                self._quiet.notify_all()

    def _http(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        connection = http.client.HTTPConnection("llama")
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.connect(self._socket)
            text = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
            connection.request(method, path, text, {"Content-Type": "application/json"})
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return answer


_running: dict[Settings, Llama] = {}
_lock = threading.Lock()


def acquire(settings: Settings) -> Llama:
    """Return the process's server for these settings, started if need be."""
    with _lock:
        llama = _running.get(settings)
        if llama is None:
            llama = _running[settings] = Llama(settings)
        llama.users += 1
        return llama


def release(llama: Llama) -> None:
    """Give a server back; the last user's release closes it."""
    with _lock:
        llama.users -= 1
        if llama.users == 0 and _running.get(llama.settings) is llama:
            del _running[llama.settings]
            llama.close()


@atexit.register
def close_all() -> None:
    """Close every server of this process."""
    with _lock:
        while _running:
            _running.popitem()[1].close()


def _server(weights: Path, settings: Settings, address: str) -> Any:
    # OpenMP reads this when it is loaded. By default a thread that waits for the others burns
    # its core: on two cores with other work that made generation five times slower.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.hostnames = [address]
    params.n_threads_http = 1
    params.verbosity = -1
    params.ui = False
    params.n_parallel = settings.slots
    params.n_ctx = settings.slots * settings.context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
    params.fit_params = False
    params.warmup = False
    params.cache_ram_mib = 0
    # With flash attention an answer depends on what the other slots are doing.
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    return xllamacpp.Server(params)


def _completion(chunks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    from openai.lib.streaming.chat import ChatCompletionStreamState
    from openai.types.chat import ChatCompletionChunk

    state = ChatCompletionStreamState[None]()
    for chunk in chunks:
        if error := chunk.get("error"):
            kind = ContextExceeded if error["type"] == "exceed_context_size_error" else LlamaError
            raise kind(error["message"])
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
    if not chunks or not chunks[-1].get("usage"):
        raise LlamaError("llama.cpp broke the answer off")
    return state.current_completion_snapshot.model_dump(mode="json", exclude_none=True)
