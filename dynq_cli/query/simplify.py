"""Simplify the comparisons of a draft: what remains compares different variables.

Until nothing changes: comparisons of a variable with itself are settled (and reported if they can
never hold), comparisons with a constant become filters, variables that the others force to be equal
are merged. Then what follows from the rest is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

from dynq_cli.query import scalar as sql
from dynq_cli.query.classes import Classes
from dynq_cli.query.comparisons import Closure, Edge, redundant, step_between
from dynq_cli.query.draft import DraftComparison, Equality, Term
from dynq_cli.query.normal_form import Comparison, Scalar, Temporal

# Takes an atom that has no row then, the place, a message, and a hint.
Never = Callable[[int, int, str, str], None]
TEMPORAL: dict[str, Temporal] = {"date": "date", "timestamp": "timestamp"}


def said(left: str, c: DraftComparison, right: str) -> Comparison:
    """A draft's comparison between named variables."""
    return Comparison(left, c.op, right, c.offset, TEMPORAL.get(c.left.scalar.type.name, ""))


@dataclass
class Simplified:
    """What is left, and what was found on the way."""

    comparisons: list[DraftComparison]
    equalities: list[Equality]
    required: set[Term] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


def simplify(
    comparisons: list[DraftComparison],
    equalities: list[Equality],
    classes: Classes,
    add_filter: Callable[[int, Scalar], None],
    never: Never,
) -> Simplified:
    """Merge and drop until every comparison says something of its own. Raises QueryProblems."""
    return _Simplifier(Simplified(comparisons, equalities), classes, add_filter, never).run()


class _Simplifier:
    def __init__(
        self, left: Simplified, classes: Classes, add_filter: Callable[[int, Scalar], None], never: Never
    ) -> None:
        self.left = left
        self.classes = classes
        self.add_filter = add_filter
        self.never = never

    def run(self) -> Simplified:
        while True:
            self.left.comparisons = [c for c in self.left.comparisons if not self._settled(c)]
            ordered = [c for c in self.left.comparisons if c.op != "!=" and _is_exact(c)]
            edges = [*map(self._edge, ordered), *self._edges_of_equalities()]
            closure = Closure(edges)
            if self._has_contradiction(closure, ordered):
                # Nothing else matters.
                self.left.comparisons.clear()
                self.left.equalities.clear()
                return self.left
            term = self.classes.of_key
            equal = [(term(x), term(y), c) for x, y, c in closure.equalities()]
            if not self._merge(equal):
                self._note_offset_equalities(equal)
                self._drop_redundant(ordered, edges, closure)
                return self.left

    def _settled(self, c: DraftComparison) -> bool:
        """Whether a comparison says nothing between two variables any more."""
        left, right = self.classes.find(c.left), self.classes.find(c.right)
        if left == right:
            if not {"<": c.offset > 0, "<=": c.offset >= 0, "!=": c.offset != 0}[c.op]:
                self.never(
                    c.left.atom,
                    c.at,
                    f"{c.left.name} {c.op} {c.right.name} compares a value with itself and can never hold",
                    "the query would always be empty; remove the comparison or compare other columns",
                )
            self.left.required.add(left)
            return True
        for side, other, flipped in ((left, c.right, False), (right, c.left, True)):
            literal = self.classes.constant.get(side)
            if literal is not None:
                self._filter_by_constant(c, literal, other, flipped)
                return True
        return False

    def _filter_by_constant(self, c: DraftComparison, literal: Scalar, other: Term, flipped: bool) -> None:
        """`literal op other + offset`, or flipped `other op literal + offset`, wherever `other` stands."""
        for t in self.classes.members(self.classes.find(other)):
            if flipped:
                made = sql.compare_shifted(t.scalar, c.op, literal, c.offset)
            else:
                made = sql.compare_shifted(literal, c.op, t.scalar, c.offset)
            self.add_filter(t.atom, made)

    def _edge(self, c: DraftComparison) -> tuple[Edge, Decimal | None]:
        return Edge(self.classes.key(c.left), c.op, self.classes.key(c.right), c.offset), _step(c.left, c.right)

    def _edges_of_equalities(self) -> list[tuple[Edge, Decimal | None]]:
        edges: list[tuple[Edge, Decimal | None]] = []
        for e in self.left.equalities:
            if not e.left.scalar.type.is_float:
                x, y, step = self.classes.key(e.left), self.classes.key(e.right), _step(e.left, e.right)
                edges += [(Edge(x, "<=", y, e.offset), step), (Edge(y, "<=", x, -e.offset), step)]
        return edges

    def _has_contradiction(self, closure: Closure, ordered: list[DraftComparison]) -> bool:
        broken = closure.contradiction()
        if broken is None:
            return False
        known: list[DraftComparison | Equality] = [*ordered, *self.left.equalities]
        where = next((c for c in known if broken in (self.classes.key(c.left), self.classes.key(c.right))), known[0])
        self.never(
            where.left.atom,
            where.at,
            f"the comparisons on {self.classes.of_key(broken).name} can never hold together",
            "the query would always be empty; remove or correct one of them",
        )
        return True

    def _merge(self, equal: list[tuple[Term, Term, Decimal]]) -> bool:
        plain = [(x, y) for x, y, offset in equal if not offset]
        for x, y in plain:
            self.left.notes.append(f"{x.name} = {y.name} follows from the comparisons: one variable")
            self.classes.union(x, y)
        return bool(plain)

    def _note_offset_equalities(self, equal: list[tuple[Term, Term, Decimal]]) -> None:
        find = self.classes.find
        known = {(find(e.left), find(e.right), e.offset) for e in self.left.equalities}
        known |= {(y, x, -c) for x, y, c in known}
        for x, y, c in equal:
            if (x, y, c) not in known:
                self.left.notes.append(f"{x.name} = {y.name} {c:+} follows from the comparisons: an equality")
                self.left.equalities.append(Equality(x, y, c, 0))

    def _drop_redundant(
        self, ordered: list[DraftComparison], edges: list[tuple[Edge, Decimal | None]], closure: Closure
    ) -> None:
        free = [self._is_local(c) for c in ordered] + [True] * (len(edges) - len(ordered))
        dropped = [c for c, gone in zip(ordered, redundant(edges, free), strict=False) if gone]
        key = self.classes.key
        for c in self.left.comparisons:
            if c.op == "!=" and closure.implies_different(key(c.left), key(c.right), c.offset):
                dropped.append(c)
        for c in dropped:
            shown = said(c.left.name, c, c.right.name)
            self.left.notes.append(f"{shown} follows from the other comparisons: removed")
        self.left.comparisons = [c for c in self.left.comparisons if c not in dropped]

    def _is_local(self, c: DraftComparison) -> bool:
        left, right = self.classes.find(c.left), self.classes.find(c.right)
        return bool(set(self.classes.atoms(left)) & set(self.classes.atoms(right)))


def _is_exact(c: DraftComparison) -> bool:
    """Floats with an offset round, so nothing may be concluded from them."""
    return not c.offset or not (c.left.scalar.type.is_float or c.right.scalar.type.is_float)


def _step(left: Term, right: Term) -> Decimal | None:
    return step_between(left.scalar.type, right.scalar.type)
