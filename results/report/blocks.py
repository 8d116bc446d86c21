"""A small document: headings, lines and tables, printed by rich or as Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 for a task, 2 for its parts."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Lines:
    """Sentences, one bullet each; `style` is for terminals only and never the only sign."""

    lines: Sequence[str]
    style: str = ""


@dataclass(frozen=True)
class Table:
    """A table; columns beyond the first `left` are numbers and stand right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    caption: Sequence[str] = ()


LONG_NAME = 32
"""Names up to this width are not broken."""

Block = Heading | Lines | Table


def show(blocks: Sequence[Block], console: Console) -> None:
    """Print on a terminal. Text of logs is printed as it is, never as markup."""
    for block in blocks:
        console.print(_rich(block))


def markdown(blocks: Sequence[Block]) -> str:
    """The document as Markdown."""
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def _rich(block: Block) -> RenderableType:
    if isinstance(block, Heading):
        style = "bold reverse" if block.level == 1 else "bold"
        text = f" {block.text} " if block.level == 1 else block.text
        return Padding(Text(text, style=style), (1, 0, 0, 0), expand=False)
    if isinstance(block, Lines):
        grid = RichTable.grid(padding=(0, 1))
        grid.add_column(width=2, justify="right")
        grid.add_column(overflow="fold")
        for line in block.lines:
            grid.add_row("·", Text(line, style=block.style, overflow="fold"))
        return grid
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for index, name in enumerate(block.header):
        left = index < block.left
        widest = max(
            (len(line) for row in block.rows for line in row[index].split("\n")), default=0
        )
        table.add_column(
            Text(name),
            justify="left" if left else "right",
            overflow="fold",
            min_width=min(widest, LONG_NAME) if left else None,
        )
    for row in block.rows:
        table.add_row(*(Text(cell, overflow="fold") for cell in row))
    caption = [Padding(Text(line, style="dim"), (0, 0, 0, 2)) for line in block.caption]
    return Padding(Group(table, *caption), (0, 0, 0, 1), expand=False)


def _markdown(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * (block.level + 1)} {_plain(block.text)}"
    if isinstance(block, Lines):
        return "\n".join(f"- {_plain(line)}" for line in block.lines)
    marks = [":--" if index < block.left else "--:" for index in range(len(block.header))]
    rows = [block.header, marks, *block.rows]
    lines = ["| " + " | ".join(_plain(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines + [f"\n{_plain(line)}" for line in block.caption])


def _plain(text: str) -> str:
    """Text of logs must not make Markdown or HTML."""
    for mark in "\\|<>`*[]":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")
