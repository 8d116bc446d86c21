"""The same store behind an S3-compatible address."""

import logging
import socket
import time
from collections.abc import Iterator

import pytest

from propensity.results.store import StoreMissing, StoreUnreachable, open_store
from propensity.results.store.ingest import ingest
from tests.results.test_store import counts
from tests.results.toys import sample, toy
from tests.results.writers import made
from tests.support import run


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty place in a bucket on a loopback server."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    _environment(monkeypatch, f"http://{host}:{port}")
    boto3.client("s3").create_bucket(Bucket="results")
    yield f"s3://results/{request.node.name}"
    server.stop()


def _environment(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)


def test_an_object_store_is_read_and_written_like_a_folder(bucket: str) -> None:
    store = open_store(bucket)
    with pytest.raises(StoreMissing, match=f"there is no results store at {bucket}"):
        store.runs()
    log = run(toy([sample("a"), sample("b")]))
    for _ in range(2):
        assert not ingest([log.location], store).left_out
    store.write(made("e1"))
    store.write(made("e1", units=2))
    assert counts(store) == {"runs": 2, "samples": 4, "units": 4, "scores": 4}
    assert open_store(f"{bucket}/").url == bucket


def test_the_hook_fills_an_object_store(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROPENSITY_STORE", bucket)
    log = run(toy([sample("a")]))
    assert open_store().runs()["eval_id"].tolist() == [log.eval.eval_id]


def test_a_missing_bucket_is_out_of_reach(bucket: str) -> None:
    with pytest.raises(StoreUnreachable, match="s3://nobodys/x cannot be reached"):
        open_store("s3://nobodys/x").write(made("e1"))


def test_a_silent_address_costs_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        _environment(monkeypatch, f"http://127.0.0.1:{listener.getsockname()[1]}")
        start = time.monotonic()
        with pytest.raises(StoreUnreachable):
            open_store("s3://results/x", hurried=True).write(made("e1"))
        assert time.monotonic() - start < 30
