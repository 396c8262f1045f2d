"""Write a spec skeleton: what was found, as YAML that loads, and as comments what is uncertain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dynq_cli.io.facts import ColumnFacts, RelationFacts
from dynq_cli.io.references import Reference
from dynq_cli.spec.shown import visible

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


def render(relations: Sequence[RelationFacts], references: Sequence[Reference] = ()) -> str:
    """A spec with these relations, one query, and the joins that the data bear out, ready to be edited."""
    return "\n".join(_lines(relations, references)) + "\n"


def _lines(relations: Sequence[RelationFacts], references: Sequence[Reference]) -> Iterator[str]:
    yield "# Written by `dynq infer`. Check the types, choose the keys, write your queries;"
    yield "# columns that no query uses may go."
    yield "version: 1"
    yield "relations:"
    for relation in relations:
        yield from _relation(relation)
    yield "queries:"
    yield from _queries(relations, references)


def _relation(relation: RelationFacts) -> Iterator[str]:
    yield f"  {_yaml(relation.name)}:  # {_rows(relation.rows)} in {_files(relation.files)}"
    yield "    columns:"
    for column in relation.own_columns:
        yield f"      {_column(relation, column)}"
    for key in relation.ranked_keys():
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


def _queries(relations: Sequence[RelationFacts], references: Sequence[Reference]) -> Iterator[str]:
    first = relations[0]
    taken = {relation.name.lower() for relation in relations}
    yield f"  {_free(f'all_{first.name}', taken)}:"
    yield f"    sql: SELECT * FROM {_sql(first.name)}"
    for reference in references:
        yield from _join(reference, taken)
    column = next(c.name for c in first.own_columns if not c.unusable)
    yield "  # Others are written the same way, in SQL or as rules; `dynq explain` says what each costs to keep:"
    yield f"  # {first.name}_by_{column}:"
    yield f"  #   sql: SELECT {_sql(column)}, count(*) AS n FROM {_sql(first.name)} GROUP BY {_sql(column)}"


def _free(name: str, taken: set[str]) -> str:
    """A name of a query that no relation and no other query has."""
    while name.lower() in taken:
        name += "_rows"
    taken.add(name.lower())
    return name


def _join(reference: Reference, taken: set[str]) -> Iterator[str]:
    """A query that joins a relation with the one it refers to; a comment where some values are missing."""
    child, parent = reference.child.name, reference.parent.name
    by = f"_by_{'_'.join(reference.columns)}" if f"{child}_{parent}".lower() in taken else ""
    name = _free(f"{child}_{parent}{by}", taken)
    both = zip(reference.columns, reference.key, strict=True)
    on = " AND ".join(f"{_sql(child)}.{_sql(own)} = {_sql(parent)}.{_sql(key)}" for own, key in both)
    own_names = {column.name.lower() for column in reference.child.own_columns if not column.unusable}
    others = [c.name for c in reference.parent.own_columns if not c.unusable and c.name not in reference.key]
    names = []
    for other in others:
        alias, used = other, set(own_names)
        while alias.lower() in used:
            alias = f"{parent}_{alias}"
        own_names.add(alias.lower())
        names.append(f"{_sql(parent)}.{_sql(other)}" + (f" AS {alias}" if alias != other else ""))
    columns = ", ".join([f"{_sql(child)}.*", *names])
    off = "" if reference.is_certain else "# "
    said = f"{reference.values:,} values of {', '.join(reference.columns)} in the rows read"
    if reference.is_certain:
        yield f"  # all {said} are in {parent}"
    else:
        yield f"  # {reference.missing:,} of the {said} are not in {parent}: such rows are not in the join"
    yield f"  {off}{name}:"
    yield f"  {off}  sql: >"
    yield f"  {off}    SELECT {columns}"
    yield f"  {off}    FROM {_sql(child)} JOIN {_sql(parent)} ON {on}"


def _yaml(name: str) -> str:
    return f'"{name}"' if name.lower() in _YAML_WORDS else name


def _sql(name: str) -> str:
    return f'"{name}"' if name.lower() in _SQL_WORDS else name


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number:,} rows"


def _files(files: Sequence[str]) -> str:
    shown = ", ".join(visible(" ".join(file.split())) for file in files[:2])
    return shown if len(files) <= 2 else f"{shown} and {len(files) - 2:,} more"
