"""Tables of the store as files of their own."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from propensity.results.store.schema import as_json

if TYPE_CHECKING:
    import pyarrow as pa

Format = Literal["csv", "parquet"]


class InTheWay(FileExistsError):
    """A file to be written exists already."""


@contextmanager
def whole_file(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give a temporary path that takes its name only when the block ends well.

    Raises:
        InTheWay: the file exists and `overwrite` is not set.
    """
    if path.exists() and not overwrite:
        raise InTheWay(str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_tables(
    tables: "dict[Path, pa.Table]", *, form: Format, overwrite: bool = False
) -> dict[Path, int]:
    """Write tables to their paths; refused as a whole when one is in the way.

    CSV keeps JSON columns as text and turns lists (`tags`, `parts`) into JSON text.

    Returns:
        Path → rows.

    Raises:
        InTheWay: a file exists and `overwrite` is not set.
    """
    taken = [path for path in tables if path.exists()]
    if taken and not overwrite:
        raise InTheWay(str(taken[0]))
    for path, table in tables.items():
        with whole_file(path, overwrite=overwrite) as temporary:
            _write(table, temporary, form)
    return {path: table.num_rows for path, table in tables.items()}


def _write(table: "pa.Table", path: Path, form: Format) -> None:
    if form == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, path)
    else:
        import pyarrow.csv

        pyarrow.csv.write_csv(_flat(table), path)


def _flat(table: "pa.Table") -> "pa.Table":
    """CSV has no lists: they become JSON text."""
    import pyarrow as pa

    for index, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            texts = [None if one is None else as_json(one) for one in table[index].to_pylist()]
            table = table.set_column(index, field.name, pa.array(texts, pa.string()))
    return table
