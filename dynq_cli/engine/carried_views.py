"""Carry the views that a changed spec leaves as they are over into its engine, byte for byte, and fill the others.

    carried = carry_over(old, new, {"orders"})    the steps of both, with the base rows of these relations
    fill_rest(new, carried)                       the other steps, from the base rows that were carried

For `ids(id) :- orders(id, city)` and a new query over orders, the tables of `ids` are copied as they stand: rows, ids,
slots, free ids. Rows of orders keep their ids, too. Their records get other fields: those of steps that are gone are
left out, those of new steps are filled. O(bytes carried), and what the new steps cost to fill.

A step is carried if both specs have it, if the rows that it reads are carried, and if what it feeds is carried.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from dynq_cli.engine.base_layout import BaseLayout
from dynq_cli.engine.changes import Changes, Codes
from dynq_cli.engine.codes import NULL
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.fields import ROW_OF_SLOT, Words
from dynq_cli.engine.kernels.order_statistic_tree import clear
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.table_sizes import tables_of_steps
from dynq_cli.engine.views import Views
from dynq_cli.plan.program import Cycle, Derived, Step, Tree, query_of, relayed
from dynq_cli.spec.model import Relation

BLOCK = 1 << 17
# What a layout decides about a table; the rest of its row is data.
_FIXED = ("arity", "hashed", "keyed", "stride", "mult", "refs", "mark")
# Fields of nodes: their shape; places in records of the node's own table, which may be a base table; and in others.
_SHAPE = ("guard", "output", "frontier", "clamp", "width", "key", "degree", "own")
_OWN_WIDE, _OWN_NARROW = ("value", "note", "old"), ("gid", "next", "prev", "changed", "noted")
_OTHERS = ("sums", "head", "reads", "reader_next", "reader_prev", "reader_head", "root", "readers_root")
_RANGES = ("begin", "end", "total", "told", "new_begin", "new_end")
_WORDS, _HALVES = "words", "halves"
# A field of a base row: words or half words, and which.
Field = tuple[str, int]


class Carried(NamedTuple):
    """The relations whose rows, and the steps whose tables, are those of the engine before."""

    relations: frozenset[str]
    steps: frozenset[str]


def carry_over(old: Views, new: Views, relations: Collection[str]) -> Carried:
    """Copy what both have into `new`, which is empty; `relations` are those of which `keeps_rows` is true.

    The dictionaries of `new` have to begin with those of `old`. If no step can be carried, nothing is.
    """
    steps = _carried(old, new, frozenset(relations))
    if not steps:
        return Carried(frozenset(), steps)
    _clear_others(old, steps)
    mine, theirs = new.engine.arena, old.engine.arena
    tables, before = tables_of_steps(new.layout), tables_of_steps(old.layout)
    for step in sorted(steps):
        for table, other in zip(tables[step], before[step], strict=True):
            mine.take_over(table, theirs, other)
    if steps & _ordered(new.layout):
        for table, other in zip(_pools(new.layout), _pools(old.layout), strict=True):
            mine.take_over(table, theirs, other)
    for name in sorted({*relations, *(steps & new.layout.derived.keys())}):
        _take_base_rows(old, new, name, steps)
    new.restart()
    return Carried(frozenset(relations), steps)


def keeps_rows(before: Relation, after: Relation) -> bool:
    """Whether every row stays one row, with the same values; of a relation with a key, beside columns that are NULL."""
    if after.key != before.key or (not after.key and after.columns != before.columns):
        return False
    for column in after.columns:
        old = before.column(column.name)
        if not column.nullable and (old is None or old.nullable):
            return False
        if old is not None and old.type != column.type:
            return False
    return True


def left_to_fill(new: Views, carried: Carried) -> list[str]:
    """Return the carried relations that steps read which were not carried, each after those that it is made of."""
    rest = [step for step in new.layout.steps if step.name not in carried.steps]
    asked = {source for step in rest for source in _sources(step)}
    return [name for name in new.layout.bases if name in asked and name in carried.relations | carried.steps]


def fill(new: Views, name: str, carried: Carried, progress: Callable[[int], None] = lambda rows: None) -> int:
    """Fill the steps that were not carried from the rows of a carried relation; return how many rows it has.

    BlockedError if a result, or a view that is kept for it, would be too large.
    """
    rest, many = {step.name for step in new.layout.steps} - carried.steps, 0
    for rows, changes in _inserted(new, new.layout.bases[name]):
        new.fill(name, rows, changes, rest)
        many += len(rows)
        progress(len(rows))
    return many


def _inserted(views: Views, base: BaseLayout) -> Iterator[tuple[Codes, Changes]]:
    """Yield the ids of a base table's rows, with the changes that insert them."""
    start = 0
    while start < int(views.engine.arena.tables["used"][base.table]):
        copies_at = int(views.engine.arena.tables["mult"][base.table])
        records = _records(views, base.table)[start : start + BLOCK]
        here = np.flatnonzero(records[:, copies_at])
        if len(here):
            codes, copies = records[here, : len(base.order)].copy(), records[here, copies_at].copy()
            made = Changes(codes, np.full(len(here), f.INSERT, np.int8), copies)
            if base.computed or base.filters:
                kept = views.layout.derived.get(base.relation.name)
                seen = kept or Derived(base.relation, base.relation.columns, ())
                made = Changes(codes, made.ops, copies, *views.meaning.computed(seen, base, codes))
            yield here + start, made
        start += BLOCK


def _sources(step: Step) -> set[str]:
    return {atom.source for atom in query_of(step).atoms} if isinstance(step, Tree | Cycle) else set()


def _carried(old: Views, new: Views, same: frozenset[str]) -> frozenset[str]:
    """Return the most steps of which each finds what it reads, and what it feeds, carried too."""
    before, after = old.layout, new.layout
    known, steps = {step.name: step for step in before.steps}, {step.name: step for step in after.steps}
    live, relays = new.engine.arena.tables["live"], relayed(after.steps)
    found = {name for name, step in steps.items() if known.get(name) == step and _is_alike(before, after, name)}
    found -= relays ^ relayed(before.steps)
    if not _has_same_pools(before, new):
        found -= _ordered(after)
    # Rows that are not kept, or that were there at the start, are not there for a new reader.
    unread = relays | {name for name in after.derived if live[after.bases[name].table]}
    readers = {name: {s.name for s in after.steps if name in _sources(s)} for name in unread}
    fed = {name: {d.name for d in after.derived.values() if name in {x.tree for x in d.feeds}} for name in steps}

    def stays(name: str) -> bool:
        step = steps[name]
        if isinstance(step, Derived):
            return all(feed.tree in found for feed in step.feeds) and readers.get(name, set()) <= found
        return fed[name] <= found and all(s in (found if s in after.derived else same) for s in _sources(step))

    while lost := {name for name in found if not stays(name)}:
        found -= lost
    return frozenset(found)


def _is_alike(old: Layout, new: Layout, name: str) -> bool:
    """Whether the records of a step's own tables have the same fields in both layouts."""
    if (name in old.passages) != (name in new.passages):
        return False
    tables = [(layout.tables, tables_of_steps(layout)[name]) for layout in (old, new)]
    facts = [[[int(row[table][field]) for field in _FIXED] for table in own] for row, own in tables]
    if facts[0] != facts[1]:
        return False
    return name not in new.trees or _node_fields(old, name) == _node_fields(new, name)


def _node_fields(layout: Layout, name: str) -> list[tuple[Any, ...]]:
    """The shape of a tree's nodes and the places of their fields; in base rows only whether there are such fields."""
    tree, found = layout.trees[name], []
    for row in layout.nodes[tree.first : tree.stop]:
        is_base = int(row["table"]) in layout.base_tables
        own = [int(row[field]) for field in (*_OWN_WIDE, *_OWN_NARROW)]
        seen = [is_base, *(place >= 0 if is_base else place for place in own), int(row["leaf_row"]) >= 0]
        shape = [int(row[field]) for field in (*_SHAPE, *_OTHERS, *_RANGES)]
        found.append((*seen, *shape, int(row["tree"]) >= 0, int(row["readers"]) >= 0))
    return found


def _ordered(layout: Layout) -> frozenset[str]:
    """Return the trees whose groups have order-statistic trees, on pools that they share."""
    counted = (layout.nodes["tree"] >= 0) | (layout.nodes["readers"] >= 0)
    return frozenset(name for name, tree in layout.trees.items() if counted[tree.first : tree.stop].any())


def _pools(layout: Layout) -> range:
    return range(layout.first_pool, len(layout.tables)) if len(layout.ordered) else range(0)


def _has_same_pools(old: Layout, new: Views) -> bool:
    """Whether blocks of order-statistic trees are of the same sizes in both, and the new engine has none yet."""
    pools, live = [*_pools(new.layout)], new.engine.arena.tables["live"]
    sizes = [
        [(int(layout.tables["arity"][t]), int(layout.tables["stride"][t])) for t in _pools(layout)]
        for layout in (old, new.layout)
    ]
    return sizes[0] == sizes[1] and not live[pools].any()


def _clear_others(old: Views, steps: Collection[str]) -> None:
    """Free the blocks of order-statistic trees that are not carried."""
    layout, arena = old.layout, old.engine.arena
    for name in _ordered(layout) - frozenset(steps):
        for row in arena.nodes[layout.trees[name].first : layout.trees[name].stop]:
            for tree, root in ((int(row["tree"]), int(row["root"])), (int(row["readers"]), int(row["readers_root"]))):
                for record in _places(arena.words, arena.tables[int(row["group"])]) if tree >= 0 else ():
                    clear(arena.store, tree, 2 * record + root)


def _places(words: Words, table: Any) -> list[int]:
    """Return where the records of a table's rows are."""
    slots = words[int(table["slots"]) : int(table["slots"]) + int(table["mask"]) + 1]
    rows = (slots[slots != 0] & ROW_OF_SLOT) - 1
    found: list[int] = (int(table["rows"]) + rows * int(table["stride"])).tolist()
    return found


def _take_base_rows(old: Views, new: Views, name: str, steps: Collection[str]) -> None:
    """Copy the rows of a base table: codes, copies, and the fields that both layouts have."""
    table, other = new.layout.bases[name].table, old.layout.bases[name].table
    new.engine.arena.take_over(table, old.engine.arena, other, records=False)
    mine, theirs = _records(new, table), _records(old, other)
    mine[:] = 0
    # Key columns come first in both, and in the first word of a free row is the next free row.
    mine[:, 0] = theirs[:, 0]
    known = new.layout.bases[name].order, old.layout.bases[name].order
    for at, column in enumerate(known[0]):
        mine[:, at] = theirs[:, known[1].index(column)] if column in known[1] else NULL
    places, before = _fields(new.layout, name, steps), _fields(old.layout, name, steps)
    for field, (kind, place) in places.items():
        if field in before and kind == _WORDS:
            mine[:, place] = theirs[:, before[field][1]]
        elif field in before:
            mine.view(np.int32)[:, place] = theirs.view(np.int32)[:, before[field][1]]


def _fields(layout: Layout, name: str, steps: Collection[str]) -> Mapping[tuple[Any, ...], Field]:
    """Return the fields of base rows that any step, or a carried tree, has."""
    base = layout.bases[name]
    found: dict[tuple[Any, ...], Field] = {("copies",): (_WORDS, int(layout.tables["mult"][base.table]))}
    found |= {("computed", base.computed[number]): (_WORDS, word) for number, word in base.stored.items()}
    for scan in layout.scans:
        if scan.table == base.table and scan.flag >= 0:
            found["passes", base.filters[scan.filter]] = _HALVES, scan.flag
    for leaf in base.leaves:
        if leaf.query not in steps:
            continue
        row, number = layout.nodes[leaf.node], leaf.node - layout.trees[leaf.query].first
        names = ["leaf_row"] if int(row["leaf_row"]) >= 0 else []
        if int(row["table"]) == base.table:
            names += [field for field in (*_OWN_WIDE, *_OWN_NARROW) if int(row[field]) >= 0]
        for field in names:
            kind = _WORDS if field in _OWN_WIDE else _HALVES
            found[leaf.query, number, field] = kind, int(row[field])
    return found


def _records(views: Views, table: int) -> Words:
    """The records of a table, freed ones too: the memory of the arena."""
    arena = views.engine.arena
    row = arena.tables[table]
    first, stride = int(row["rows"]), int(row["stride"])
    found: Words = arena.words[first : first + int(row["used"]) * stride].reshape(-1, stride)
    return found
