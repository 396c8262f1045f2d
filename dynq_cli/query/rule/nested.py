"""Aggregates of aggregates: the head of a rule as two heads, one over the groups of the other.

    q(y, m = max(x * sum(z))) :- …    becomes    inner(y, x, sum_z = sum(z)) :- …
                                                 q(y, m = max(x * sum_z)) :- inner(y, x, sum_z)

Inner aggregates are taken per value of the head's variables and of those beside them in the outer one: what a derived
table with GROUP BY says in SQL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from dynq_cli.query.classes import unique_name
from dynq_cli.query.problems import refuse
from dynq_cli.query.rule.syntax import ANY, Argument, Arithmetic, Call, Item, Part, Sum, Variable
from dynq_cli.spec.shown import shown


@dataclass(frozen=True)
class Levels:
    """The items of the inner head, and those of the outer one over its columns."""

    inner: tuple[Item, ...]
    outer: tuple[Item, ...]


def levels_of(items: Sequence[Item], names: Collection[str]) -> Levels | None:
    """The two heads of a head with nested aggregates; None if it has none. `names` are the body's variables.

    Raises QueryProblems where it is not said per what the inner aggregates are taken.
    """
    calls = [i.value for i in items if isinstance(i.value, Call)]
    nested = [c for c in calls if any(_inside(a) for a in c.arguments)]
    if not nested:
        return None
    plain = next((c for c in calls if c not in nested), None)
    if plain is not None:
        message = f"{shown(str(plain))} is of rows, and {shown(str(nested[0]))} beside it of groups"
        raise refuse(plain.at, message, "give each a query of its own")
    head = [v for i in items if isinstance(i.value, Sum) and isinstance(v := i.value.only, Variable)]
    known = {v.name for v in head}
    beside = [{v.name: v for a in c.arguments for v in _outside(a) if v.name not in known} for c in nested]
    per = next((b for b in beside if b), None)
    if per is None:
        inside = next(c for a in nested[0].arguments for c in _inside(a))
        message = f"{shown(str(inside))} has one value for each row of the result, and nothing to take the rest of"
        hint = f"say per what it is taken by a variable beside it, as in {nested[0].function}(x * {inside})"
        raise refuse(nested[0].at, message, hint)
    other = next((c for c, b in zip(nested, beside, strict=True) if b and b.keys() != per.keys()), None)
    if other is not None:
        message = f"inner aggregates are taken per {', '.join(per)}, and beside this one other variables stand"
        raise refuse(other.at, message, "give each a query of its own")
    return _split(items, nested, [*head, *per.values()], names)


def _split(items: Sequence[Item], nested: Sequence[Call], groups: Sequence[Variable], names: Collection[str]) -> Levels:
    taken = {*names, *(i.column or "" for i in items)}
    columns: dict[Call, str] = {}
    for call in (c for outer in nested for a in outer.arguments for c in _inside(a)):
        if call not in columns:
            columns[call] = unique_name(default_name(call), taken)
            taken.add(columns[call])
    keys = {v.name: Item(_plain(v), at=v.at) for v in groups if v.name != ANY}
    inner = (*keys.values(), *(Item(call, name, call.at) for call, name in columns.items()))
    outer = tuple(
        Item(_over(i.value, columns), i.column or default_name(i.value), i.at) if isinstance(i.value, Call) else i
        for i in items
    )
    return Levels(inner, outer)


def default_name(call: Call) -> str:
    """The name of a column that is given none.

    >>> from dynq_cli.query.rule.parse import parse
    >>> default_name(parse("q(max(x * sum(distinct y) + 2)) :- R(x, y)")[0].items[0].value)
    'max_x_sum_distinct_y'
    """
    return "_".join(
        [call.function, *(["distinct"] if call.distinct else []), *(w for a in call.arguments for w in _words(a))]
    )


def _words(argument: Argument) -> Iterator[str]:
    if isinstance(argument, Call):
        yield default_name(argument)
    elif isinstance(argument, Arithmetic):
        yield from (*_words(argument.left), *_words(argument.right))
    else:
        yield from (v.name for v in argument.variables)


def _plain(variable: Variable) -> Sum:
    return Sum((Part(1, variable),), variable.at)


def _inside(argument: Argument) -> list[Call]:
    """The aggregates within an argument, without those within these."""
    if isinstance(argument, Call):
        return [argument]
    return [*_inside(argument.left), *_inside(argument.right)] if isinstance(argument, Arithmetic) else []


def _outside(argument: Argument) -> list[Variable]:
    """The variables of an argument that stand in no aggregate within it."""
    if isinstance(argument, Arithmetic):
        return [*_outside(argument.left), *_outside(argument.right)]
    return list(argument.variables) if isinstance(argument, Sum) else []


def _over(argument: Call, columns: dict[Call, str]) -> Call:
    return Call(
        argument.function, tuple(_replaced(a, columns) for a in argument.arguments), argument.distinct, argument.at
    )


def _replaced(argument: Argument, columns: dict[Call, str]) -> Argument:
    """An argument with a variable for each aggregate within it."""
    if isinstance(argument, Call):
        return _plain(Variable(columns[argument], argument.at))
    if isinstance(argument, Arithmetic):
        left, right = _replaced(argument.left, columns), _replaced(argument.right, columns)
        return Arithmetic(left, argument.op, right, argument.at)
    return argument
