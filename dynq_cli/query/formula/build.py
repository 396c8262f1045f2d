"""Alternatives → the normal form: joins, atoms that are denied, groups with HAVING, unions.

    positive atoms                  atoms that join
    not R(x, y)                     an anti atom
    not exists y: A(x, y), …        an anti atom over a view of the x for which there is one
    exists>=m y: …                  a group for each x, with HAVING
    a variable that nothing joins   an atom over the values of its sort, as a view of their union

A view of what is denied also joins the atoms around it that give values to variables which it lacks, so that no product
with all values is taken where an atom guards the formula.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from dynq_cli.query import scalar as sql
from dynq_cli.query.classes import unique_name
from dynq_cli.query.compile import union_columns
from dynq_cli.query.draft import Draft, DraftAggregate, Expression
from dynq_cli.query.formula.branches import Branch, branches, existing, guarded, widened
from dynq_cli.query.formula.near_far import near_and_far
from dynq_cli.query.formula.resolve import Far, Literal, Resolved, Some, Tally, free_variables
from dynq_cli.query.formula.syntax import variables_of
from dynq_cli.query.normal_form import ConjunctiveQuery, Query, UnionQuery, View
from dynq_cli.query.normalise import normalise
from dynq_cli.query.problems import QueryProblems, refuse
from dynq_cli.query.rule.atoms import Bindings, bind_atoms, fitted
from dynq_cli.query.rule.compile import add_comparison
from dynq_cli.query.rule.syntax import ANY, Atom, Comparison, Constant, Part, Sum, Variable
from dynq_cli.spec.model import Column, Spec
from dynq_cli.spec.types import BOOL, INT64

VALUE = "value"
COUNT = "n"


class NeverError(Exception):
    """What is built can have no row; `problem` says why."""

    def __init__(self, problem: QueryProblems | None = None) -> None:
        super().__init__()
        self.problem = problem


def build(resolved: Resolved, spec: Spec, name: str) -> Query:
    """The normal form of a resolved formula. Raises QueryProblems if it can never have a row."""
    try:
        return _Builder(resolved, spec, name).query(name, branches(near_and_far(resolved.formula)), resolved.head)
    except NeverError as error:
        raise error.problem or QueryProblems([]) from None


class _Builder:
    def __init__(self, resolved: Resolved, spec: Spec, name: str) -> None:
        self.resolved = resolved
        self.spec = spec
        self.name = name
        self._views: set[str] = set()

    def query(self, name: str, found: Sequence[Branch], head: tuple[str, ...]) -> Query:
        """The rows of the head with which one of several branches holds."""
        members: list[ConjunctiveQuery] = []
        never: NeverError | None = None
        for branch in found:
            try:
                members.append(self._conjunctive(f"{name}.{len(members) + 1}", branch, head))
            except NeverError as error:
                never = error
        if not members:
            raise never or NeverError()
        if len(members) == 1:
            return replace(members[0], name=name)
        return UnionQuery(name, tuple(members), union_columns([m.columns for m in members]), "set")

    def _conjunctive(self, name: str, branch: Branch, head: tuple[str, ...]) -> ConjunctiveQuery:
        drafted = _Drafted(self, Draft(name, "set"), branch, head)
        for variable in head:
            drafted.draft.output(variable, drafted.bindings.terms[variable][0])
        return _normalised(drafted.draft)

    def view(self, kind: str, query: Query) -> View:
        name = unique_name(f"{self.name}.{kind}", self._views)
        columns = tuple(Column(c.name, c.type, c.nullable) for c in query.columns)
        return View(name, columns, replace(query, name=name))

    def values(self, variable: str) -> View:
        """All values of a variable's sort."""
        members = []
        for at, (relation, place) in enumerate(self.resolved.places[variable], 1):
            atom = self.everything(relation, place, VALUE)
            members.append(self._conjunctive(f"{self.name}.values.{at}", Branch(atoms=(atom,)), (VALUE,)))
        query = UnionQuery("", tuple(members), union_columns([m.columns for m in members]), "set")
        return self.view("values", query)

    def everything(self, relation: str, place: int, variable: str) -> Atom:
        """An atom that has a variable in one column."""
        found = self.spec.relation(relation)
        assert found is not None
        names = [variable if i == place else ANY for i in range(len(found.columns))]
        return Atom(relation, tuple(_sum_of(n) for n in names))

    def groups(self, tally: Tally, around: Branch) -> View | None:
        """The groups of values that count as many as a tally asks for; where nothing is free, one row if it holds.

        None if it always holds.
        """
        free = tuple(sorted(free_variables(tally)))
        wanted = (*free, tally.variable)
        inside = [widened(b, around, frozenset(wanted)) for b in branches(tally.body)]
        inside = [guarded(b, around, frozenset(free)) for b in inside]
        draft = Draft("", "set")
        if len(inside) == 1 and inside[0].is_one_atom and inside[0].joined == set(wanted):
            bindings, _ = bind_atoms(inside[0].atoms, self.spec, draft, nulls=False)
        else:
            try:
                counted = self.view("counted", self.query("", inside, wanted))
            except NeverError:
                if free or not tally.holds(0):
                    raise
                return None
            draft.views.append(counted)
            bindings = Bindings()
            _bind_view(draft, bindings, counted, wanted)
        terms = [bindings.terms[v][0] for v in free]
        for variable, term in zip(free, terms, strict=True):
            draft.output(variable, term)
        if free:
            draft.group_by = terms
        _count_rows(draft, tally.over("{0}"), shown=not free)
        return self.view("groups", _normalised(draft))

    def near(self, far: Far, shown: bool = False, condition: str = "") -> Query:
        """The outer values that have near rows, as many as a condition says.

        `shown`: with what the number of all rows is compared with.
        """
        found = branches(far.near)
        if not shown and not condition:
            return self.query("", found, far.outer)
        draft, count = self._counting(self.query("", found, (*far.outer, *far.counted)), far.outer)
        if shown:
            draft.output(COUNT, Expression(far.wanted("{0}"), (count,), INT64, False))
        draft.having = Expression(condition, (count,), BOOL, False) if condition else None
        return _normalised(draft)

    def total(self, far: Far, condition: str = "") -> ConjunctiveQuery:
        """The number of all rows, to be compared; with a condition one row, if the number satisfies it."""
        draft, count = self._counting(self.query("", branches(far.whole), far.counted), ())
        draft.output(COUNT, Expression(far.compared("{0}"), (count,), INT64, False))
        draft.having = Expression(condition, (count,), BOOL, False) if condition else None
        return _normalised(draft)

    def _counting(self, counted: Query, groups: tuple[str, ...]) -> tuple[Draft, DraftAggregate]:
        """A draft that groups the rows of a query by its first columns, and what counts them."""
        draft, bindings = Draft("", "set"), Bindings()
        view = self.view("counted", counted)
        draft.views.append(view)
        _bind_view(draft, bindings, view, [c.name for c in view.columns])
        terms = [bindings.terms[c.name][0] for c in view.columns[: len(groups)]]
        for variable, term in zip(groups, terms, strict=True):
            draft.output(variable, term)
        if groups:
            draft.group_by = terms
        return draft, DraftAggregate(COUNT, "count", INT64, False)

    def nothing(self, branch: Branch) -> View:
        """One row if no row satisfies a branch without free variables."""
        drafted = _Drafted(self, Draft("", "set"), branch, ())
        _count_rows(drafted.draft, "{0} = 0", shown=True)
        return self.view("groups", _normalised(drafted.draft))


def _count_rows(draft: Draft, condition: str, shown: bool) -> None:
    count = DraftAggregate(COUNT, "count", INT64, False)
    if shown:
        draft.output(COUNT, count)
    draft.having = Expression(condition, (count,), BOOL, False)


def _normalised(draft: Draft) -> ConjunctiveQuery:
    """The normal form of a draft whose texts have been checked: what is still wrong is that it can have no row."""
    draft.refuses_empty = True
    try:
        return normalise(draft)
    except QueryProblems as problem:
        raise NeverError(problem) from None


def _sum_of(name: str) -> Sum:
    return Sum((Part(1, Variable(name)),))


def _bind_view(draft: Draft, bindings: Bindings, view: View, variables: Iterable[str], alias: str = "") -> None:
    """Add an atom over a view whose columns are variables."""
    index = draft.atom(alias or view.name, view.name)
    for variable, column in zip(variables, view.columns, strict=True):
        term = draft.term(index, sql.column_scalar(column), variable)
        bindings.add(variable, term, draft)


class _Drafted:
    """The draft of one branch, with a value for each variable of the head and of what the branch compares or denies."""

    def __init__(self, builder: _Builder, draft: Draft, branch: Branch, head: tuple[str, ...]) -> None:
        self.builder = builder
        self.draft = draft
        self.branch = branch
        self.bindings, problems = bind_atoms(branch.atoms, builder.spec, draft, nulls=False)
        assert not problems, problems
        self._aliases = {a.alias for a in draft.atoms} | {r.name for r in builder.spec.relations}
        for kept in branch.kept:
            columns = tuple(sorted(free_variables(kept)))
            self._join(builder.view("kept", builder.query("", branches(kept), columns)), columns)
        for tally in branch.tallies:
            self._tally(tally)
        for far in branch.fars:
            self._far(far)
        self._equate()
        compared = {v.name for c in branch.comparisons for v in variables_of(c)}
        denied = frozenset[str]().union(*map(free_variables, (*branch.lacking, *branch.fars)))
        for variable in sorted({*compared, *denied, *head, *branch.ranging} - set(self.bindings.terms)):
            self._range(variable)
            self._equate()
        for comparison in branch.comparisons:
            self._compare(comparison)
        for far in branch.fars:
            if not far.touched:
                with suppress(NeverError):
                    self._anti_view(builder.view("near", builder.near(far)), far.outer)
        closed: list[Branch] = []
        for part in branch.lacking:
            closed += self._deny(part)
        for inside in closed:
            with suppress(NeverError):
                self._join(builder.nothing(inside), (COUNT,))
        if not draft.atoms:
            raise refuse(0, "the formula holds whatever the data are", "correct it, or leave it out")

    def _join(self, view: View, variables: Sequence[str]) -> None:
        self.draft.views.append(view)
        if variables == (COUNT,):
            self.draft.atom(view.name, view.name)
        else:
            _bind_view(self.draft, self.bindings, view, variables)

    def _tally(self, tally: Tally) -> None:
        free = tuple(sorted(free_variables(tally)))
        view = self.builder.groups(tally, self.branch)
        if view is not None:
            self._join(view, free or (COUNT,))

    def _far(self, far: Far) -> None:
        """Compare the number of all rows with that of the near ones; without near ones, the first decides."""
        if not far.touched:
            try:
                held = self.builder.total(far, far.over("{0}"))
            except NeverError:
                if far.holds(0):
                    return
                raise
            self._join(self.builder.view("total", held), (COUNT,))
            return
        try:
            total = self.builder.view("total", self.builder.total(far))
        except NeverError:
            # The near ones are all that there are.
            self._join(self.builder.view("near", self.builder.near(far, condition=far.over("{0}"))), far.outer)
            return
        near = self.builder.view("near", self.builder.near(far, shown=True))
        counts = [f"{view.name}.{COUNT}" for view in (total, near)]
        self._join(near, (*far.outer, counts[1]))
        self._join(total, counts[:1])
        have, want = (self.bindings.terms[name][0] for name in counts)
        if far.op == "=":
            self.draft.equal(have, want, 0)
        else:
            self.draft.compare(have, far.op, want, 0)

    def _equate(self) -> None:
        """A variable that equals another has its value: both are of one sort."""
        terms = self.bindings.terms
        pairs = self.branch.equated
        for one, other in [*pairs, *((b, a) for a, b in pairs)] * len(pairs):
            if one in terms and other not in terms:
                terms[other] = [terms[one][0]]
                self.bindings.types[other] = self.bindings.types[one]

    def _range(self, variable: str) -> None:
        """Let a variable range over all values of its sort."""
        places = self.builder.resolved.places[variable]
        if len(places) > 1:
            self._join(self.builder.values(variable), (variable,))
            return
        atom = self.builder.everything(*places[0], variable)
        found, _ = bind_atoms([atom], self.builder.spec, self.draft, nulls=False)
        self.bindings.add(variable, found.terms[variable][0], self.draft)

    def _compare(self, comparison: Comparison) -> None:
        sides = (comparison.left.only, comparison.right.only)
        if isinstance(sides[0], Variable) and isinstance(sides[1], Variable):
            terms = self.bindings.terms
            if terms[sides[0].name][0] == terms[sides[1].name][0]:
                # Both are one term: equal by `_equate`, or the same variable.
                if comparison.op in ("!=", "<", ">"):
                    raise NeverError()
                return
        problems = add_comparison(comparison, self.bindings, self.draft)
        if problems:
            raise NeverError(QueryProblems(problems))

    def _deny(self, part: Literal | Some | Tally) -> list[Branch]:
        """Add anti atoms; what has no variable in common with this branch is returned."""
        if isinstance(part, Tally):
            with suppress(NeverError):
                self._anti_view(self.builder.groups(part, self.branch), tuple(sorted(free_variables(part))))
            return []
        closed = []
        free = free_variables(part)
        joins = any(atom.mode == "join" for atom in self.draft.atoms)
        for branch in [Branch(atoms=(part.atom,))] if isinstance(part, Literal) else existing(part):
            shared = tuple(sorted(free & branch.named))
            if branch.is_one_atom and joins:
                self._anti(branch.atoms[0])
            elif shared:
                inside = widened(branch, self.branch, branch.named & free)
                with suppress(NeverError):
                    self._anti_view(self.builder.view("denied", self.builder.query("", [inside], shared)), shared)
            else:
                closed.append(branch)
        return closed

    def _anti_view(self, view: View | None, shared: tuple[str, ...]) -> None:
        """Deny a row of a view; None has one for everything."""
        if view is None:
            raise NeverError
        self.draft.views.append(view)
        index = self.draft.atom(view.name, view.name, "anti")
        for variable, column in zip(shared, view.columns, strict=True):
            self._link(index, column, variable)

    def _link(self, index: int, column: Column, variable: str) -> None:
        term = self.draft.term(index, sql.column_scalar(column), column.name)
        self.draft.equal(self.bindings.terms[variable][0], term, 0)

    def _anti(self, atom: Atom) -> None:
        """Deny that a relation has a row; variables that are not of this branch may have any value."""
        relation = self.builder.spec.relation(atom.relation)
        assert relation is not None
        index = self.draft.atom(unique_name(relation.name, self._aliases), relation.name, "anti")
        own: dict[str, Column] = {}
        for argument, column in zip(atom.arguments, relation.columns, strict=True):
            (part,) = argument.parts
            variable = part.operand
            if isinstance(variable, Constant):
                literal = fitted(relation, column, variable, part.sign, argument.at)
                self.draft.equal_constant(self.draft.term(index, sql.column_scalar(column), column.name), literal, 0)
                continue
            assert isinstance(variable, Variable)
            if variable.name in self.bindings.terms:
                self._link(index, column, variable.name)
            elif variable.name in own:
                same = sql.compare(sql.column_scalar(own[variable.name]), "=", sql.column_scalar(column))
                self.draft.filter(index, same)
            elif variable.name != ANY:
                own[variable.name] = column
                if column.nullable:
                    self.draft.filter(index, sql.not_null(sql.column_scalar(column)))
