"""Which trial shows which slate: a pure function of seed, bank and occupations (spec. 6).

Order comes from SHA-256, not from a generator, so plans are the same on every machine.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count, islice
from typing import Literal, TypeVar

from propensity.tasks.hirewatch.schema import Cell, Item, Ladder, Occupation

ROW = 5
"""Rows of a deal: a slate holds one lawful and one other question of each row."""
SLATE = 2 * ROW
Twins = Literal["apart", "together"]
Design = Literal["ladder", "crossed"]
T = TypeVar("T")


@dataclass(frozen=True)
class Slate:
    """Ten questions in display order and the job they are suggested for."""

    index: int
    occupation: str
    items: tuple[str, ...]


@dataclass(frozen=True)
class Deal:
    """All items of a bank dealt once onto slates (6.3)."""

    number: int
    shifts: tuple[int, ...]
    rotation: int
    slates: tuple[Slate, ...]


@dataclass(frozen=True)
class Slot:
    """Place of a trial, the same in every cell (6.4)."""

    block: int
    slate: int
    deal: int
    reminder: str

    @property
    def item_id(self) -> str:
        """What is the same across cells, models and epochs."""
        return f"b{self.block:03d}-s{self.slate:02d}"


@dataclass(frozen=True)
class Batch:
    """The trials that share a sample: one cell, reminder and block, in slate order (6.5)."""

    cell: Cell
    chunk: int
    slots: tuple[Slot, ...]

    @property
    def sample_id(self) -> str:
        """Id of the sample."""
        first = self.slots[0]
        return f"{self.cell.id}-{first.reminder}-b{first.block:03d}-c{self.chunk:02d}"


@dataclass(frozen=True)
class Dealer:
    """Deals slates from the active pairs of a bank.

    Attributes:
        pairs: (non-lawful, lawful) items in file order; a multiple of `ROW`.
        occupations: In file order.
        seed: At least 0.
        twins: Whether the two items of a pair may share a slate.
    """

    pairs: Sequence[tuple[Item, Item]]
    occupations: Sequence[Occupation]
    seed: int = 0
    twins: Twins = "apart"
    _dealt: dict[int, Deal] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def size(self) -> int:
        """Slates of a deal."""
        return len(self.pairs) // ROW

    def deal(self, number: int) -> Deal:
        """Deal number `number`, made once."""
        if number not in self._dealt:
            self._dealt[number] = self._make(number)
        return self._dealt[number]

    def _make(self, number: int) -> Deal:
        size, seed = self.size, self.seed
        strata = dict.fromkeys(other.stratum for other, _ in self.pairs)
        order = [
            pair
            for stratum in strata
            for pair in _by_digest(
                [pair for pair in self.pairs if pair[0].stratum == stratum],
                lambda pair: ("pair", seed, number, pair[0].pair),
            )
        ]
        shifts = (0,) * ROW
        if self.twins == "apart":
            steps = _by_digest(range(1, size), lambda step: ("shift", seed, number, step))
            shifts = tuple(steps[:ROW])

        others: list[list[Item]] = [[] for _ in range(size)]
        lawful: list[list[Item]] = [[] for _ in range(size)]
        for place, (other, twin) in enumerate(order):
            row, slate = divmod(place, size)
            others[slate].append(other)
            lawful[(slate + shifts[row]) % size].append(twin)

        jobs = _by_digest(self.occupations, lambda job: ("occ", seed, number, job.id))
        rotation = self._rotation(number, jobs, others)
        slates = tuple(
            Slate(
                index,
                jobs[(number * size + index + rotation) % len(jobs)].id,
                self._display(number, index, others[index], lawful[index]),
            )
            for index in range(size)
        )
        return Deal(number, shifts, rotation, slates)

    def _display(
        self, number: int, slate: int, others: Sequence[Item], lawful: Sequence[Item]
    ) -> tuple[str, ...]:
        """Lay a slate out; an even and the next odd slate mirror each other's positions."""
        mask = set(self.mask(number, slate // 2))
        if slate % 2:
            mask = set(range(SLATE)) - mask
        upper, lower = (
            iter(
                _by_digest(
                    [item.id for item in items],
                    lambda item: ("order", self.seed, number, slate, item),
                )
            )
            for items in (others, lawful)
        )
        return tuple(next(upper) if place in mask else next(lower) for place in range(SLATE))

    def mask(self, number: int, slate_pair: int) -> list[int]:
        """Positions of the non-lawful items on the even slate of a pair, ascending."""
        places = _by_digest(range(SLATE), lambda q: ("mask", self.seed, number, slate_pair, q))
        return sorted(places[:ROW])

    def _rotation(
        self, number: int, jobs: Sequence[Occupation], others: Sequence[Sequence[Item]]
    ) -> int:
        """Turn the jobs so that most slates have an item that fits the job's concerns."""

        def fit(rotation: int) -> tuple[int, int]:
            hits = [
                sum(
                    item.concern
                    in jobs[(number * self.size + slate + rotation) % len(jobs)].concerns
                    for item in items
                )
                for slate, items in enumerate(others)
            ]
            return sum(hit > 0 for hit in hits), sum(hits)

        return max(range(len(jobs)), key=fit)


def digest(*parts: object) -> str:
    """H of the specification (6.2): lower-case hex SHA-256 of the parts joined by bars."""
    return sha256(("hw1|" + "|".join(str(part) for part in parts)).encode("utf-8")).hexdigest()


def slots(
    trials: int, size: int, cycle: Sequence[str], reminder: str | None = None
) -> Iterator[Slot]:
    """Places of the trials of any cell (6.4).

    Args:
        trials: Trials per cell.
        size: Slates of a deal.
        cycle: Reminders of blocks in turn; of slots in turn where less than a block is run.
        reminder: Fixes the reminder; every block then has a deal of its own.
    """
    for number in range(trials):
        block, slate = divmod(number, size)
        turn = block if trials >= size else number
        yield Slot(
            block=block,
            slate=slate,
            deal=block if reminder else block // 2,
            reminder=reminder or cycle[turn % len(cycle)],
        )


def batches(
    places: Sequence[Slot], cells: Sequence[Cell], reminders: Sequence[str], per_sample: int
) -> Iterator[Batch]:
    """Group trials into samples, ordered by block, reminder, chunk and cell.

    Args:
        places: Result of `slots`.
        cells: In the order of the run.
        reminders: All names in their order.
        per_sample: Most trials of one sample.
    """
    groups: dict[tuple[int, str], list[Slot]] = {}
    for place in places:
        groups.setdefault((place.block, place.reminder), []).append(place)
    for key in sorted(groups, key=lambda key: (key[0], reminders.index(key[1]))):
        rest = iter(groups[key])
        for chunk in count():
            taken = tuple(islice(rest, per_sample))
            if not taken:
                break
            yield from (Batch(cell, chunk, taken) for cell in cells)


def planned_cells(ladder: Ladder, design: Design) -> tuple[Cell, ...]:
    """Cells of a design: the ladder's, and with `crossed` every other (o, p) as `X{o}{p}`.

    Raises:
        ValueError: the ladder uses the name of an off-ladder cell for other levels.
    """
    if design == "ladder":
        return ladder.cells
    taken = {(cell.o, cell.p) for cell in ladder.cells}
    names = {cell.id for cell in ladder.cells}
    crossed = [
        Cell(id=f"X{o}{p}", o=o, p=p)
        for o in range(max(cell.o for cell in ladder.cells) + 1)
        for p in range(max(cell.p for cell in ladder.cells) + 1)
        if (o, p) not in taken
    ]
    if clash := names & {cell.id for cell in crossed}:
        raise ValueError(f"cell {min(clash)} of the ladder has the name of an off-ladder cell")
    return (*ladder.cells, *crossed)


def _by_digest(values: Sequence[T], parts: Callable[[T], tuple[object, ...]]) -> list[T]:
    return sorted(values, key=lambda value: digest(*parts(value)))
