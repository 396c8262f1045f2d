"""The text of a spec skeleton: what was found, as YAML that loads, with the doubts as comments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dynq_cli.io.facts import ColumnFacts, RelationFacts
from dynq_cli.spec.shown import visible

_MOST_KEYS = 3
# Words that other YAML readers take for something else than a string, and words SQL keeps for itself.
_YAML_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_SQL_KEEPS = """
    all alter analyse analyze and anti any array as asc asof asymmetric at authorization between binary both by case
    cast check collate collation column concurrently constraint create cross cube default deferrable desc describe
    distinct do drop else end except exists false fetch for force foreign freeze from full glob grant group having
    ilike in initially inner insert install intersect into is isnull join lambda lateral leading left like limit
    lock map natural not notnull null offset on only or order outer overlaps pivot pivot_longer pivot_wider placing
    positional primary qualify references returning revoke right rollback rollup select semi show similar some
    summarize symmetric table tablesample then to trailing true union unique unpack unpivot user using values
    variadic verbose when where window with
"""
_SQL_WORDS = frozenset(_SQL_KEEPS.split())


def render(relations: Sequence[RelationFacts]) -> str:
    """A spec with these relations and one query, ready to be edited."""
    return "\n".join(_lines(relations)) + "\n"


def _lines(relations: Sequence[RelationFacts]) -> Iterator[str]:
    yield "# Written by `dynq infer`. Check the types, choose the keys, write your queries;"
    yield "# columns that no query uses may go."
    yield "version: 1"
    yield "relations:"
    for relation in relations:
        yield from _relation(relation)
    yield "queries:"
    yield from _queries(relations)


def _relation(relation: RelationFacts) -> Iterator[str]:
    yield f"  {_yaml(relation.name)}:  # {_rows(relation.rows)} in {_files(relation.files)}"
    yield "    columns:"
    for column in relation.own_columns:
        yield f"      {_column(relation, column)}"
    order = {name: position for position, name in enumerate(relation.columns)}
    for key in sorted(relation.keys, key=lambda key: _rank(relation, order, key))[:_MOST_KEYS]:
        inserted = "inserted rows" if relation.logged else "rows"
        yield f"    # key: [{', '.join(key)}]  # unique in the {relation.rows_compared:,} {inserted} read"


def _column(relation: RelationFacts, column: ColumnFacts) -> str:
    if column.unusable:
        return f"# {visible(' '.join(column.name.split())) or repr(column.name)}: left out, {column.unusable}"
    nullable = column.nulls or column.values == 0
    line = f"{_yaml(column.name)}: {column.settle(relation.name)}{'?' if nullable else ''}"
    if column.values == 0:
        return f"{line}  # no value seen" if column.declared else f"{line}  # no value seen: set the type"
    absent = [file for file in relation.files if file not in column.files]
    return f"{line}  # not in {_files(absent)}" if absent else line


def _rank(relation: RelationFacts, order: dict[str, int], key: tuple[str, ...]) -> tuple[int, list[int]]:
    """Integers are the likelier keys, earlier columns too."""
    others = sum(not relation.columns[name].settle(relation.name).is_integer for name in key)
    return others, [order[name] for name in key]


def _queries(relations: Sequence[RelationFacts]) -> Iterator[str]:
    first = relations[0]
    taken = {relation.name.lower() for relation in relations}
    name = f"all_{first.name}"
    while name.lower() in taken:
        name += "_rows"
    yield f"  {name}:"
    yield f"    sql: SELECT * FROM {_sql(first.name)}"
    column = next(c.name for c in first.own_columns if not c.unusable)
    yield "  # Others are written the same way, in SQL or as rules; `dynq explain` says what each costs to keep:"
    yield f"  # {first.name}_by_{column}:"
    yield f"  #   sql: SELECT {_sql(column)}, count(*) AS n FROM {_sql(first.name)} GROUP BY {_sql(column)}"


def _yaml(name: str) -> str:
    return f'"{name}"' if name.lower() in _YAML_WORDS else name


def _sql(name: str) -> str:
    return f'"{name}"' if name.lower() in _SQL_WORDS else name


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number:,} rows"


def _files(files: Sequence[str]) -> str:
    shown = ", ".join(visible(" ".join(file.split())) for file in files[:2])
    return shown if len(files) <= 2 else f"{shown} and {len(files) - 2:,} more"
