"""`infer_spec`: write a spec skeleton from data files.

What it prints is a spec that loads as it stands. Memory is that of a few thousand rows and of
the fingerprints in the search for keys, whatever the size of the files; time is one pass over
them, and up to two more over the first rows of relations that have no key of one column, or of two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.io.data_files import DataFile, find_data_files
from dynq_cli.io.facts import RelationFacts
from dynq_cli.io.keys import KeyFinder
from dynq_cli.io.pieces import read_pieces
from dynq_cli.io.references import find_references
from dynq_cli.io.skeleton import render
from dynq_cli.spec.shown import visible

DEFAULT_KEY_ROWS = 1_000_000
_MOST_SAID = 3


@dataclass(frozen=True)
class Skeleton:
    """The text of a spec, what deserves a warning, and one line on what was read."""

    text: str
    warnings: tuple[str, ...]
    summary: str


def infer_spec(paths: Iterable[str], key_rows: int = DEFAULT_KEY_ROWS) -> Skeleton:
    """Read data files and write the spec they suggest.

    Raises UsageError for a path that is not there and RejectedError for a file that cannot be
    read or disagrees with another file of its relation.
    """
    files = find_data_files(paths)
    if not files:
        raise UsageError("there is nothing to infer from: name a data file or a directory")
    relations = _observe(files, key_rows)
    for size in (2, 3):
        _find_wider_keys(files, relations, key_rows, size)
    usable = [r for r in relations.values() if any(not c.unusable for c in r.own_columns)]
    warnings = [
        f"{relation.name}.{visible(column.name)} is left out: {column.unusable}"
        for relation in relations.values()
        for column in relation.own_columns
        if column.unusable
    ]
    if not usable:
        raise _nothing_usable(files, warnings)
    rows = sum(r.rows for r in relations.values())
    references = find_references(usable, files, key_rows)
    return Skeleton(
        render(usable, references), tuple(warnings), f"read {_count(rows, 'row')} of {_count(len(files), 'file')}"
    )


def _nothing_usable(files: Sequence[DataFile], reasons: Sequence[str]) -> RejectedError:
    names = ", ".join(file.path for file in files[:_MOST_SAID])
    if not reasons:
        return RejectedError(f"{names} has no columns: there is nothing to infer from")
    more = f"; and {len(reasons) - _MOST_SAID:,} more" if len(reasons) > _MOST_SAID else ""
    header = " (the first line of a CSV file names its columns, separated by commas)"
    advice = header if any(file.format == "csv" for file in files) else ""
    return RejectedError(f"no column of {names} can stand in a spec{advice}: {'; '.join(reasons[:_MOST_SAID])}{more}")


def _observe(files: Sequence[DataFile], key_rows: int) -> dict[str, RelationFacts]:
    relations: dict[str, RelationFacts] = {}
    for file in files:
        seen = relations[file.relation].rows if file.relation in relations else 0
        for piece in read_pieces(file, max(key_rows - seen, 0)):
            facts = relations.setdefault(piece.relation, RelationFacts(piece.relation, key_rows))
            facts.observe(piece)
    _refuse_clashes(relations)
    for facts in relations.values():
        facts.settle_keys()
    return relations


def _refuse_clashes(relations: dict[str, RelationFacts]) -> None:
    spelled: dict[str, RelationFacts] = {}
    for facts in relations.values():
        other = spelled.setdefault(facts.name.lower(), facts)
        if other is not facts:
            raise RejectedError(
                f"{other.files[0]} and {facts.files[0]} name relations that differ only in upper and lower case:"
                " rename one of them"
            )


def _find_wider_keys(files: Sequence[DataFile], relations: dict[str, RelationFacts], key_rows: int, size: int) -> None:
    finders: dict[str, KeyFinder] = {}
    for facts in relations.values():
        finder = facts.wider_finder(size)
        if finder is not None:
            finders[facts.name] = finder
    if not finders:
        return
    for file in files:
        for piece in read_pieces(file, key_rows):
            finder = finders.get(piece.relation)
            if finder is None and not piece.by_column:
                break
            if finder is not None and piece.nulls is None and piece.rows:
                relations[piece.relation].feed(finder, piece)
            if all(finder.done for finder in finders.values()):
                break
    for name, finder in finders.items():
        relations[name].keys, relations[name].rows_compared = finder.finish(), finder.rows


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
