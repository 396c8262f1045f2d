"""A draft: one conjunctive query as a front end reads it, before it is normalised.

A front end collects atoms, terms (scalars of one atom), equalities, comparisons and filters in a
`Draft`, each with the offset in the text it came from; `normalise.normalise` turns the draft into
a `ConjunctiveQuery`. The two front ends share nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from dynq_cli.query.normal_form import AtomMode, CompareOp, Monomial, Scalar, View
from dynq_cli.spec.model import Semantics
from dynq_cli.spec.types import BOOL, Type

# What a note says of conditions that can never hold.
EMPTY = "no row passes"
NEVER = Scalar("FALSE", BOOL, False, ())


@dataclass(frozen=True)
class Term:
    """A scalar of one atom; `name` is the variable name it would like to have."""

    atom: int
    scalar: Scalar
    name: str


@dataclass(frozen=True)
class DraftAggregate:
    """A basic aggregate. Those that read sums take monomials, those that read values take terms."""

    name: str
    function: str
    type: Type
    nullable: bool
    monomials: tuple[Monomial, ...] = ()
    terms: tuple[Term, ...] = ()
    detail: str = ""


@dataclass(frozen=True)
class Expression:
    """SQL over head terms and aggregates: `{0}`, `{1}` … stand for `parts`, braces are doubled."""

    template: str
    parts: tuple[Term | DraftAggregate, ...]
    type: Type
    nullable: bool


@dataclass(frozen=True)
class OutputItem:
    name: str
    value: Term | DraftAggregate | Expression


@dataclass
class DraftAtom:
    alias: str
    source: str
    mode: AtomMode
    filters: list[Scalar] = field(default_factory=list)
    null_aware: Term | None = None


@dataclass(frozen=True)
class Equality:
    """left = right + offset. `null_safe`: also where both are NULL."""

    left: Term
    right: Term
    offset: Decimal
    at: int
    null_safe: bool = False


@dataclass(frozen=True)
class DraftComparison:
    """left op right + offset, op one of < <= !=."""

    left: Term
    op: CompareOp
    right: Term
    offset: Decimal
    at: int


_SAID: dict[str, CompareOp] = {"<": "<", "<=": "<=", "!=": "!="}
_MIRRORED: dict[str, CompareOp] = {">": "<", ">=": "<="}


class Draft:
    """Collects; checks nothing but what the types of Python check.

    Conditions that can never hold are a problem where `refuses_empty`; otherwise they leave the query empty, and
    `notes` say so.
    """

    def __init__(self, name: str, semantics: Semantics) -> None:
        self.name = name
        self.semantics = semantics
        self.atoms: list[DraftAtom] = []
        self.terms: list[Term] = []
        self._terms: dict[tuple[int, str], Term] = {}
        self.equalities: list[Equality] = []
        self.constants: list[tuple[Term, Scalar, int]] = []
        self.comparisons: list[DraftComparison] = []
        self.outputs: list[OutputItem] = []
        self.group_by: list[Term] | None = None
        self.having: Expression | None = None
        # By a term, or by the output column of that name; whether it descends, and has NULL first, if that is said.
        self.order: list[tuple[Term | str, bool, bool | None]] = []
        self.views: list[View] = []
        self.refuses_empty = False
        self.notes: list[str] = []

    def copy(self, name: str, semantics: Semantics) -> Draft:
        """The same body under another name, without a head; what enters one of the two does not enter the other."""
        made = Draft(name, semantics)
        made.atoms = [replace(a, filters=list(a.filters)) for a in self.atoms]
        made.terms, made._terms = list(self.terms), dict(self._terms)
        made.equalities, made.constants = list(self.equalities), list(self.constants)
        made.comparisons = list(self.comparisons)
        made.refuses_empty, made.notes = self.refuses_empty, list(self.notes)
        return made

    def atom(self, alias: str, source: str, mode: AtomMode = "join") -> int:
        """Add an atom; its index names it from now on."""
        self.atoms.append(DraftAtom(alias, source, mode))
        return len(self.atoms) - 1

    def term(self, atom: int, scalar: Scalar, name: str) -> Term:
        """The term for a scalar of an atom: the same scalar of the same atom is the same term."""
        known = self._terms.get((atom, scalar.sql))
        if known is None:
            known = self._terms[atom, scalar.sql] = Term(atom, scalar, name)
            self.terms.append(known)
        return known

    def filter(self, atom: int, scalar: Scalar) -> None:
        """Keep only rows of the atom for which the scalar is true."""
        self.atoms[atom].filters.append(scalar)

    def leave_empty(self, atom: int, message: str) -> None:
        """Keep no row of an atom, since a condition never holds."""
        self.filter(atom, NEVER)
        self.notes.append(f"{message}: {EMPTY}")

    def equal(self, left: Term, right: Term, at: int, offset: Decimal = Decimal(0), *, null_safe: bool = False) -> None:
        """left = right + offset; at most one side may belong to an anti atom."""
        self.equalities.append(Equality(left, right, offset, at, null_safe))

    def equal_constant(self, term: Term, literal: Scalar, at: int) -> None:
        """term = literal; the literal has no columns and its type fits the term's."""
        self.constants.append((term, literal, at))

    def compare(self, left: Term, op: str, right: Term, at: int, offset: Decimal = Decimal(0)) -> None:
        """left op right + offset with op one of < <= > >= !=, the terms of different atoms."""
        if op in _MIRRORED:
            self.comparisons.append(DraftComparison(right, _MIRRORED[op], left, -offset, at))
        else:
            self.comparisons.append(DraftComparison(left, _SAID[op], right, offset, at))

    def output(self, name: str, value: Term | DraftAggregate | Expression) -> None:
        self.outputs.append(OutputItem(name, value))

    @property
    def aggregates(self) -> Sequence[DraftAggregate]:
        """Every aggregate of the outputs and of HAVING, once, in order."""
        values: list[object] = [o.value for o in self.outputs]
        values += [self.having] if self.having else []
        flat = [part for v in values for part in (v.parts if isinstance(v, Expression) else (v,))]
        return list(dict.fromkeys(v for v in flat if isinstance(v, DraftAggregate)))
