"""GROUPING SETS, ROLLUP and CUBE → one grouping for each set of keys; a result has the groups of all.

    GROUP BY a, ROLLUP (b, c)        (a, b, c), (a, b) and (a)

A key that is not in a set is NULL in its groups, outside of aggregates, and GROUPING says of each key whether it is in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations, product

from sqlglot import exp

from dynq_cli.query.sql.calls import is_aggregate
from dynq_cli.query.sql.context import Context, bare, key_of
from dynq_cli.query.sql.scalars import scalar, text_of
from dynq_cli.spec.types import Type

_Keys = tuple[exp.Expr, ...]
_SEVERAL = (exp.GroupingSets, exp.Cube, exp.Rollup)
_CALLS = (exp.Grouping, exp.GroupingId)
MOST_SETS = 64


def has_grouping_sets(select: exp.Expr) -> bool:
    """Whether a GROUP BY names several groupings, or that of no key."""
    group = select.args.get("group")
    if group is None:
        return False
    return any(isinstance(e, _SEVERAL) or (isinstance(e, exp.Tuple) and not e.expressions) for e in group.expressions)


def grouping_sets(context: Context, group: exp.Group) -> list[_Keys]:
    """The keys of each grouping as they are written. Raises QueryProblems if they are too many."""
    several = [_sets(context, element) for element in group.expressions]
    many = 1
    for sets in several:
        many *= len(sets)
    if many > MOST_SETS:
        message = f"this GROUP BY has {many} groupings, each of which is kept, and {MOST_SETS} are the most"
        raise context.refuse(group, message, "list the groupings that are looked at: GROUPING SETS ((a, b), a, ())")
    return [tuple(key for keys in chosen for key in keys) for chosen in product(*several)]


def _sets(context: Context, element: exp.Expr) -> list[_Keys]:
    if isinstance(element, exp.GroupingSets):
        return [keys for inner in element.expressions for keys in _sets(context, inner)]
    if isinstance(element, exp.Rollup):
        parts = [_keys(e) for e in element.expressions]
        return [_together(parts[:length]) for length in range(len(parts), -1, -1)]
    if isinstance(element, exp.Cube):
        parts = [_keys(e) for e in element.expressions]
        if 2 ** len(parts) > MOST_SETS:
            message = f"CUBE over {len(parts)} keys has {2 ** len(parts)} groupings, and {MOST_SETS} are the most"
            raise context.refuse(element, message, "list those that are looked at: GROUPING SETS ((a, b), a, ())")
        return [_together(some) for length in range(len(parts), -1, -1) for some in combinations(parts, length)]
    return [_keys(element)]


def _keys(element: exp.Expr) -> _Keys:
    return tuple(element.expressions) if isinstance(element, exp.Tuple) else (bare(element),)


def _together(parts: list[_Keys] | tuple[_Keys, ...]) -> _Keys:
    return tuple(key for part in parts for key in part)


class Grouping:
    """One grouping: `keys` are all resolved keys of the GROUP BY by text, `active` those of this set."""

    def __init__(self, context: Context, keys: Mapping[str, exp.Expr], active: Mapping[str, exp.Expr]) -> None:
        self.context = context
        self.keys = keys
        self.active = active

    def of(self, node: exp.Expr) -> exp.Expr:
        """What a resolved expression is for the groups of this set."""
        holder = exp.Paren(this=node.copy())
        self._replace(holder.this, self._replacement)
        inner: exp.Expr = holder.this
        return inner.pop()

    def _replace(self, node: exp.Expr, replacement: Callable[[exp.Expr], exp.Expr | None]) -> None:
        made = replacement(node)
        if made is not None:
            made.meta["start"] = self.context.at(node)
            node.replace(made)
        elif key_of(node) not in self.active and not _is_own_aggregate(node):
            for child in list(node.iter_expressions()):
                self._replace(child, replacement)

    def _replacement(self, node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, _CALLS):
            return exp.cast(exp.Literal.number(self._number(node)), "BIGINT")
        key = key_of(node)
        if key in self.keys and key not in self.active:
            return _null(scalar(self.context, self.keys[key]).type)
        return None

    def _number(self, call: exp.Expr) -> int:
        """A bit for each argument, 1 if it is no key of this set; the last argument has the lowest."""
        number = 0
        for argument in call.expressions:
            if key_of(argument) not in self.keys:
                shown = argument.name if isinstance(argument, exp.Column) else text_of(argument)
                message = f"GROUPING takes keys of the GROUP BY, and {shown} is none"
                raise self.context.refuse(argument, message, "name one that stands in the GROUP BY")
            number = 2 * number + (key_of(argument) not in self.active)
        return number


def _is_own_aggregate(node: exp.Expr) -> bool:
    """Whether a node is an aggregate of the groups, whose arguments are rows: what stands before OVER is none."""
    around = node.parent
    while isinstance(around, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        around = around.parent
    return is_aggregate(node) and not isinstance(around, exp.Window)


def _null(kind: Type) -> exp.Expr:
    return exp.cast(exp.Null(), kind.sql)
