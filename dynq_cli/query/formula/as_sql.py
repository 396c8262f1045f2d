"""A formula as one SELECT for DuckDB: what `verify` recomputes results with. It shares the parser with dynq, no more.

    q(x) := depot(x) and forall y: link(x, y) -> depot(y)

    SELECT DISTINCT t1."node" FROM depot t1 WHERE t1."node" IS NOT NULL AND NOT EXISTS (SELECT 1 FROM link t2
    WHERE t2."a" = t1."node" AND NOT EXISTS (SELECT 1 FROM depot t3 WHERE t3."node" = t2."b"))

Quantifiers become subqueries as they stand. A variable ranges over an atom that its quantifier's body asserts, else
over the union of the columns of its sort.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import count

from dynq_cli.query.formula import syntax as s
from dynq_cli.query.rule.syntax import ANY, Atom, Comparison, Constant, Sum, Variable
from dynq_cli.query.scalar import quote
from dynq_cli.spec.model import Column, Spec

# The number of the binding that each name stands for.
Scope = Mapping[str, int]
Signed = tuple[s.Formula, bool]


@dataclass(frozen=True)
class _Bound:
    """The scope within a quantifier, and the variables that it binds."""

    scope: Scope
    variables: tuple[int, ...]


def as_sql(definition: s.Definition, spec: Spec) -> str:
    """The rows of a definition that compiles: its head in order, each row once; a 1 for a sentence that holds."""
    writer = _Writer(definition, spec)
    return writer.head(definition)


class _Writer:
    def __init__(self, definition: s.Definition, spec: Spec) -> None:
        self._spec = spec
        self._binding, self._alias = count(), count(1)
        self._within: dict[int, _Bound] = {}
        self._sorts: dict[object, set[object]] = {}
        self._places: dict[int, str] = {}
        self._top = {v.name: next(self._binding) for v in definition.head}
        self._bind(definition.formula, self._top)

    def head(self, definition: s.Definition) -> str:
        bound = _Bound(self._top, tuple(self._top.values()))
        sources, conditions = self._from(list(_asserted(definition.formula, True)), bound)
        shown = ", ".join(f"{self._places[i]} AS {quote(name)}" for name, i in self._top.items())
        held = f" FROM {', '.join(sources)}" if sources else ""
        return f"SELECT DISTINCT {shown or '1 AS one'}{held} WHERE {_all(conditions)}"

    # Sorts

    def _bind(self, formula: s.Formula, scope: Scope) -> None:
        """Number the variables of quantifiers, and tie each to the columns that it stands in."""
        own = {v.name: next(self._binding) for v in s.quantified(formula)}
        if own:
            scope = {**scope, **own}
            self._within[id(formula)] = _Bound(scope, tuple(own.values()))
        if isinstance(formula, Atom):
            for place, argument in enumerate(formula.arguments):
                if isinstance(argument.only, Variable) and argument.only.name != ANY:
                    self._tie(scope[argument.only.name], (formula.relation, place))
        elif isinstance(formula, Comparison):
            left, right = formula.left.only, formula.right.only
            if formula.op in ("=", "!=") and isinstance(left, Variable) and isinstance(right, Variable):
                self._tie(scope[left.name], scope[right.name])
        for child in s.children(formula):
            self._bind(child, scope)

    def _tie(self, one: object, other: object) -> None:
        both = self._sorts.get(one, {one}) | self._sorts.get(other, {other})
        self._sorts |= dict.fromkeys(both, both)

    def _values(self, variable: int) -> str:
        """All values of a variable's sort, as a table with one column."""
        several = []
        for relation, place in sorted(p for p in self._sorts[variable] if isinstance(p, tuple)):
            column = quote(self._columns(relation)[place].name)
            several.append(f"SELECT {column} FROM main.{quote(relation)} WHERE {column} IS NOT NULL")
        return f"({' UNION '.join(several)}) AS {self._fresh()}(v)"

    def _columns(self, relation: str) -> tuple[Column, ...]:
        found = self._spec.relation(relation)
        assert found is not None
        return found.columns

    def _fresh(self) -> str:
        return f"t{next(self._alias)}"

    # Conditions

    def _from(self, parts: list[Signed], bound: _Bound) -> tuple[list[str], list[str]]:
        """What gives values to variables, and the conditions of the conjunction that is about them."""
        sources: list[str] = []
        conditions: list[str] = []
        left: list[Signed] = []
        for part, positive in parts:
            atom = part if positive and isinstance(part, Atom) else None
            new = set() if atom is None else {bound.scope[v.name] for v in s.variables_of(atom) if v.name != ANY}
            if atom is None or not (new & set(bound.variables)) - self._places.keys():
                left.append((part, positive))
                continue
            alias = self._fresh()
            sources.append(f"main.{quote(atom.relation)} AS {alias}")
            conditions += self._meets(atom, alias, bound)
        for variable in bound.variables:
            if variable not in self._places:
                table = self._values(variable)
                sources.append(table)
                self._places[variable] = f"{table.rpartition(' AS ')[2].removesuffix('(v)')}.v"
        return sources, conditions + [self._condition(part, positive, bound.scope) for part, positive in left]

    def _meets(self, atom: Atom, alias: str, bound: _Bound) -> Iterator[str]:
        """The conditions on a row of an atom; variables without a value yet get it from the row."""
        for argument, column in zip(atom.arguments, self._columns(atom.relation), strict=True):
            name = f"{alias}.{quote(column.name)}"
            if not isinstance(argument.only, Variable):
                yield f"{name} = {self._sum(argument, bound.scope)}"
            elif argument.only.name != ANY:
                variable = bound.scope[argument.only.name]
                if variable not in self._places:
                    self._places[variable] = name
                    yield f"{name} IS NOT NULL"
                else:
                    yield f"{name} = {self._places[variable]}"

    def _condition(self, formula: s.Formula, positive: bool, scope: Scope) -> str:
        text = self._holds(formula, scope)
        return text if positive else f"NOT ({text})"

    def _holds(self, formula: s.Formula, scope: Scope) -> str:
        if isinstance(formula, Atom):
            alias = self._fresh()
            conditions = list(self._meets(formula, alias, _Bound(scope, ())))
            return f"EXISTS (SELECT 1 FROM main.{quote(formula.relation)} AS {alias} WHERE {_all(conditions)})"
        if isinstance(formula, Comparison):
            left, right = self._sum(formula.left, scope), self._sum(formula.right, scope)
            return f"{left} {'<>' if formula.op == '!=' else formula.op} {right}"
        if isinstance(formula, s.Not):
            return self._condition(formula.body, False, scope)
        if isinstance(formula, s.And | s.Or):
            word = " AND " if isinstance(formula, s.And) else " OR "
            return f"({word.join(self._holds(part, scope) for part in formula.parts)})"
        if isinstance(formula, s.Implies):
            return f"(NOT ({self._holds(formula.left, scope)}) OR {self._holds(formula.right, scope)})"
        if isinstance(formula, s.Iff):
            return f"(({self._holds(formula.left, scope)}) = ({self._holds(formula.right, scope)}))"
        bound, is_forall = self._within[id(formula)], isinstance(formula, s.ForAll)
        sources, conditions = self._from(list(_asserted(formula.body, not is_forall)), bound)
        rest = f"FROM {', '.join(sources)} WHERE {_all(conditions)}"
        if isinstance(formula, s.Counted):
            (variable,) = bound.variables
            return formula.count.over(f"(SELECT count(DISTINCT {self._places[variable]}) {rest})")
        return f"{'NOT ' if is_forall else ''}EXISTS (SELECT 1 {rest})"

    def _sum(self, given: Sum, scope: Scope) -> str:
        written = ""
        for part in given.parts:
            name = part.operand
            text = self._places[scope[name.name]] if isinstance(name, Variable) else ""
            text = _literal(name) if isinstance(name, Constant) else text
            written += f"{' - ' if part.sign < 0 else ' + ' if written else ''}{text}"
        return f"({written})" if len(given.parts) > 1 or given.parts[0].sign < 0 else written


def _asserted(formula: s.Formula, positive: bool) -> Iterator[Signed]:
    """The parts of the conjunction that a formula, or its denial, is."""
    if isinstance(formula, s.Not):
        yield from _asserted(formula.body, not positive)
    elif isinstance(formula, s.And if positive else s.Or):
        for part in s.children(formula):
            yield from _asserted(part, positive)
    elif isinstance(formula, s.Implies) and not positive:
        yield from _asserted(formula.left, True)
        yield from _asserted(formula.right, False)
    else:
        yield formula, positive


def _all(conditions: list[str]) -> str:
    return " AND ".join(conditions) or "true"


def _literal(constant: Constant) -> str:
    value = constant.value
    if isinstance(value, Decimal):
        return f"CAST({value:E} AS DOUBLE)" if constant.floating else f"{value:f}"
    if constant.kind == "interval":
        return f"to_microseconds({value!s})"
    if isinstance(value, bytes):
        return f"from_hex('{value.hex()}')"
    if constant.kind == "bool":
        return "true" if value else "false"
    text = str(value).replace("'", "''")
    return f"'{text}'" if constant.kind == "string" else f"{constant.kind.upper()} '{text}'"
