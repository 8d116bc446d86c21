"""The wire of an exec: frames of the Engine API, and buffers that keep what limits allow."""

STDOUT, STDERR = 1, 2
HEADER = 8


class Frames:
    """Splits the attached stream of an exec into (stream, bytes) pieces.

    A frame is one byte of stream id, three of padding, four of length (big-endian), then the
    payload. Input may arrive cut anywhere.
    """

    def __init__(self) -> None:
        self._head = bytearray()
        self._stream = 0
        self._left = 0

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The pieces that `data` completes or continues, in order."""
        pieces = []
        at = 0
        while at < len(data):
            if self._left == 0:
                taken = data[at : at + HEADER - len(self._head)]
                self._head += taken
                at += len(taken)
                if len(self._head) == HEADER:
                    self._stream = self._head[0]
                    self._left = int.from_bytes(self._head[4:], "big")
                    self._head.clear()
                continue
            piece = data[at : at + self._left]
            pieces.append((self._stream, piece))
            self._left -= len(piece)
            at += len(piece)
        return pieces

    @property
    def whole(self) -> bool:
        """Whether the stream ended between two frames."""
        return not self._head and self._left == 0


class Tail:
    """Keeps the last `limit` bytes of what is added."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self.seen = 0

    def add(self, data: bytes) -> None:
        """Append; memory stays below twice the limit."""
        self.seen += len(data)
        self._kept += data
        if len(self._kept) >= 2 * self._limit:
            del self._kept[: -self._limit]

    def bytes(self) -> bytes:
        """What is kept; if something was cut off, it begins with a whole UTF-8 character."""
        kept = bytes(self._kept[-self._limit :])
        if self.seen <= self._limit:
            return kept
        cut = 0
        while cut < 3 and kept[cut : cut + 1] and kept[cut] & 0xC0 == 0x80:
            cut += 1
        return kept[cut:]
