"""The rows that each shard needs if a query is split by a variable.

Split by x, a shard makes the bindings whose x hashes to it. An atom with x in a plain column needs the rows of that
shard alone; any other atom needs all rows. The split is right if an atom that is joined has x: the row that it gives to
a binding is in one shard. A view with x among its columns is split with the query, if its own query can be.

Rows of a keyed relation with one key stay in one shard, where the key is checked: so only columns of the key place
them. A relation with `max_degree` is whole wherever it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from dynq_cli.query.normal_form import Atom, ConjunctiveQuery, Query, UnionQuery, View, walk
from dynq_cli.query.scalar import quote
from dynq_cli.spec.model import CLOCK, Relation, Spec
from dynq_cli.spec.types import Type

# A relation, and the column that places its rows; None: every shard has all of them.
Demand: TypeAlias = dict[str, str | None]
_INTEGERS = ("int8", "int16", "int32", "int64")


class UnsplitError(Exception):
    """The query cannot be split so: the reason, in words."""


def demand_of(query: Query, column: int | str, spec: Spec) -> Demand:
    """Return the rows a shard needs if `query` is split by a variable, or by an output column's number.

    UnsplitError if its results would not be parts of the whole result.
    """
    found = _Demands(spec)
    found.query(query, column, {})
    return found.rows


def relations_of(query: Query) -> Iterator[str]:
    """Yield the relations that a query reads, also in its views, each once."""
    parts = list(walk(query))
    views = {view.name for part in parts for view in part.views}
    seen = dict.fromkeys(a.source for part in parts for a in part.atoms if a.source not in views)
    yield from (name for name in seen if name != CLOCK)


def kind_of(kind: Type) -> str:
    """Name the types whose equal values have equal hashes."""
    return "integer" if kind.name in _INTEGERS else str(kind)


class _Demands:
    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._kinds: set[str] = set()
        self.rows: Demand = {}

    def query(self, query: Query, column: int | str, views: Mapping[str, View]) -> None:
        if isinstance(query, UnionQuery):
            assert isinstance(column, int)
            for member in query.members:
                self.query(member, column, views)
            return
        self._conjunctive(query, _variable(query, column), views)

    def _conjunctive(self, query: ConjunctiveQuery, variable: str, views: Mapping[str, View]) -> None:
        known = dict(views)
        for view in query.views:
            known[view.name] = view
        is_anchored = False
        for atom in query.atoms:
            is_split = self._atom(atom, variable, known)
            is_anchored |= is_split and atom.mode == "join"
        if not is_anchored:
            raise UnsplitError(f"no joined relation can be placed by {variable}")

    def _atom(self, atom: Atom, variable: str, views: Mapping[str, View]) -> bool:
        """Note the rows of an atom; return whether it is split."""
        column = None if atom.null_aware else _plain_column(atom, variable)
        view = views.get(atom.source)
        if view is None:
            relation = self._spec.relation(atom.source)
            assert relation is not None
            placing = column if column is not None and places(relation, column) else None
            self._need(relation, placing)
            return placing is not None
        if column is not None:
            kept, kinds = dict(self.rows), set(self._kinds)
            try:
                self._view(view, column, views)
                return True
            except UnsplitError:
                self.rows, self._kinds = kept, kinds
        for name in _relations_below(view, views):
            relation = self._spec.relation(name)
            assert relation is not None
            self._need(relation, None)
        return False

    def _view(self, view: View, column: str, views: Mapping[str, View]) -> None:
        number = next(i for i, c in enumerate(view.columns) if c.name == column)
        if view.window is not None:
            names = [c.name for c in view.columns]
            partition = [names.index(name) for name in view.window.partition]
            if number >= len(_sources(view.query)) or not any(
                _sources(view.query)[number] == _sources(view.query)[key] for key in partition
            ):
                raise UnsplitError(f"rows are ranked across values of {column}")
        self.query(view.query, number, views)

    def _need(self, relation: Relation, column: str | None) -> None:
        if relation.name == CLOCK:
            return
        if column is not None:
            found = next(c for c in relation.columns if c.name == column)
            self._kinds.add(kind_of(found.type))
            if len(self._kinds) > 1:
                raise UnsplitError("values of different types are joined")
        if self.rows.setdefault(relation.name, column) != column:
            raise UnsplitError(f"{relation.name} would have to be placed in two ways")


def places(relation: Relation, column: str) -> bool:
    """Whether a column may place the rows of a relation."""
    if relation.max_degree is not None:
        return False
    return not relation.key or column in relation.key


def _relations_below(view: View, views: Mapping[str, View]) -> Iterator[str]:
    for part in walk(view.query):
        known = {**views, **{v.name: v for v in part.views}}
        for atom in part.atoms:
            if atom.source in known and atom.source != view.name:
                yield from _relations_below(known[atom.source], known)
            elif atom.source not in known:
                yield atom.source


def _variable(query: ConjunctiveQuery, column: int | str) -> str:
    if isinstance(column, str):
        return column
    output = query.columns[column]
    if output.kind != "variable" or output.source not in query.head:
        raise UnsplitError(f"{output.name} is no variable of {query.name}")
    return output.source


def _sources(query: Query) -> list[object]:
    """What each output column of a query is made of."""
    if isinstance(query, UnionQuery):
        return list(zip(*(_sources(member) for member in query.members), strict=True))
    return [(c.kind, c.source) for c in query.columns]


def _plain_column(atom: Atom, variable: str) -> str | None:
    """The column that an atom binds a variable to; None if it binds none, or computes it."""
    binding = atom.binding(variable)
    if binding is None or binding.part or len(binding.scalar.columns) != 1:
        return None
    (column,) = binding.scalar.columns
    return column if binding.scalar.sql == quote(column) else None
