"""The contents of a snapshot: views to named arrays, and back.

    Views(spec, plans, arrays filled by parts_of(views))    the same rows, ids, order and dictionaries

Tables are packed, each with a quarter of free room: row ids stay, only the places of tables move. `arena_in` keeps the
given arrays and writes to them, so they may be mapped from a file, copy-on-write.

The arrays also say where the base rows of each relation are, independent of the layout of views (`base_rows_in`). A
version of dynq with another layout rebuilds its views from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dynq_cli.engine.arena import ALIGN, LEAST_ROWS, Arena
from dynq_cli.engine.consolidate import NetDelta
from dynq_cli.engine.dictionary import Dictionaries
from dynq_cli.engine.engine import Engine
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.fields import Rows, Words
from dynq_cli.engine.kernels.table import rehash
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.memory import Memory
from dynq_cli.engine.size_facts import VALUES
from dynq_cli.spec.model import Spec

Arrays = Mapping[str, NDArray[Any]]

_TABLES, _TOP, _MEMORY, _BASES = "tables", "top", "memory", "bases"
# Per relation: place of the first record, words per record, records, codes per row, word of the multiplicity.
_ROWS, _STRIDE, _USED, _CODES, _COPIES = range(5)
# What the layout decides about a table; the rest of its row is data.
_FIXED = ("arity", "hashed", "keyed", "stride", "mult", "refs", "mark")
# Room in slots for one row in so many; a table without any has twice the slots.
_SLOTS_AHEAD = 16
# Beyond what tables have of their own: so that a small table can grow without moving the whole arena.
_SPARE_WORDS = 8192
# Minimum number of free blocks of each size for order-statistic trees: enough for a small commit.
_LEAST_BLOCKS = 32


class Snapshotted(Protocol):
    """What a snapshot is taken of: views."""

    @property
    def spec(self) -> Spec: ...

    @property
    def layout(self) -> Layout: ...

    @property
    def engine(self) -> Engine: ...

    @property
    def dictionaries(self) -> Dictionaries: ...


class Part(NamedTuple):
    """An array of a snapshot: dtype, shape, and its content in pieces.

    A piece is an index and the flat items from there on. Pieces ascend and do not overlap; all other items are 0.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    pieces: Callable[[], Iterator[tuple[int, NDArray[Any]]]]

    def fill(self, into: NDArray[Any]) -> None:
        """Write the content into an array of zeros."""
        flat = into.reshape(-1)
        for place, items in self.pieces():
            flat[place : place + len(items)] = items


def parts_of(views: Snapshotted) -> dict[str, Part]:
    """Return the arrays of views between commits. O(tables); reading all pieces takes O(data)."""
    arena = views.engine.arena
    tables = packed(arena.tables)
    top = _top(tables)
    kept = {_TABLES: f.matrix_of(tables), _TOP: np.array([top], np.int64), _BASES: _bases(views, tables)}
    kept |= {VALUES + name: array for name, array in views.dictionaries.arrays().items()}
    parts = {name: Part(array.dtype, array.shape, _whole(array)) for name, array in kept.items()}
    parts[_MEMORY] = Part(np.dtype(np.int64), (words_of(tables),), lambda: _packed_words(arena, tables))
    return parts


def arena_in(arrays: Arrays, layout: Layout) -> Arena:
    """The arena that the arrays hold; it writes to them. ValueError if it is that of another layout. O(tables)."""
    given = np.array(arrays[_TABLES], np.int64)
    if given.shape != f.matrix_of(layout.tables).shape:
        raise ValueError("the tables are those of another layout")
    tables = f.rows_of(f.TABLE, given)
    if any((tables[name] != layout.tables[name]).any() for name in _FIXED):
        raise ValueError("the tables are those of another layout")
    arena = Arena(tables, layout.nodes.copy(), layout.lists, Memory.over(arrays[_MEMORY]))
    arena.top = int(arrays[_TOP][0])
    return arena


def dictionaries_in(arrays: Arrays, ordered: Iterable[str]) -> Dictionaries:
    """Return the dictionaries in the arrays, with labels for those in `ordered`. O(1)."""
    values = {name.removeprefix(VALUES): a for name, a in arrays.items() if name.startswith(VALUES)}
    return Dictionaries.from_arrays(values, ordered)


def base_rows_in(arrays: Arrays, relation: int, block: int) -> Iterator[NetDelta]:
    """Yield the base rows of the spec's n-th relation as codes, key first, at most `block` rows at a time.

    Independent of the layout of views.
    """
    facts = arrays[_BASES][relation]
    first, stride, used = int(facts[_ROWS]), int(facts[_STRIDE]), int(facts[_USED])
    for start in range(0, used, block):
        stop = min(start + block, used)
        records = arrays[_MEMORY][first + start * stride : first + stop * stride].reshape(-1, stride)
        copies = records[:, facts[_COPIES]]
        here = np.flatnonzero(copies)  # a row that was freed has no copies
        if len(here):
            yield NetDelta(np.ascontiguousarray(records[here, : facts[_CODES]]), copies[here])


def _bases(views: Snapshotted, tables: Rows) -> Words:
    bases = [views.layout.bases[relation.name] for relation in views.spec.relations]
    made = np.zeros((len(bases), 5), np.int64)
    for row, base in zip(made, bases, strict=True):
        table = tables[base.table]
        row[[_ROWS, _STRIDE, _USED, _COPIES]] = [table[name] for name in ("rows", "stride", "used", "mult")]
        row[_CODES] = len(base.order)
    return made


def _whole(array: NDArray[Any]) -> Callable[[], Iterator[tuple[int, NDArray[Any]]]]:
    return lambda: iter([(0, array.reshape(-1))])


def packed(tables: Rows) -> Rows:
    """The tables as they will stand: with room, one after the other."""
    tables = tables.copy()
    place = 0
    for row in tables:
        views, has_slots = int(row["live"]), row["mask"] >= 0
        rows = views + views // 4 + (LEAST_ROWS if has_slots else _LEAST_BLOCKS)
        row["capacity"] = capacity = max(int(row["used"]), rows)
        if has_slots:
            row["mask"] = _slots(int(row["mask"]) + 1, views + views // _SLOTS_AHEAD + LEAST_ROWS) - 1
        row["rows"] = place
        place = _aligned(place + capacity * int(row["stride"]))
        if has_slots:
            row["slots"] = place
            place = _aligned(place + int(row["mask"]) + 1)
    return tables


def _slots(had: int, rows: int) -> int:
    """How many slots a table of so many rows has in a snapshot: those it had, unless they are too few, or far too many.

    A table keeps its slots in memory when its rows go.
    """
    least = 1 << (3 * rows // 2).bit_length()
    return had if 3 * rows <= 2 * had <= 4 * least else least


def words_of(tables: Rows) -> int:
    """The words of memory that a snapshot of packed tables has."""
    top = _top(tables)
    return top + top // 16 + _SPARE_WORDS


def _top(tables: Rows) -> int:
    """Where the last of packed tables ends."""
    ends = [(row["rows"] + row["capacity"] * row["stride"], row["slots"] + row["mask"] + 1) for row in tables]
    return max((_aligned(int(max(both))) for both in ends), default=0)


def _packed_words(arena: Arena, tables: Rows) -> Iterator[tuple[int, Words]]:
    """The records and slots of all tables, where they will stand; views of the arena but for slots that change."""
    for old, new in zip(arena.tables, tables, strict=True):
        used = int(old["used"] * old["stride"])
        yield int(new["rows"]), arena.words[old["rows"] : old["rows"] + used]
        had, has = int(old["mask"]) + 1, int(new["mask"]) + 1
        if not has:
            continue
        slots = arena.words[old["slots"] : old["slots"] + had]
        if had != has:
            both = np.zeros(had + has, np.int64)
            both[:had] = slots
            rehash(both, 0, had, had, has - 1)
            slots = both[had:]
        yield int(new["slots"]), slots


def _aligned(words: int) -> int:
    return -(-words // ALIGN) * ALIGN
