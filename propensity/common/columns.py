"""Tables for the log viewer, which shows a scorer's explanation as plain text."""

from collections.abc import Sequence

from rich.cells import cell_len


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay out rows of equal length in columns, a line each; wide characters take two places."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
