"""Frames of an exec's stream, and buffers that keep the end of it."""

from hypothesis import given
from hypothesis import strategies as st

from propensity.sandboxes.provider.streams import STDERR, STDOUT, Frames, Tail


def frame(stream: int, data: bytes) -> bytes:
    """One frame of the Engine API."""
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


pieces = st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), st.binary(max_size=40)), max_size=8)


@given(pieces, st.lists(st.integers(0, 400), max_size=12))
def test_frames_may_be_cut_anywhere(sent: list[tuple[int, bytes]], cuts: list[int]) -> None:
    wire = b"".join(frame(stream, data) for stream, data in sent)
    frames = Frames()
    got = {STDOUT: b"", STDERR: b""}
    edges = [0, *sorted(min(cut, len(wire)) for cut in cuts), len(wire)]
    for start, end in zip(edges, edges[1:], strict=False):
        for stream, data in frames.feed(wire[start:end]):
            got[stream] += data
    for stream in got:
        assert got[stream] == b"".join(data for kind, data in sent if kind == stream)
    assert frames.whole


def test_a_stream_that_ends_inside_a_frame_is_not_whole() -> None:
    frames = Frames()
    assert frames.feed(frame(STDOUT, b"hello")[:-2]) == [(STDOUT, b"hel")]
    assert not frames.whole


@given(st.lists(st.binary(max_size=30)), st.integers(1, 50))
def test_tail_keeps_the_end(chunks: list[bytes], limit: int) -> None:
    tail = Tail(limit)
    for chunk in chunks:
        tail.add(chunk)
    whole = b"".join(chunks)
    assert tail.seen == len(whole)
    if len(whole) <= limit:
        assert tail.bytes() == whole
    else:
        assert whole.endswith(tail.bytes())
        assert limit - 3 <= len(tail.bytes()) <= limit


@given(st.text(alphabet="aé€😀"), st.integers(4, 20))
def test_tail_of_text_begins_with_a_whole_character(text: str, limit: int) -> None:
    tail = Tail(limit)
    tail.add(text.encode())
    assert text.endswith(tail.bytes().decode())
