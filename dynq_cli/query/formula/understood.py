"""What a formula says, as dynq understands it: negations inside, the values of each variable, how far a change reaches.

    formula     q(x) := depot(x) and not exists y: (link(x, y) and not depot(y))
    x           values of depot.node, link.from_node and link.to_node
    reach       1: a change can matter to values at most 1 atom away from it

A variable is as far from the head as atoms lead from one to the other. With a `max_degree` for each relation, the
values within reach of a change are bounded, however large the data are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dynq_cli.query.formula import syntax as s
from dynq_cli.query.formula.near_far import near_and_far
from dynq_cli.query.formula.resolve import (
    Conjunction,
    Disjunction,
    Far,
    Literal,
    Normal,
    Resolved,
    Some,
    Tally,
    free_variables,
)
from dynq_cli.query.rule.syntax import Comparison
from dynq_cli.spec.model import Spec

_SAID = {"at_least": ">=", "at_most": "<=", "exactly": "="}


@dataclass(frozen=True)
class Understood:
    """`ranges` has the columns that give each variable its values; `far` ones are counted as all less the near ones.

    `reach` is None for a sentence. `most` is how many values are within reach of a changed row; None without a bound.
    """

    text: str
    ranges: Mapping[str, tuple[str, ...]]
    far: tuple[str, ...]
    reach: int | None
    most: int | None

    def lines(self) -> Iterator[tuple[str, str]]:
        """What `explain` shows, each with its key."""
        yield "formula", self.text
        for variable, columns in self.ranges.items():
            yield "", f"{variable}: values of {_listed(columns)}"
        if self.far:
            yield "", f"all values of {_listed(self.far)} are counted less the near ones, which atoms tie to the others"
        if self.reach is None:
            yield "reach", "a sentence: its parts are counted, and a change adds to the counts"
            return
        told = (
            f"{self.reach}: a change matters to values at most {self.reach} atom{'' if self.reach == 1 else 's'} away"
        )
        bound = (
            f", at most {self.most:,} by `max_degree`" if self.most is not None else "; `max_degree` bounds how many"
        )
        yield "reach", told + bound


def understood(resolved: Resolved, spec: Spec) -> Understood:
    """What a resolved formula says of a spec."""
    ranges: dict[str, tuple[str, ...]] = {}
    for variable in sorted(resolved.places, key=lambda v: (v not in resolved.head, v)):
        columns = []
        order = [relation.name for relation in spec.relations]
        for name, at in sorted(resolved.places[variable], key=lambda place: (order.index(place[0]), place[1])):
            relation = spec.relation(name)
            assert relation is not None
            columns.append(f"{name}.{relation.columns[at].name}")
        ranges[variable] = tuple(columns)
    counted = near_and_far(resolved.formula)
    far = frozenset(v for part in _walk(counted) if isinstance(part, Far) for v in part.counted)
    parts = [part for part in _walk(resolved.formula) if isinstance(part, Literal | Comparison)]
    reach = _reach(resolved.head, parts, far) if resolved.head else None
    most = None if reach is None else _within(reach, {p.atom.relation for p in parts if isinstance(p, Literal)}, spec)
    text = f"{resolved.name}({', '.join(resolved.head)}) := {_text(resolved.formula, False)}"
    return Understood(text, ranges, tuple(sorted(far)), reach, most)


def _walk(formula: Normal) -> Iterator[Normal]:
    yield formula
    inside = (formula.body,) if isinstance(formula, Some | Tally) else getattr(formula, "parts", ())
    for part in inside:
        yield from _walk(part)


def _reach(head: tuple[str, ...], parts: list[Literal | Comparison], far: frozenset[str]) -> int:
    """The most atoms from a variable of the head to another variable, but for those that are counted as a whole."""
    away = dict.fromkeys(head, 0)
    ties = [free_variables(part) for part in parts]
    distance = 0
    while True:
        met = frozenset().union(*(t for t in ties if t & away.keys()), frozenset[str]()) - away.keys() - far
        if not met:
            # The other end of an atom that closes a cycle, or of one in the head alone, is one atom away.
            return max(distance, int(any(len(t) > 1 for t in ties)))
        distance += 1
        away |= dict.fromkeys(met, distance)


def _within(reach: int, relations: set[str], spec: Spec) -> int | None:
    """The values within reach of a changed row, by the degrees of the relations."""
    around = 0
    most = 1
    for name in relations:
        relation = spec.relation(name)
        if relation is None or relation.max_degree is None or relation.on_degree == "warn":
            return None
        columns = len(relation.columns)
        around += relation.max_degree * columns * (columns - 1)
        most = max(most, columns)
    total, ring = 0, most
    for _ in range(reach + 1):
        total += ring
        ring *= around
    return total


def _text(formula: Normal, is_part: bool) -> str:
    """A formula as it could be written; `is_part`: in parentheses where it is more than an atom."""
    if isinstance(formula, Literal):
        return ("" if formula.positive else "not ") + str(formula.atom)
    if isinstance(formula, Comparison):
        return str(formula)
    if isinstance(formula, Conjunction | Disjunction):
        word = " and " if isinstance(formula, Conjunction) else " or "
        text = word.join(_text(part, True) for part in formula.parts)
    else:
        assert isinstance(formula, Some | Tally)
        text = f"{'' if formula.positive else 'not '}{_quantifier(formula)}: {_text(formula.body, True)}"
    return f"({text})" if is_part else text


def _quantifier(formula: Some | Tally) -> str:
    if isinstance(formula, Some):
        return f"exists {', '.join(formula.variables)}"
    return f"exists{_count(formula.count)} {formula.variable}"


def _count(count: s.Count) -> str:
    return f"[{count.number} mod {count.modulus}]" if count.kind == "mod" else f"{_SAID[count.kind]}{count.number}"


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
