"""The `queries:` of a spec: an SQL text or rules each, with options of the result."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import cast

from dynq_cli.errors import Place
from dynq_cli.spec.languages import keys_shown, languages
from dynq_cli.spec.model import Keep, OrderKey, QuerySpec, Requirement, Semantics, Text
from dynq_cli.spec.names import Names
from dynq_cli.spec.nodes import MapNode, Node, Scalar
from dynq_cli.spec.report import Field, Report, Shape
from dynq_cli.spec.shown import shown

MAX_VIEW_ROWS = (1 << 63) - 1

_OPTIONS = ("semantics", "order_by", "max_view_rows", "require", "keep", "epsilon")
# The names of what `explain` promises; `plan/program_cost` has them.
GUARANTEES = ("update", "delay", "count", "jth", "space", "test", "rank", "diff")
_KEEPS = ("all", "rows", "test")
_SYNONYMS = {"order": "order_by", "sort": "order_by", "sort_by": "order_by", "max_rows": "max_view_rows"}
_ORDER_HINT = "write `order_by: [a, b desc]` with columns of the result"
_ROWS_HINT = "write a whole number above 0, as in `max_view_rows: 5000000`"
_ORDER_KEY = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)(?:\s+(asc|desc))?\s*", re.IGNORECASE)
_MEANT_ORDER = re.compile(r"\s*(-?)\s*([A-Za-z_][A-Za-z0-9_]*)\s*(.*)")
_REQUIRE_HINT = "write bounds as `explain` does: `require: {update: O(log n), space: O(n)}`"
_BOUND = re.compile(r"O\((?:1|log n|n(?:\^[0-9]+(?:\.[0-9]+)?)?(?: log n)?|\|\w+\|| \+ )+\)")
_EPSILON_HINT = "write a number from 0.5 to 1 with at most two digits behind the point, as in `epsilon: 0.5`"
_EPSILON = re.compile(r"(?:0?\.[0-9]+|[0-9]+(?:\.[0-9]*)?)")
_WHOLE_NUMBER = re.compile("[0-9]+(?:_[0-9]+)*")


def read_queries(report: Report, node: Node, place: Place, names: Names) -> tuple[QuerySpec, ...]:
    hint = f"write each query as `name:` with {keys_shown()} indented below"
    queries = report.map(node, "`queries`", place, hint)
    if queries is None:
        return ()
    found = []
    for key, value in queries.entries:
        names.give(key, "query")
        found.append(_read_query(report, key, value))
    return tuple(found)


def _read_query(report: Report, key: Scalar, node: Node) -> QuerySpec:
    owner = f"query {shown(key.value)}"
    fields = report.fields(node, owner, key.place, _shape())
    if fields is None:
        return QuerySpec(key.value, languages()[0].key, (), place=key.place)
    language, texts = _read_texts(report, fields, owner, key.place)
    semantics: str | None = None
    if "semantics" in fields:
        semantics = report.choice(fields["semantics"].value, f"`semantics` of {owner}", ("bag", "set"))
    order: tuple[OrderKey, ...] = ()
    if "order_by" in fields:
        order = _read_order(report, fields["order_by"].value, f"`order_by` of {owner}")
    rows: int | None = None
    if "max_view_rows" in fields:
        rows = _read_rows(report, fields["max_view_rows"].value, f"`max_view_rows` of {owner}")
    required: tuple[Requirement, ...] = ()
    if "require" in fields:
        required = _read_require(report, fields["require"], f"`require` of {owner}")
    keep: str | None = None
    if "keep" in fields:
        keep = report.choice(fields["keep"].value, f"`keep` of {owner}", _KEEPS)
        if order and keep in ("rows", "test"):
            message = f"{owner} has `order_by` and `keep: {keep}`, which keeps no order"
            report.add(fields["keep"].place, message, "leave one of the two out")
    epsilon: Decimal | None = None
    if "epsilon" in fields:
        epsilon = _read_epsilon(report, fields["epsilon"].value, f"`epsilon` of {owner}")
    return QuerySpec(
        key.value,
        language,
        texts,
        cast("Semantics | None", semantics),
        order,
        rows,
        key.place,
        required,
        cast("Keep", keep or "all"),
        epsilon,
    )


def _query_hint() -> str:
    return f"write {keys_shown()} with the text of the query, indented below its name"


def _shape() -> Shape:
    known = languages()
    words = {word: each.key for each in known for word in each.synonyms}
    return Shape(_query_hint(), {}, (*(each.key for each in known), *_OPTIONS), {**words, **_SYNONYMS})


def _read_texts(report: Report, fields: dict[str, Field], owner: str, place: Place) -> tuple[str, tuple[Text, ...]]:
    given = [each for each in languages() if each.key in fields]
    if not given:
        *first, last = (f"`{each.key}`" for each in languages())
        report.add(place, f"{owner} has neither {', '.join(first)} nor {last}", _query_hint())
        return languages()[0].key, ()
    if len(given) > 1:
        later = sorted(given, key=lambda each: fields[each.key].place)[1]
        named = f"`{given[0].key}` and `{given[1].key}`"
        report.add(fields[later.key].place, f"{owner} has both {named}", "keep one of them, or make two queries")
    language = given[0]
    node, whole = fields[language.key].value, f"`{language.key}` of {owner}"
    if not language.may_be_list:
        text = _read_text(report, node, whole, language.hint)
        return language.key, (text,) if text else ()
    items = (node,) if isinstance(node, MapNode) else report.items(node, whole, language.hint)
    texts = [_read_text(report, item, f"{language.noun} of {owner}", language.hint) for item in items]
    return language.key, tuple(text for text in texts if text)


def _read_text(report: Report, node: Node, owner: str, hint: str) -> Text | None:
    if isinstance(node, MapNode):
        advice = "a text that has a colon followed by a space, or begins with `{`, needs quotes around it"
        report.add(node.place, f"{owner} has to be a text, but YAML reads a map here", advice)
        return None
    return report.text(node, owner, hint)


def _read_order(report: Report, node: Node, owner: str) -> tuple[OrderKey, ...]:
    keys: dict[str, OrderKey] = {}
    for item in report.items(node, owner, _ORDER_HINT):
        if isinstance(item, MapNode) and len(item.entries) == 1:
            column, direction = item.entries[0]
            meant = f"{column.value} {direction.value}" if isinstance(direction, Scalar) else column.value
            message = f"{owner} has a map where a column is expected"
            report.add(item.place, message, f"write {shown(meant)}, without a colon")
            continue
        text = report.text(item, f"a column in {owner}", _ORDER_HINT)
        if text is None:
            continue
        found = _ORDER_KEY.fullmatch(text.value)
        if not found:
            message = f"{shown(text.value)} in {owner} is not a column, or a column with `asc` or `desc`"
            report.add(text.place(), message, _order_hint(text))
        elif found[1].lower() in keys:
            report.add(text.place(), f"{shown(found[1])} is twice in {owner}", "name each column once")
        else:
            descending = (found[2] or "").lower() == "desc"
            keys[found[1].lower()] = OrderKey(found[1], descending, text.place())
    return tuple(keys.values())


def _order_hint(text: Text) -> str:
    parts = [part.strip() for part in text.value.split(",")]
    if len(parts) > 1 and all(_ORDER_KEY.fullmatch(part) for part in parts):
        return f"write a list: {shown('order_by: [' + ', '.join(parts) + ']')}"
    meant = _MEANT_ORDER.match(text.value)
    if not meant:
        return "write `column`, `column asc` or `column desc`"
    descending = meant[1] or meant[3].lower().startswith("desc")
    return f"write {shown(meant[2] + (' desc' if descending else ''))}"


def _read_rows(report: Report, node: Node, owner: str) -> int | None:
    text = report.text(node, owner, _ROWS_HINT)
    if text is None:
        return None
    digits = text.value.strip()
    rows = int(digits) if _WHOLE_NUMBER.fullmatch(digits) and len(digits) < 40 else 0
    if not 0 < rows <= MAX_VIEW_ROWS:
        report.add(text.place(), f"{owner} cannot be {shown(text.value)}", _ROWS_HINT)
        return None
    return rows


def _read_epsilon(report: Report, node: Node, owner: str) -> Decimal | None:
    text = report.text(node, owner, _EPSILON_HINT)
    if text is None:
        return None
    given = text.value.strip()
    number = Decimal(given) if _EPSILON.fullmatch(given) and len(given) < 40 else None
    if number is not None and number < Decimal("0.5"):
        why = "below 0.5 changes cost more, O(n^(1-epsilon)), and take more space, O(n^(2-2*epsilon))"
        report.add(text.place(), f"{owner} cannot be {shown(text.value)}: {why}", _EPSILON_HINT)
        return None
    if number is None or number > 1 or number != round(number, 2):
        report.add(text.place(), f"{owner} cannot be {shown(text.value)}", _EPSILON_HINT)
        return None
    return number.normalize()


def _read_require(report: Report, field: Field, owner: str) -> tuple[Requirement, ...]:
    shape = Shape(_REQUIRE_HINT, {}, GUARANTEES, {"updates": "update", "memory": "space", "time": "update"})
    found = []
    for name, each in (report.fields(field.value, owner, field.place, shape) or {}).items():
        text = report.text(each.value, f"`{name}` in {owner}", _REQUIRE_HINT)
        if text is None:
            continue
        bound = " ".join(text.value.split())
        if _BOUND.fullmatch(bound):
            found.append(Requirement(name, bound, each.place))
        else:
            report.add(text.place(), f"{shown(text.value)} in {owner} is no bound", _REQUIRE_HINT)
    return tuple(found)
