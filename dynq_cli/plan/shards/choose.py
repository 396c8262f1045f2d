"""The cheapest placement of each query, and queries that share their rows.

    plan_shards(spec, queries, 4)     a ShardPlan: every query is in one group

A placement gives a share to one shard variable, or shares to two, whose product is the number of shards. Its cost is
the number of rows that the largest shard stores: Σ rows of a relation × its replication ÷ shards. A query joins a group
whose relations are placed as it needs them, and pays for new relations only. What cannot be split, or would store as
much as unsplit, is kept whole in a group of one shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from math import prod

from dynq_cli.plan.shards.demand import Demand, UnsplitError, demand_of, places, relations_of
from dynq_cli.plan.shards.model import Group, Merge, Placed, Placement, ShardPlan
from dynq_cli.query.normal_form import ConjunctiveQuery, Query, UnionQuery, walk
from dynq_cli.spec.model import HIDDEN, Spec

# Rows of a relation where they are not known, by its `changes:`.
_ROWS = {"rare": 1.0, "normal": 10.0, "often": 100.0}
# What a merge makes reading dearer by, in parts of the storage: `distinct` lets `count` walk.
_PENALTY: Mapping[Merge, float] = {"none": 1.0, "groups": 1.0, "copies": 1.2, "distinct": 2.0, "whole": 1.0}
_COMBINED = frozenset({"count", "sum", "min", "max"})
WHOLE = "whole"


@dataclass(frozen=True)
class _Candidate:
    shares: tuple[int, ...]
    variables: tuple[str, ...]
    rows: Mapping[str, Placement]
    merge: Merge


@dataclass
class _Growing:
    """A group that queries still join."""

    shares: tuple[int, ...]
    rows: dict[str, Placement] = field(default_factory=dict)
    queries: list[Placed] = field(default_factory=list)

    def takes(self, candidate: _Candidate) -> bool:
        if self.shares != candidate.shares:
            return False
        return all(self.rows.get(name, placed) == placed for name, placed in candidate.rows.items())

    def add(self, candidate: _Candidate, query: Placed) -> None:
        self.rows.update(candidate.rows)
        self.queries.append(query)


def plan_shards(
    spec: Spec, queries: Mapping[str, Query], shards: int, rows: Mapping[str, int] | None = None
) -> ShardPlan:
    """Place every query of a spec on `shards` shards. `rows`: the rows of relations, where they are known."""
    weights = {r.name: float((rows or {}).get(r.name, 0)) or _ROWS[r.changes] for r in spec.own_relations}
    shown = {name: query for name, query in queries.items() if not name.startswith(HIDDEN)}
    groups: list[_Growing] = []
    for name in sorted(shown, key=lambda name: -sum(weights[r] for r in relations_of(shown[name]))):
        reason = _kept_whole(spec, name)
        found = [] if reason else list(_candidates(spec, shown[name], shards))
        whole = _Candidate((1,), (), dict.fromkeys(relations_of(shown[name]), Placement((None,))), "whole")
        taken = _cheapest([*found, whole], groups, weights, shards)
        if taken.merge == "whole" and not reason:
            reason = _why_whole(spec, shown[name], is_split=bool(found))
        group = next((g for g in groups if g.takes(taken)), None)
        if group is None:
            group = _Growing(taken.shares)
            groups.append(group)
        functions = _functions(shown[name]) if taken.merge == "groups" else ()
        why = reason if taken.merge == "whole" else ""
        group.add(taken, Placed(name, taken.variables, taken.merge, why, functions))
    _place_unread(spec, groups, shards)
    order = list(shown)
    groups.sort(key=lambda g: (g.shares == (1,), min((order.index(q.query) for q in g.queries), default=0)))
    made = tuple(_finished(group, number, shown) for number, group in enumerate(groups))
    return ShardPlan(shards, made, {r.name: _home(r.name, made) for r in spec.own_relations})


def _candidates(spec: Spec, query: Query, shards: int) -> Iterator[_Candidate]:
    if shards == 1:
        return
    demands: dict[str, tuple[Demand, bool]] = {}
    for name, column, is_shown in _variables(query):
        try:
            demands[name] = demand_of(query, column, spec), is_shown
        except UnsplitError:
            continue
    for shares in _shares(shards):
        for names in permutations(demands, len(shares)):
            merge = _merge(query, is_shown=all(demands[name][1] for name in names))
            if merge is None:
                continue
            rows = {r: Placement(tuple(demands[n][0].get(r) for n in names)) for r in relations_of(query)}
            yield _Candidate(shares, names, rows, merge)


def _shares(shards: int) -> Iterator[tuple[int, ...]]:
    yield (shards,)
    for first in range(2, shards):
        if shards % first == 0:
            yield (first, shards // first)


def _variables(query: Query) -> Iterator[tuple[str, int | str, bool]]:
    """Yield what a query may be split by: a name, what `demand_of` takes, and whether each result row has its value."""
    if isinstance(query, UnionQuery):
        for number, column in enumerate(query.columns):
            yield column.name, number, True
        return
    shown = {c.source for c in query.columns if c.kind == "variable"}
    names = dict.fromkeys(b.variable for a in query.atoms if a.mode == "join" for b in a.bindings if not b.part)
    for name in names:
        yield name, name, name in query.head if query.grouped else name in shown


def _merge(query: Query, *, is_shown: bool) -> Merge | None:
    """Tell what reading merges; None if it cannot."""
    if is_shown:
        return "none"
    if isinstance(query, UnionQuery) or query.order:
        return None
    if query.grouped:
        return "groups" if _can_combine(query) else None
    return "copies" if query.semantics == "bag" else "distinct"


def _functions(query: Query) -> tuple[str, ...]:
    """The aggregate of each output column, empty for a key."""
    assert isinstance(query, ConjunctiveQuery)
    functions = {a.name: a.function for a in query.aggregates}
    return tuple(functions[c.source] if c.kind == "aggregate" else "" for c in query.columns)


def _can_combine(query: ConjunctiveQuery) -> bool:
    """Whether the groups of several shards make those of all: every column is a key, a count, a sum or an extreme."""
    functions = {a.name: a.function for a in query.aggregates}
    keys = {c.source for c in query.columns if c.kind == "variable"}
    if query.having is not None or set(query.head) - keys:
        return False
    for column in query.columns:
        if column.kind == "expression":
            return False
        if column.kind == "aggregate":
            function = functions[column.source]
            # Parts of exact sums of floats are rounded, and do not add up to the rounded sum.
            if function not in _COMBINED or (function == "sum" and column.type.name.startswith("float")):
                return False
    return True


def _cheapest(found: list[_Candidate], groups: list[_Growing], weights: Mapping[str, float], shards: int) -> _Candidate:
    def cost(candidate: _Candidate) -> tuple[float, float, int]:
        known = next((g.rows for g in groups if g.takes(candidate)), {})
        size = prod(candidate.shares)
        stored = {r: _replication(candidate.shares, p) * weights[r] / size for r, p in candidate.rows.items()}
        new = sum(rows for r, rows in stored.items() if r not in known)
        # What all relations would take breaks ties; the whole query is the last resort.
        return new * _PENALTY[candidate.merge], sum(stored.values()), 0 if candidate.merge != "whole" else 1

    return min(found, key=cost)


def _replication(shares: tuple[int, ...], placement: Placement) -> int:
    return prod(n for n, column in zip(shares, placement.columns, strict=True) if column is None)


def _kept_whole(spec: Spec, name: str) -> str:
    """Why a query is kept whole whatever it reads; an empty text if it is not."""
    written = spec.query(name)
    assert written is not None
    if written.language == "formula":
        return "a formula ranges over the values of all rows"
    if written.max_view_rows is not None:
        return "max_view_rows bounds the views over all rows"
    models = [model.name for model in spec.models if model.over == name]
    if models:
        return f"the model {models[0]} is fitted to all its rows"
    return ""


def _why_whole(spec: Spec, query: Query, *, is_split: bool) -> str:
    if is_split:
        return "every split would store as many rows in each shard"
    reasons = []
    for _, column, _ in _variables(query):
        try:
            demand_of(query, column, spec)
            reasons.append("parts of its groups cannot be combined, or its order would mix shards")
        except UnsplitError as error:
            reasons.append(str(error))
    return "; ".join(dict.fromkeys(reasons)) or "it has no variable to split it by"


def _place_unread(spec: Spec, groups: list[_Growing], shards: int) -> None:
    """Place the relations that no query reads, in the first group that is split."""
    group = next((g for g in groups if g.shares != (1,)), groups[0] if groups else None)
    if group is None:
        group = _Growing((1,))
        groups.append(group)
    placed = {name for g in groups for name in g.rows}
    for relation in spec.own_relations:
        if relation.name in placed:
            continue
        column = next((c for c in relation.key or [c.name for c in relation.columns] if places(relation, c)), None)
        is_whole = group.shares == (1,)
        group.rows[relation.name] = Placement(tuple(None if is_whole else column for _ in group.shares))


def _finished(group: _Growing, number: int, queries: Mapping[str, Query]) -> Group:
    name = WHOLE if group.shares == (1,) else chr(ord("a") + number) if number < 26 else f"g{number}"
    own = {placed.query for placed in group.queries}
    read: dict[str, None] = {}
    for query in own:
        read |= dict.fromkeys(v.named for part in walk(queries[query]) for v in part.views if v.named)
    # A query that is read by name may read others itself.
    extra = tuple(name for name in queries if name in read and name not in own)
    ordered = sorted(group.queries, key=lambda placed: list(queries).index(placed.query))
    return Group(name, group.shares, tuple(ordered), group.rows, extra)


def _home(relation: str, groups: tuple[Group, ...]) -> str:
    """The group that counts a relation's rows: the one with the fewest copies of each."""
    return min((g for g in groups if relation in g.relations), key=lambda g: g.replication(relation)).name
