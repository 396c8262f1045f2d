"""Layout of base tables: their columns, and the expressions and filters to evaluate for inserted rows."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dynq_cli.engine.codes import needs_labels
from dynq_cli.engine.kernels.fields import Flags
from dynq_cli.engine.predicates import CodePredicate, TextPredicate, code_predicate, text_predicate
from dynq_cli.query.normal_form import Atom, Binding, ConjunctiveQuery, Part, Scalar
from dynq_cli.query.scalar import quote
from dynq_cli.records import record
from dynq_cli.spec.model import Relation
from dynq_cli.spec.types import Type


class Computed(NamedTuple):
    """A value that a leaf computes from a row: of an expression, or one part of a wide decimal."""

    scalar: Scalar
    part: Part


# An expression to evaluate over rows: a computed value, or a condition of a filter.
Asked = Computed | Scalar


@record(frozen=True)
class Leaf:
    """The leaf of an atom: its node, and the expressions to evaluate for inserted rows."""

    query: str
    node: int
    atom: Atom
    filter: int


@record()
class BaseLayout:
    """The base table of a relation.

    - `order`: the columns as stored, key first
    - `stored`: the computed columns stored in base rows, each with its word in the record
    - `needed_by`: the filters of the atoms that need a computed value, -1 for an atom without a filter
    """

    relation: Relation
    table: int
    order: tuple[str, ...]
    leaves: list[Leaf] = field(default_factory=list)
    computed: list[Computed] = field(default_factory=list)
    filters: list[tuple[Scalar, ...]] = field(default_factory=list)
    stored: dict[int, int] = field(default_factory=dict)
    needed_by: dict[Computed, set[int]] = field(default_factory=dict)

    @cached_property
    def _quoted(self) -> dict[str, int]:
        return {quote(c): i for i, c in enumerate(self.order)}

    @cached_property
    def _texts(self) -> str:
        filters = (scalar for several in self.filters for scalar in several)
        return "\n".join(scalar.sql for scalar in (*(c.scalar for c in self.computed), *filters))

    @cached_property
    def asked(self) -> tuple[Asked, ...]:
        """All computed values and filter conditions of the leaves. Use it when all leaves are known."""
        conditions = (scalar for several in self.filters for scalar in several)
        return tuple(dict.fromkeys((*self.computed, *conditions)))

    @cached_property
    def told(self) -> dict[Scalar, CodePredicate]:
        """The conditions that can be evaluated on codes."""
        types = {c.name: c.type for c in self.relation.columns}
        columns = [(name, types[name]) for name in self.order]
        conditions = [each for each in self.asked if not isinstance(each, Computed)]
        return {each: told for each in conditions if (told := code_predicate(each.sql, columns)) is not None}

    @cached_property
    def patterns(self) -> dict[Scalar, TextPredicate]:
        """The LIKE conditions on a column."""
        texts = {c.name for c in self.relation.columns if c.type.name == "string"}
        conditions = [each for each in self.asked if not isinstance(each, Computed) and {*each.columns} <= texts]
        return {each: pattern for each in conditions if (pattern := text_predicate(each.sql)) is not None}

    @cached_property
    def alone(self) -> dict[Asked, tuple[int, Type]]:
        """Of the others, those on one column whose result is no id: the column's index in `order`, and its type."""
        types = {c.name: c.type for c in self.relation.columns}
        found: dict[Asked, tuple[int, Type]] = {}
        for each in self.asked:
            if each in self.told:
                continue
            scalar = each.scalar if isinstance(each, Computed) else each
            is_plain = not isinstance(each, Computed) or not (each.part or needs_labels(scalar.type))
            if is_plain and len(scalar.columns) == 1 and scalar.columns[0] in types:
                (name,) = scalar.columns
                found[each] = (self.order.index(name), types[name])
        return found

    def looks_at(self, column: str) -> bool:
        """Whether computed values or filters may need a column. Use it when all leaves are known."""
        return quote(column) in self._texts

    def computed_number(self, value: Computed, atom: Atom) -> int:
        """Return the column of a batch's `computed` that has this value for an atom."""
        self.needed_by.setdefault(value, set()).add(self.filter_number(atom))
        if value not in self.computed:
            self.computed.append(value)
        return self.computed.index(value)

    def filter_number(self, atom: Atom) -> int:
        """Return the column of a batch's `passes` for an atom's filter; -1 if it has none."""
        if not atom.filters:
            return -1
        if atom.filters not in self.filters:
            self.filters.append(atom.filters)
        return self.filters.index(atom.filters)

    def needs(self, value: Computed, passes: Flags) -> Flags:
        """Return the rows that need a computed value, given which filters they pass."""
        needed: Flags = np.zeros(len(passes), np.bool_)
        for number in self.needed_by[value]:
            needed |= passes[:, number] if number >= 0 else True
        return needed

    def column_of(self, binding: Binding) -> int | None:
        """Return the base-table column of a binding; None if it is an expression."""
        return None if binding.part else self._quoted.get(binding.scalar.sql)


@record(frozen=True)
class PassageLayout:
    """Rows of one base table that feed other relations without a stored tree.

    `places` are the words of a base row from which variables are read; `flag` is the half word with the result of the
    filter, -1 if there is none.
    """

    query: ConjunctiveQuery
    relation: str
    table: int
    filter: int
    flag: int
    places: dict[str, int]
