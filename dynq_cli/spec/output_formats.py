"""The formats that results are written in: a file's extension says which.

To add one, write a module with `write_groups` and name it in `_BUILT_IN`; from outside, call `register`. The module is
imported when a result is written. The table is here, below whatever writes, because a spec's `outputs:` is checked
against it.
"""

from __future__ import annotations

from dynq_cli.records import record


@record(frozen=True)
class OutputFormat:
    """`name` is the extension without its point.

    `module` has `write_groups(groups: Iterator[pa.Table], schema: pa.Schema, sink: Sink) -> None`, which writes all
    groups and flushes what cannot seek. `least_rows` is how many rows a group should have. A format that
    `needs_columns` has no file for a result without any.
    """

    name: str
    module: str
    least_rows: int = 1
    needs_columns: bool = False

    @property
    def extension(self) -> str:
        return f".{self.name}"


_BUILT_IN = (
    # Row groups that a processor's cache holds while they are encoded.
    OutputFormat("parquet", "dynq_cli.io.results.parquet_groups", least_rows=1 << 18, needs_columns=True),
    OutputFormat("csv", "dynq_cli.io.results.csv"),
    OutputFormat("jsonl", "dynq_cli.io.results.jsonl"),
    OutputFormat("arrow", "dynq_cli.io.results.arrow"),
)

_BY_NAME: dict[str, OutputFormat] = {}


def register(output_format: OutputFormat) -> None:
    """Make a format known to `-o`, to `outputs:` and to messages. An extension is given once."""
    if output_format.name in _BY_NAME:
        raise ValueError(f"there is a format {output_format.name} already")
    _BY_NAME[output_format.name] = output_format


def find(name: str) -> OutputFormat | None:
    """The format of an extension without its point; None if there is none."""
    return _BY_NAME.get(name)


def extensions() -> tuple[str, ...]:
    """The extensions of all formats.

    >>> extensions()[:2]
    ('.parquet', '.csv')
    """
    return tuple(each.extension for each in _BY_NAME.values())


for _each in _BUILT_IN:
    register(_each)
