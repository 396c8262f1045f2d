"""Express head, aggregates, output columns, HAVING and order of a draft by variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dynq_cli.query import scalar as sql
from dynq_cli.query.classes import Classes
from dynq_cli.query.draft import Draft, DraftAggregate, Expression, Term
from dynq_cli.query.normal_form import (
    Aggregate,
    Atom,
    Comparison,
    ConjunctiveQuery,
    OutputColumn,
    Scalar,
    Variable,
    VariableOrder,
    without_repetition,
)


class Speaker:
    """Knows the variable of every term, or the constant it equals."""

    def __init__(self, draft: Draft, classes: Classes, names: Mapping[Term, str]) -> None:
        self.draft = draft
        self.classes = classes
        self.names = names

    def query(
        self,
        atoms: Sequence[Atom],
        comparisons: Sequence[Comparison],
        variables: Sequence[Variable],
        notes: Sequence[str],
    ) -> ConjunctiveQuery:
        draft = self.draft
        aggregates = tuple(self._aggregate(a) for a in draft.aggregates)
        grouped = draft.group_by is not None or bool(aggregates)
        return ConjunctiveQuery(
            name=draft.name,
            atoms=tuple(atoms),
            comparisons=tuple(comparisons),
            variables=tuple(variables),
            head=self._head(grouped),
            columns=self._columns(variables),
            semantics=draft.semantics,
            grouped=grouped,
            one_row=draft.group_by is None and bool(aggregates),
            aggregates=aggregates,
            having=self._having(),
            order=self._order(),
            views=tuple(draft.views),
            simplifications=tuple(dict.fromkeys(notes)),
        )

    def _constant(self, part: Term | DraftAggregate) -> Scalar | None:
        return None if isinstance(part, DraftAggregate) else self.classes.constant.get(self.classes.find(part))

    def _name(self, part: Term | DraftAggregate) -> str:
        return part.name if isinstance(part, DraftAggregate) else self.names[self.classes.find(part)]

    def _head(self, grouped: bool) -> tuple[str, ...]:
        shown = [o.value for o in self.draft.outputs if isinstance(o.value, Term)]
        terms = (self.draft.group_by or []) if grouped else shown
        return tuple(dict.fromkeys(self._name(t) for t in terms if self._constant(t) is None))

    def _aggregate(self, a: DraftAggregate) -> Aggregate:
        variables = tuple(map(self._name, a.terms))
        return Aggregate(a.name, a.function, a.type, a.nullable, a.monomials, variables, a.detail)

    def _columns(self, variables: Sequence[Variable]) -> tuple[OutputColumn, ...]:
        nullable = {v.name: v.nullable for v in variables}
        columns = []
        for item in self.draft.outputs:
            value = item.value
            if isinstance(value, DraftAggregate):
                made = OutputColumn(item.name, value.type, value.nullable, "aggregate", value.name)
            elif isinstance(value, Expression):
                made = OutputColumn(item.name, value.type, value.nullable, "expression", self._expand(value))
            else:
                made = self._column_of(item.name, value, nullable)
            columns.append(made)
        return tuple(columns)

    def _column_of(self, name: str, term: Term, nullable: Mapping[str, bool]) -> OutputColumn:
        literal = self._constant(term)
        if literal is not None:
            text = f"CAST({literal.sql} AS {term.scalar.type.sql})"
            return OutputColumn(name, term.scalar.type, False, "expression", text)
        variable = self._name(term)
        return OutputColumn(name, term.scalar.type, nullable[variable], "variable", variable)

    def _having(self) -> Scalar | None:
        having = self.draft.having
        if having is None:
            return None
        names = tuple(dict.fromkeys(self._name(p) for p in having.parts if self._constant(p) is None))
        return Scalar(self._expand(having), having.type, having.nullable, names)

    def _order(self) -> tuple[VariableOrder, ...]:
        return without_repetition(map(self._key, self.draft.order))

    def _key(self, key: tuple[Term | str, bool, bool | None]) -> VariableOrder | None:
        value, descending, nulls_first = key
        # A word that says what dynq does anyway makes no other order.
        nulls = None if nulls_first is None or nulls_first != descending else nulls_first
        if isinstance(value, str):
            return VariableOrder(value, descending, "column", nulls)
        return (
            VariableOrder(self._name(value), descending, nulls_first=nulls) if self._constant(value) is None else None
        )

    def _expand(self, e: Expression) -> str:
        shown = []
        for part in e.parts:
            literal = self._constant(part)
            shown.append(sql.quote(self._name(part)) if literal is None else f"({literal.sql})")
        return e.template.format(*shown)
