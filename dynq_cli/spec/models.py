"""The `models:` of a spec: least-squares regressions over the results of queries."""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import Decimal

from dynq_cli.errors import Place
from dynq_cli.spec.model import ModelSpec, Text
from dynq_cli.spec.names import Names
from dynq_cli.spec.nodes import Node, Scalar
from dynq_cli.spec.report import Field, Report, Shape
from dynq_cli.spec.shown import shown

MOST_DEGREE, MOST_SUMS = 4, 2000

_HINT = "write `NAME: {over: QUERY, label: COLUMN, features: [COLUMN, …]}`"
_SHAPE = Shape(
    hint=_HINT,
    required={
        "over": "write `over:` with the name of a query",
        "label": "write `label:` with the column that is to be predicted",
        "features": "write `features:` with the columns that predict it, as in `features: [lines, weight]`",
    },
    optional=("degree", "ridge", "per"),
    synonyms={
        "query": "over",
        "target": "label",
        "y": "label",
        "x": "features",
        "group_by": "per",
        "by": "per",
        "lambda": "ridge",
        "alpha": "ridge",
    },
)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?|\.[0-9]+")


def read_models(
    report: Report, node: Node, place: Place, names: Names, queries: Collection[str]
) -> tuple[ModelSpec, ...]:
    """`queries` are the names of all queries of the spec, right or wrong; empty if it has none."""
    models = report.map(node, "`models`", place, _HINT)
    if models is None:
        return ()
    found = []
    for key, value in models.entries:
        names.give(key, "model")
        found.append(_read_model(report, key, value, queries))
    return tuple(model for model in found if model is not None)


def _read_model(report: Report, key: Scalar, node: Node, queries: Collection[str]) -> ModelSpec | None:
    owner = f"model {shown(key.value)}"
    fields = report.fields(node, owner, key.place, _SHAPE)
    if fields is None:
        return None
    over = _text(report, fields, "over", owner)
    if over is not None and queries and over.value not in queries:
        meant = report.nearest(over.value, queries)
        hint = f"did you mean {shown(meant)}?" if meant else f"the queries are {', '.join(map(shown, queries))}"
        report.add(over.place(), f"`over` of {owner}: there is no query {shown(over.value)}", hint)
    label = _text(report, fields, "label", owner)
    features = _columns(report, fields, "features", owner)
    per = _columns(report, fields, "per", owner)
    _check_once(report, owner, [*([label] if label else []), *features, *per])
    degree = _degree(report, fields, owner)
    ridge = _ridge(report, fields, owner)
    if over is None or label is None or not features:
        return None
    places = tuple(text.place() for text in (over, label, *features, *per))
    named, groups = tuple(t.value for t in features), tuple(t.value for t in per)
    model = ModelSpec(key.value, over.value, label.value, named, degree, ridge, groups, key.place, places)
    if model.many_sums > MOST_SUMS:
        message = f"{owner} needs {model.many_sums:,} sums, one for each product of up to {2 * degree} features"
        report.add(key.place, message, f"name fewer features, or a lower degree: up to {MOST_SUMS:,} sums are kept")
        return None
    return model


def _text(report: Report, fields: dict[str, Field], name: str, owner: str) -> Text | None:
    if name not in fields:
        return None
    return report.text(fields[name].value, f"`{name}` of {owner}", _SHAPE.required[name])


def _columns(report: Report, fields: dict[str, Field], name: str, owner: str) -> list[Text]:
    if name not in fields:
        return []
    hint = f"write `{name}: [a, b]` with columns of the query"
    items = report.items(fields[name].value, f"`{name}` of {owner}", hint)
    found = [report.text(item, f"a column in `{name}` of {owner}", hint) for item in items]
    return [text for text in found if text is not None]


def _check_once(report: Report, owner: str, columns: list[Text]) -> None:
    known: set[str] = set()
    for text in columns:
        if text.value.lower() in known:
            report.add(text.place(), f"{shown(text.value)} is twice in {owner}", "name each column once")
        known.add(text.value.lower())


def _degree(report: Report, fields: dict[str, Field], owner: str) -> int:
    if "degree" not in fields:
        return 1
    hint = f"write a whole number from 1 to {MOST_DEGREE}, as in `degree: 2`"
    text = report.text(fields["degree"].value, f"`degree` of {owner}", hint)
    if text is not None and (not text.value.isdecimal() or not 1 <= int(text.value[:3]) <= MOST_DEGREE):
        report.add(text.place(), f"`degree` of {owner} cannot be {shown(text.value)}", hint)
        return 1
    return 1 if text is None else int(text.value)


def _ridge(report: Report, fields: dict[str, Field], owner: str) -> Decimal:
    if "ridge" not in fields:
        return Decimal(0)
    hint = "write a number of at least 0, as in `ridge: 0.5`"
    text = report.text(fields["ridge"].value, f"`ridge` of {owner}", hint)
    if text is not None and not _NUMBER.fullmatch(text.value):
        report.add(text.place(), f"`ridge` of {owner} cannot be {shown(text.value)}", hint)
        return Decimal(0)
    return Decimal(0) if text is None else Decimal(text.value)
