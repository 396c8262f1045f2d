"""Load a spec: parse the YAML file to the frozen model, or report all problems.

`load_spec` and `parse_spec` return a `Spec` in which every name is valid and unique, every key column exists, and every
output names a query. SpecError has every problem of the file, each with line, column and what to write instead. The
texts of queries are not parsed here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from dynq_cli.errors import Problem, SpecError
from dynq_cli.spec.clock import with_clock
from dynq_cli.spec.languages import keys_shown
from dynq_cli.spec.model import ModelSpec, Output, QuerySpec, Relation, Spec
from dynq_cli.spec.models import read_models
from dynq_cli.spec.names import Names
from dynq_cli.spec.nodes import Node
from dynq_cli.spec.outputs import read_outputs
from dynq_cli.spec.queries import read_queries
from dynq_cli.spec.relations import read_relations
from dynq_cli.spec.report import Report, Shape
from dynq_cli.spec.shown import shown
from dynq_cli.spec.source import Source, read_source, source_of
from dynq_cli.spec.yaml import read_yaml

VERSION = "1"

_SHAPE = Shape(
    hint="write `version: 1`, `relations:` and `queries:`, each at the start of a line",
    required={
        "version": "write `version: 1` as the first line",
        "relations": "write `relations:` and below it each relation with its `columns:`",
        "queries": f"write `queries:` and below it each query with {keys_shown()}",
    },
    optional=("models", "outputs"),
    synonyms={"tables": "relations", "sources": "relations", "views": "queries", "results": "outputs"},
)


@dataclass(frozen=True)
class Reading:
    """A parsed file: the spec, and all problems.

    The spec is present if its relations can be told apart, so that its queries can be checked despite other problems;
    queries of the relations in `wrong` are not.
    """

    spec: Spec | None
    problems: tuple[Problem, ...]
    wrong: frozenset[str]


def read_spec(path: str | os.PathLike[str]) -> Reading:
    """Read a spec file as far as it goes; UsageError if it cannot be read."""
    return _reading_of(read_source(path))


def load_spec(path: str | os.PathLike[str]) -> Spec:
    """Read a spec file; UsageError if it cannot be read, SpecError if it is wrong."""
    return _sound(read_spec(path))


def parse_spec(text: str, file: str) -> Spec:
    """Parse a spec in memory; errors name it as `file`."""
    return _sound(_reading_of(source_of(text, file)))


def _sound(reading: Reading) -> Spec:
    if reading.spec is None or reading.problems:
        raise SpecError(reading.problems)
    return reading.spec


def _reading_of(source: Source) -> Reading:
    root, problems = read_yaml(source)
    report = Report(problems)
    spec, wrong = _read_spec(report, root, source) if root else (None, frozenset())
    return Reading(spec, tuple(report.problems), wrong)


def _read_spec(report: Report, root: Node, source: Source) -> tuple[Spec | None, frozenset[str]]:
    fields = report.fields(root, "the spec", root.place, _SHAPE) or {}
    names = Names(report)
    relations: tuple[Relation, ...] = ()
    wrong: frozenset[str] = frozenset()
    is_told = "relations" in fields and not report.problems
    if "relations" in fields:
        relations, wrong = read_relations(report, fields["relations"].value, fields["relations"].place, names)
    # Where none is right, whatever a query says about them is a consequence.
    is_told &= len(wrong) < len(relations) or not report.problems
    queries: tuple[QuerySpec, ...] = ()
    if "queries" in fields:
        queries = read_queries(report, fields["queries"].value, fields["queries"].place, names)
    known = {query.name: query.keep for query in queries}
    models: tuple[ModelSpec, ...] = ()
    if "models" in fields:
        models = read_models(report, fields["models"].value, fields["models"].place, names, known)
    outputs: tuple[Output, ...] = ()
    if "outputs" in fields:
        outputs = read_outputs(
            report, fields["outputs"].value, fields["outputs"].place, known, [m.name for m in models]
        )
    if "version" in fields:
        _check_version(report, fields["version"].value)
    relations = with_clock(relations, queries)
    return Spec(source.file, relations, queries, outputs, models) if is_told else None, wrong


def _check_version(report: Report, node: Node) -> None:
    text = report.text(node, "`version`", "write `version: 1`")
    if text is not None and text.value != VERSION:
        report.add(text.place(), f"there is no version {shown(text.value)} of the spec language", "write `version: 1`")
