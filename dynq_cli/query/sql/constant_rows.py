"""Rows that no relation has: VALUES, and a SELECT without FROM.

    VALUES (1, 'a'), (2, 'b')     SELECT 1 AS col0, 'a' AS col1 UNION ALL SELECT 2 AS col0, 'b' AS col1
    SELECT 1                      SELECT 1 FROM the one row that a COUNT over no rows has

The one row is a view over the relation that changes least, none of whose rows passes: no change ever touches it.
"""

from __future__ import annotations

from functools import reduce

from sqlglot import exp

from dynq_cli.query.draft import Draft, DraftAggregate
from dynq_cli.query.normal_form import ConjunctiveQuery, Scalar
from dynq_cli.query.normalise import normalise
from dynq_cli.query.problems import refuse
from dynq_cli.query.sql.parse import Places
from dynq_cli.spec.model import Spec
from dynq_cli.spec.types import BOOL, INT64

MOST_ROWS = 64
_CHANGES = ("rare", "normal", "often")


def values_as_selects(tree: exp.Expr, places: Places) -> None:
    """Put a union of SELECTs in place of each VALUES. Raises QueryProblems where one has too many rows."""
    for node in list(tree.find_all(exp.Values)):
        made = exp.Subquery(this=_union(node, places), alias=node.args.get("alias"))
        if isinstance(node.parent, exp.In) and node.arg_key == "expressions":
            around = node.parent
            around.set("expressions", None)
            around.set("query", made)
        elif isinstance(node.parent, exp.Table):
            # First in brackets around joins, a table stands around it and has its alias and the joins.
            for part in ("alias", "joins"):
                made.set(part, node.parent.args.get(part))
            node.parent.replace(made)
        else:
            node.replace(made)


def _union(node: exp.Values, places: Places) -> exp.Query:
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
    if len(rows) > MOST_ROWS:
        message = f"VALUES of {len(rows)} rows, and {MOST_ROWS} are the most"
        raise refuse(
            places.at(node), message, "declare a relation for these rows, and load them with `dynq init --load`"
        )
    selects: list[exp.Query] = [
        exp.Select(expressions=[exp.alias_(value.copy(), f"col{i}") for i, value in enumerate(row)]) for row in rows
    ]
    return reduce(lambda before, after: exp.Union(this=before, expression=after, distinct=False), selects)


def one_row(spec: Spec, name: str) -> ConjunctiveQuery | None:
    """A query that always has one row, whose column is 0; None if the spec has no relation."""
    if not spec.relations:
        return None
    relation = min(spec.relations, key=lambda r: _CHANGES.index(r.changes))
    draft = Draft(name, "bag")
    draft.filter(draft.atom(relation.name, relation.name), Scalar("FALSE", BOOL, False, ()))
    draft.output("none", DraftAggregate("none", "count", INT64, False))
    return normalise(draft)
