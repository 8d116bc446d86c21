"""A process that writes runs into a store; it imports little, since eight of them start."""

from propensity.results.store import Store
from propensity.results.store.schema import FROM_LOGS, LogTables, Row, to_arrow


def made(eval_id: str, value: float = 1.0, units: int = 3, task: str = "toy") -> LogTables:
    """The rows of a log that was never run."""
    shared: Row = {"eval_id": eval_id, "task": task, "epoch": 1}
    units_of = [shared | {"unit_id": f"u{n}", "item_id": f"i{n}"} for n in range(units)]
    run_of = {"eval_id": eval_id, "task": task, "log_sha256": eval_id, "planned": units}
    rows: dict[str, list[Row]] = {
        "samples": [shared | {"sample_id": f"s{n}"} for n in range(units)],
        "units": [one | {"status": "scored"} for one in units_of],
        "scores": [one | {"key": "hit", "value": value} for one in units_of],
        "runs": [run_of],
    }
    return LogTables(eval_id, task, {name: to_arrow(name, rows[name]) for name in FROM_LOGS})


def write_many(place: str, writer: int, runs: int) -> None:
    """Write runs of this writer, then one that every writer writes."""
    for number in range(runs):
        Store(place).write(made(f"w{writer}-r{number}", value=float(writer)))
    Store(place).write(made("everybodys", value=float(writer)))
