"""Describe the differences between two specs: relations, columns, keys, queries, outputs.

differences(kept, given)     a line each; none for specs that mean the same, however they are written
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from dynq_cli.spec.model import Column, ModelSpec, Output, QuerySpec, Relation, Spec, Text

Named = TypeVar("Named", Relation, Column, QuerySpec, ModelSpec)


def differences(kept: Spec, given: Spec) -> list[str]:
    """How a spec that is given differs from the one that is kept. O(size of the specs)."""
    found = [*_each("relation", kept.relations, given.relations, _relation)]
    found += _each("query", kept.queries, given.queries, _query)
    found += _each("model", kept.models, given.models, _model)
    if list(map(_plain, kept.outputs)) != list(map(_plain, given.outputs)):
        before, after = _outputs(kept.outputs), _outputs(given.outputs)
        found += [f"output {path} is new" for path in after if path not in before]
        found += [f"output {path} is gone" for path in before if path not in after]
        found += [f"output {path} is different" for path in after if before.get(path, after[path]) != after[path]]
    return found


def _each(
    noun: str, kept: Sequence[Named], given: Sequence[Named], compare: Callable[[Named, Named], Iterator[str]]
) -> Iterator[str]:
    before, after = {each.name: each for each in kept}, {each.name: each for each in given}
    yield from (f"{noun} {name} is new" for name in after if name not in before)
    yield from (f"{noun} {name} is gone" for name in before if name not in after)
    for name in after:
        if name in before and _plain(before[name]) != _plain(after[name]):
            yield from (f"{noun} {name}: {said}" for said in compare(before[name], after[name]))


def _relation(kept: Relation, given: Relation) -> Iterator[str]:
    said = [*_each("column", kept.columns, given.columns, _column)]
    names = [[column.name for column in relation.columns] for relation in (kept, given)]
    if not said and names[0] != names[1]:
        said.append("its columns are in another order")
    if kept.key != given.key:
        said.append(f"its key was {_listed(kept.key)} and is {_listed(given.key)}")
    yield from said
    yield from _others(kept, given, {"name", "columns", "key"})


def _column(kept: Column, given: Column) -> Iterator[str]:
    yield f"was {_type(kept)} and is {_type(given)}"


def _query(kept: QuerySpec, given: QuerySpec) -> Iterator[str]:
    if _plain(kept.texts) != _plain(given.texts) or kept.language != given.language:
        yield "its text is different"
    yield from _others(kept, given, {"name", "texts", "language"})


def _model(kept: ModelSpec, given: ModelSpec) -> Iterator[str]:
    yield from _others(kept, given, {"name"})


def _others(kept: Any, given: Any, told: set[str]) -> Iterator[str]:
    """The fields that no difference has been reported of yet."""
    for field in dataclasses.fields(kept):
        before, after = _plain(getattr(kept, field.name)), _plain(getattr(given, field.name))
        if field.compare and field.name not in told and before != after:
            yield f"`{field.name}` is different"


def _plain(value: Any) -> Any:
    """A value without places and line breaks."""
    if isinstance(value, Text):
        return " ".join(value.value.split())
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [_plain(getattr(value, field.name)) for field in dataclasses.fields(value) if field.compare]
    return value


def _outputs(outputs: Sequence[Output]) -> dict[str, Any]:
    return {output.target: _plain(output) for output in outputs}


def _type(column: Column) -> str:
    return f"{column.type}{'?' if column.nullable else ''}"


def _listed(names: Sequence[str]) -> str:
    return f"[{', '.join(names)}]" if names else "none"
