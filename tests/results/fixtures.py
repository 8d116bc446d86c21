"""Published and computed figures that the statistics must reproduce."""

import csv
import json
from pathlib import Path
from typing import Any

from propensity.results.stats.items import Items, by_item

DATA = Path(__file__).parent.parent / "data" / "stats"
NAN = float("nan")


def load(name: str) -> Any:
    """A JSON fixture."""
    return json.loads((DATA / name).read_text(encoding="utf-8"))


def paired_60x3(model: str, *, epoch: str | None = None, clusters: bool = True) -> Items:
    """One model of two, 60 items in 12 clusters, 3 epochs, 7 rows not scored."""
    with (DATA / "paired_60x3.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == model]
    rows = [row for row in rows if epoch in (None, row["epoch"])]
    return by_item(
        [row["item_id"] for row in rows],
        [float(row["value"]) if row["status"] == "scored" else NAN for row in rows],
        [row["cluster_id"] for row in rows] if clusters else None,
    )
