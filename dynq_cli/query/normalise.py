"""Draft → normal form: the rules at the head of `normal_form`, in order.

1. equal terms are merged to variables, their types widened
2. constants become filters wherever the variable stands, and the variable goes
3. comparisons: contradictions reported, implied equalities merged, redundant ones dropped
4. comparisons within one atom become its filters; equalities with an offset become bindings
5. anti atoms are linked to the variables outside
6. NULL-able bindings that are joined or compared get their filter
7. head, aggregates, outputs and order are said in variables
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation

from dynq_cli.query import scalar as sql
from dynq_cli.query.classes import Classes, describe, unique_name, widest
from dynq_cli.query.comparisons import bound_of, step_between
from dynq_cli.query.draft import EMPTY, NEVER, Draft, DraftComparison, Equality, Expression, Term
from dynq_cli.query.normal_form import Atom, AtomMode, Binding, Comparison, ConjunctiveQuery, Scalar, Variable
from dynq_cli.query.problems import QueryProblems, TextProblem, refuse
from dynq_cli.query.resolve_head import Speaker
from dynq_cli.query.simplify import said, simplify
from dynq_cli.spec.types import Type, common_type


def normalise(draft: Draft) -> ConjunctiveQuery:
    """The conjunctive query a draft says. Raises QueryProblems with everything found wrong."""
    return _Normaliser(draft).run()


@dataclass
class _DraftedAtom:
    """An atom in the making: `bound` has the scalar of each variable, before the variable's type is known."""

    bound: dict[Term, Scalar] = field(default_factory=dict)
    private: list[Binding] = field(default_factory=list)
    filters: list[Scalar] = field(default_factory=list)
    # Variables of an anti atom that match NULL with NULL.
    null_safe: set[Term] = field(default_factory=set)


class _Normaliser:
    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.classes = Classes(draft)
        self.problems: list[TextProblem] = []
        self.notes: list[str] = list(draft.notes)
        self.atoms = [_DraftedAtom(filters=list(a.filters)) for a in draft.atoms]
        self.required: set[Term] = set()
        self.strict: set[Term] = set()
        self.offset_equalities: list[Equality] = []
        self.stated: list[DraftComparison] = []
        self.comparisons: list[Comparison] = []

    def run(self) -> ConjunctiveQuery:
        self._merge()
        self._stop_on_problems()
        self._constants()
        self._stop_on_problems()
        outside = [c for c in self.stated if not (self._anti(c.left) or self._anti(c.right))]
        left = simplify(outside, self.offset_equalities, self.classes, self._add_filter, self._never)
        self._stop_on_problems()
        self.required = {self.classes.find(t) for t in left.required}
        self.notes += left.notes
        self.strict = self._strict()
        self.name = self.classes.names()
        self._taken = set(self.name.values())
        self._bind()
        self._derive_offset_equalities(left.comparisons)
        for c in left.comparisons:
            self._lower(c)
        self._link_anti_atoms()
        self._stop_on_problems()
        return self._finish()

    def _anti(self, term: Term) -> bool:
        return self.draft.atoms[term.atom].mode == "anti"

    def _add_filter(self, atom: int, scalar: Scalar) -> None:
        self.atoms[atom].filters.append(scalar)

    def _never(self, atom: int, at: int, message: str, hint: str) -> None:
        """Take note of conditions that can never hold, or refuse them."""
        if self.draft.refuses_empty:
            raise refuse(at, message, hint)
        self._add_filter(atom, NEVER)
        self.notes.append(f"{message}: {EMPTY}")

    def _problem(self, at: int, message: str, hint: str = "") -> None:
        self.problems.append(TextProblem(at, message, hint))

    def _stop_on_problems(self) -> None:
        if self.problems:
            raise QueryProblems(self.problems)

    def _merge(self) -> None:
        for e in self.draft.equalities:
            self._check_types(e.left, "=", e.right, e.at)
            if self._anti(e.left) or self._anti(e.right):
                continue
            if e.offset:
                self.offset_equalities.append(e)
            else:
                self.classes.union(e.left, e.right)
        for c in self.draft.comparisons:
            self._check_types(c.left, c.op, c.right, c.at)
            self.stated.append(_snapped(c))

    def _strict(self) -> set[Term]:
        """Variables that are joined by an equality which NULL does not satisfy."""
        joins = [e for e in self.draft.equalities if not (self._anti(e.left) or self._anti(e.right))]
        strict = [e for e in (*joins, *self.offset_equalities) if not e.null_safe]
        return {self.classes.find(t) for e in strict for t in (e.left, e.right)} | self.required

    def _check_types(self, left: Term, op: str, right: Term, at: int) -> None:
        if common_type(left.scalar.type, right.scalar.type) is None:
            self._problem(
                at,
                f"{describe(self.draft, left)} {op} {describe(self.draft, right)}: the two sides have no common type",
                f"cast one side in SQL, or declare both columns {left.scalar.type} or {right.scalar.type}",
            )

    def _constants(self) -> None:
        for term, literal, at in self.draft.constants:
            if self._anti(term):
                self.atoms[term.atom].filters.append(sql.compare(term.scalar, "=", literal))
                continue
            root = self.classes.find(term)
            known = self.classes.constant.get(root)
            if known is not None and _differ(known.sql, literal.sql):
                self._never(
                    term.atom,
                    at,
                    f"{term.name} = {known.sql} and {term.name} = {literal.sql} can never hold together",
                    "the query would always be empty; remove one of the two",
                )
            self.classes.constant.setdefault(root, literal)
            self.atoms[term.atom].filters.append(sql.compare(term.scalar, "=", literal))

    def _bind(self) -> None:
        needed = {self.classes.find(term) for a in self.draft.aggregates for term in a.terms}
        for root in self.classes.representatives():
            constant = self.classes.constant.get(root)
            for term in self.classes.members(root):
                atom = self.atoms[term.atom]
                known = atom.bound.get(root)
                if known is not None:
                    is_strict = root in self.strict or not (known.nullable and term.scalar.nullable)
                    atom.filters.append(
                        sql.compare(known, "=", term.scalar) if is_strict else sql.same(known, term.scalar)
                    )
                elif constant is None or (root in needed and self._own(term)):
                    atom.bound[root] = term.scalar
                if constant is not None:
                    same = sql.compare(term.scalar, "=", constant)
                    if same not in atom.filters:
                        atom.filters.append(same)
            if constant is not None:
                self.notes.append(f"{self.name[root]} is always {constant.sql}: a filter, not a variable")
        position = {(t.atom, t.scalar.sql): i for i, t in enumerate(self.draft.terms)}
        for i, atom in enumerate(self.atoms):
            written = sorted(atom.bound.items(), key=lambda item, i=i: position[i, item[1].sql])  # type: ignore[misc]
            atom.bound = dict(written)

    def _own(self, term: Term) -> bool:
        return any(term in a.terms for a in self.draft.aggregates)

    def _derive_offset_equalities(self, compared: list[DraftComparison]) -> None:
        """x = y + offset: bind x wherever y stands, computed. If nothing else needs y, x takes its place.

        Both directions where types are exact, so that the shape of the query is that of one variable.
        """
        for i, e in enumerate(self.offset_equalities):
            x, y = self.classes.find(e.left), self.classes.find(e.right)
            both = [a for a in self.atoms if x in a.bound and y in a.bound]
            for atom in both:
                atom.filters.append(sql.compare(atom.bound[x], "=", sql.shift(atom.bound[y], e.offset)))
            if both or self._equal_constants(e, x, y):
                continue
            if e.left.scalar.type.is_float or e.right.scalar.type.is_float:
                self._derive(x, y, e.offset, keep=True)
                continue
            others = self.offset_equalities[:i] + self.offset_equalities[i + 1 :]
            needed = self._needed(compared, others)
            if y not in needed:
                self._derive(x, y, e.offset, keep=False)
            elif x not in needed:
                self._derive(y, x, -e.offset, keep=False)
            else:
                with_x = [a for a in self.atoms if x in a.bound]
                self._derive(x, y, e.offset, keep=True)
                self._derive(y, x, -e.offset, keep=True, among=with_x)

    def _derive(
        self, made: Term, known: Term, offset: Decimal, keep: bool, among: list[_DraftedAtom] | None = None
    ) -> None:
        """Bind made = known + offset in every atom that binds `known`."""
        for atom in self.atoms if among is None else among:
            scalar = atom.bound.get(known)
            if scalar is not None:
                if not keep:
                    del atom.bound[known]
                atom.bound[made] = sql.shifted_value(scalar, offset)

    def _needed(self, compared: list[DraftComparison], equalities: list[Equality]) -> set[Term]:
        """Variables that something other than joins refers to."""
        draft = self.draft
        terms: list[Term] = [term for a in draft.aggregates for term in a.terms]
        terms += [*(draft.group_by or []), *(t for t, *_ in draft.order if isinstance(t, Term))]
        for value in [o.value for o in draft.outputs] + ([draft.having] if draft.having else []):
            parts = value.parts if isinstance(value, Expression) else (value,)
            terms += [p for p in parts if isinstance(p, Term)]
        pairs: list[DraftComparison | Equality] = [*compared, *equalities]
        linked: list[DraftComparison | Equality] = [*draft.equalities, *self.stated]
        pairs += [p for p in linked if self._anti(p.left) or self._anti(p.right)]
        for pair in pairs:
            terms += [pair.left, pair.right]
        return {self.classes.find(t) for t in terms if not self._anti(t)}

    def _equal_constants(self, e: Equality, x: Term, y: Term) -> bool:
        """x = y + offset where one side is a constant: a filter on the other."""
        for root, offset, side in ((y, e.offset, x), (x, -e.offset, y)):
            literal = self.classes.constant.get(root)
            if literal is not None:
                for term in self.classes.members(side):
                    shifted = sql.compare(term.scalar, "=", sql.shift(literal, offset))
                    self.atoms[term.atom].filters.append(shifted)
                return True
        return False

    def _lower(self, c: DraftComparison) -> None:
        x, y = self.classes.find(c.left), self.classes.find(c.right)
        both = [a for a in self.atoms if x in a.bound and y in a.bound]
        for atom in both:
            atom.filters.append(sql.compare_shifted(atom.bound[x], c.op, atom.bound[y], c.offset))
        if not both:
            self.required |= {x, y}
            made = said(self.name[x], c, self.name[y])
            if made not in self.comparisons:
                self.comparisons.append(made)

    def _link_anti_atoms(self) -> None:
        for e in self.draft.equalities:
            if self._anti(e.left):
                self._link(e.left, self.classes.find(e.right), -e.offset, e.null_safe)
            elif self._anti(e.right):
                self._link(e.right, self.classes.find(e.left), e.offset, e.null_safe)
        for c in self.stated:
            if self._anti(c.left) or self._anti(c.right):
                self._compare_anti(c)

    def _link(self, inner: Term, outer: Term, offset: Decimal, null_safe: bool) -> None:
        """Bind outer = inner + offset in the anti atom."""
        atom = self.atoms[inner.atom]
        shifted = sql.shifted_value(inner.scalar, offset)
        constant = self.classes.constant.get(outer)
        known = atom.bound.get(outer)
        if constant is not None:
            aware = self.draft.atoms[inner.atom].null_aware == inner
            same = sql.equal_or_null(shifted, constant) if aware else sql.compare(shifted, "=", constant)
            atom.filters.append(same)
        elif known is not None:
            atom.filters.append(sql.same(known, shifted) if null_safe else sql.compare(known, "=", shifted))
        else:
            atom.bound[outer] = shifted
            atom.null_safe |= {outer} if null_safe else set()

    def _compare_anti(self, c: DraftComparison) -> None:
        names = []
        for term in (c.left, c.right):
            if not self._anti(term):
                root = self.classes.find(term)
                constant = self.classes.constant.get(root)
                if constant is not None:
                    inner = c.right if term == c.left else c.left
                    sides = (constant, inner.scalar) if term == c.left else (inner.scalar, constant)
                    made = sql.compare_shifted(sides[0], c.op, sides[1], c.offset)
                    self.atoms[inner.atom].filters.append(made)
                    return
                names.append(self.name[root])
                continue
            name = unique_name(f"{self.draft.atoms[term.atom].alias}_{term.name}", self._taken)
            self.atoms[term.atom].private.append(Binding(name, term.scalar))
            names.append(name)
        self.comparisons.append(said(names[0], c, names[1]))

    def _types(self) -> dict[Term, Type]:
        found: dict[Term, list[Type]] = {}
        for atom in self.atoms:
            for variable, scalar in atom.bound.items():
                found.setdefault(variable, []).append(scalar.type)
        types = {}
        for root, several in found.items():
            common = widest(several)
            if common is None:
                shown = ", ".join(dict.fromkeys(map(str, several)))
                at = max((e.at for e in self.draft.equalities if self._joins(e, root)), default=0)
                message = f"{self.name[root]} joins columns of types without a common one: {shown}"
                self._problem(at, message, "cast one side in SQL, or declare the columns with one type")
                self._stop_on_problems()
            assert common is not None
            types[root] = common
        return types

    def _is_required(self, mode: AtomMode, made: _DraftedAtom, variable: Term, joined: bool) -> bool:
        """Whether rows where a variable is NULL stay out of an atom."""
        if mode == "anti":
            return variable not in made.null_safe
        return variable in self.required or (joined and variable in self.strict)

    def _joins(self, e: Equality, root: Term) -> bool:
        return any(not self._anti(t) and self.classes.find(t) == root for t in (e.left, e.right))

    def _finish(self) -> ConjunctiveQuery:
        types = self._types()
        joined = {
            root: sum(1 for i, a in enumerate(self.atoms) if root in a.bound and self.draft.atoms[i].mode != "anti")
            for root in types
        }
        atoms = []
        nullable: dict[str, bool] = {}
        for drafted, made in zip(self.draft.atoms, self.atoms, strict=True):
            bindings = []
            aware = None
            for variable, scalar in made.bound.items():
                value = sql.cast(scalar, types[variable])
                name = self.name[variable]
                if drafted.null_aware is not None and scalar.sql == drafted.null_aware.scalar.sql:
                    aware = name
                elif scalar.nullable and self._is_required(drafted.mode, made, variable, joined[variable] > 1):
                    made.filters.append(sql.not_null(scalar))
                    value = Scalar(value.sql, value.type, False, value.columns)
                bindings.append(Binding(name, value))
                if drafted.mode != "anti":
                    nullable[name] = value.nullable
            for b in made.private:
                if b.scalar.nullable:
                    made.filters.append(sql.not_null(b.scalar))
            filters = tuple(dict.fromkeys(made.filters))
            atoms.append(Atom(drafted.alias, drafted.source, (*bindings, *made.private), filters, drafted.mode, aware))
        variables = [Variable(self.name[r], t, nullable.get(self.name[r], False)) for r, t in types.items()]
        variables += [Variable(b.variable, b.scalar.type) for a in self.atoms for b in a.private]
        return Speaker(self.draft, self.classes, self.name).query(atoms, self.comparisons, variables, self.notes)


def _snapped(c: DraftComparison) -> DraftComparison:
    """The same comparison with an offset that its type has: x < y + 0.5 on integers is x <= y."""
    step = step_between(c.left.scalar.type, c.right.scalar.type)
    if c.op == "!=" or bound_of("<=", c.offset, step)[0] == c.offset:
        return c
    return replace(c, op="<=", offset=bound_of(c.op, c.offset, step)[0])


def _differ(a: str, b: str) -> bool:
    """Whether two literals are surely different values."""
    try:
        return Decimal(a) != Decimal(b)
    except InvalidOperation:
        return a != b and a.startswith("'") and b.startswith("'")
