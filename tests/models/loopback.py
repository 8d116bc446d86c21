"""A server on loopback that answers as the big providers do, and remembers what it was asked."""

import json
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

SAID = "The answer is yes."
TOKENS_IN, TOKENS_OUT = 11, 5


class Request(NamedTuple):
    """What was asked; header names in lower case, `at` in seconds of a steady clock."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float


class Reply(NamedTuple):
    """What to answer instead of the ordinary answer."""

    status: int
    headers: dict[str, str] = {}
    message: str = "a fault made for a test"


@dataclass
class Loopback:
    """A running server.

    Attributes:
        url: Its address, without a path.
        requests: What it was asked so far.
        replies: Answers to the next requests, before the ordinary ones.
    """

    url: str = ""
    requests: list[Request] = field(default_factory=list)
    replies: deque[Reply] = field(default_factory=deque)


def chat_completion(model: str) -> dict[str, Any]:
    """Return an answer of OpenAI's chat API."""
    usage = {"prompt_tokens": TOKENS_IN, "completion_tokens": TOKENS_OUT, "total_tokens": 16}
    message = {"role": "assistant", "content": SAID}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [choice],
        "usage": usage,
    }


def chat_chunks(model: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events of a streamed answer of OpenAI's chat API."""
    start = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}
    for word in SAID.split(" "):
        text = word if SAID.startswith(word) else f" {word}"
        delta = {"role": "assistant", "content": text}
        yield "", start | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield "", start | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    yield "", start | {"choices": [], "usage": chat_completion(model)["usage"]}


def response(model: str) -> dict[str, Any]:
    """Return an answer of OpenAI's responses API."""
    content = {"type": "output_text", "text": SAID, "annotations": []}
    message = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant"}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": model,
        "output": [message | {"content": [content]}],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": TOKENS_IN,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": TOKENS_OUT,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 16,
        },
    }


def message(model: str) -> dict[str, Any]:
    """Return an answer of Anthropic's messages API."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": SAID}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": TOKENS_IN, "output_tokens": TOKENS_OUT},
    }


def message_events(model: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events of a streamed answer of Anthropic's messages API."""
    empty = message(model) | {"content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": empty},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": SAID},
        },
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": TOKENS_OUT},
        },
        {"type": "message_stop"},
    ]
    for event in events:
        yield event["type"], event


WHOLE = {
    "/v1/chat/completions": chat_completion,
    "/v1/responses": response,
    "/v1/messages": message,
}
STREAMED = {"/v1/chat/completions": chat_chunks, "/v1/messages": message_events}


@contextmanager
def serving() -> Iterator[Loopback]:
    """Run a server on a free port of loopback."""
    loopback = Loopback()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # noqa: N802
            length = int(self.headers["Content-Length"])
            body = json.loads(self.rfile.read(length))
            path = self.path.split("?")[0]
            headers = {name.lower(): value for name, value in self.headers.items()}
            loopback.requests.append(Request(path, headers, body, time.monotonic()))
            if loopback.replies:
                reply = loopback.replies.popleft()
                error = {"type": "test_error", "message": reply.message}
                self.answer(reply.status, {"type": "error", "error": error}, reply.headers)
            elif body.get("stream"):
                self.stream(STREAMED[path](body["model"]), done=path.endswith("completions"))
            else:
                self.answer(200, WHOLE[path](body["model"]), {})

        def answer(self, status: int, body: object, headers: dict[str, str]) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def stream(self, events: Iterator[tuple[str, dict[str, Any]]], done: bool) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for name, event in events:
                named = f"event: {name}\n" if name else ""
                self.wfile.write(f"{named}data: {json.dumps(event)}\n\n".encode())
            if done:
                self.wfile.write(b"data: [DONE]\n\n")
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        loopback.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield loopback
        finally:
            server.shutdown()
            thread.join()
