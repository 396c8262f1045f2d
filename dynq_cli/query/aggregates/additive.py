"""An additive aggregate → the basic aggregates that it is computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce

from dynq_cli.query.aggregates.definition import Additive
from dynq_cli.query.aggregates.sums import sum_type
from dynq_cli.query.draft import DraftAggregate
from dynq_cli.query.normal_form import Monomial
from dynq_cli.records import record
from dynq_cli.spec.types import INT64, MAX_PRECISION, Type, decimal

MOST_TERMS = 256


class TooLargeError(Exception):
    """A sum that has too many terms or digits; the message says which, and the hint what to write."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@record(frozen=True)
class Value:
    """A numeric expression as a sum of monomials."""

    type: Type
    monomials: tuple[Monomial, ...]

    @property
    def is_nullable(self) -> bool:
        return any(f.scalar.nullable for m in self.monomials for f in m.factors)


def basic_aggregates(
    definition: Additive,
    value_of: Callable[[str], Value],
    named: Callable[[str], str],
    *,
    nullable: bool,
) -> dict[str, DraftAggregate]:
    """The aggregate behind each of the sums; `value_of` reads a factor, `named` gives a sum its name in the draft.

    Each leaves out the rows where some argument is NULL. Raises TooLargeError.
    """
    arguments = [value_of(definition.present.format(f"{{{name}}}")) for name in definition.arguments]
    nullable = nullable or any(a.is_nullable for a in arguments)
    present = tuple(m for a in arguments if a.is_nullable for m in a.monomials)
    found = {}
    for name, factors in definition.sums.items():
        if not factors:
            found[name] = DraftAggregate(named(name), "count", INT64, False, present)
            continue
        values = [value_of(factor) for factor in factors]
        product = reduce(_times, (v.monomials for v in values))
        # What is multiplied by 0 may not be NULL either.
        monomials = (*product, *_zero(m for m in present if not _implied(m, product)))
        if len(monomials) > MOST_TERMS:
            message = f"multiplied out, {definition.shown} has more than {MOST_TERMS} terms here"
            raise TooLargeError(message, "give it an expression over one table")
        kind = _type(definition, values)
        found[name] = DraftAggregate(named(name), "sum", kind, nullable, monomials)
    return found


def _times(left: tuple[Monomial, ...], right: tuple[Monomial, ...]) -> tuple[Monomial, ...]:
    return tuple(Monomial(a.coefficient * b.coefficient, a.factors + b.factors) for a in left for b in right)


def _zero(monomials: Iterable[Monomial]) -> tuple[Monomial, ...]:
    return tuple(Monomial(0 * m.coefficient, m.factors) for m in monomials)


def _implied(monomial: Monomial, product: tuple[Monomial, ...]) -> bool:
    """Whether a product is NULL wherever a monomial is."""
    return any(set(monomial.factors) <= set(m.factors) for m in product)


def _type(definition: Additive, values: list[Value]) -> Type:
    if any(v.type.is_float for v in values):
        return sum_type(next(v.type for v in values if v.type.is_float))
    scale = sum(v.type.scale for v in values)
    if scale > MAX_PRECISION:
        kinds = " and ".join(dict.fromkeys(str(v.type) for v in values))
        message = f"{definition.name.upper()} of {kinds} needs {scale} digits after the point"
        raise TooLargeError(
            message, f"cast the argument to a decimal of at most {MAX_PRECISION // len(values)} of them"
        )
    return decimal(MAX_PRECISION, scale)


def arguments_in(factor: str, arguments: Mapping[str, str]) -> str:
    """A factor over SQL for the arguments.

    >>> arguments_in("abs({x})", {"x": "a.v"})
    'abs(a.v)'
    """
    return factor.format_map(arguments)
