"""`dynq explain`: what each query costs to keep, and why."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynq_cli.cli import options, output
from dynq_cli.errors import UsageError

if TYPE_CHECKING:
    from dynq_cli.plan.shards import ShardPlan
    from dynq_cli.session.estimate import Estimate
    from dynq_cli.session.explain import Explanation


class Format(StrEnum):
    text = "text"
    mermaid = "mermaid"
    dot = "dot"


_BY_EXTENSION = {
    ".txt": "text",
    ".md": "text",
    ".json": "json",
    ".mmd": "mermaid",
    ".dot": "dot",
    ".gv": "dot",
    ".svg": "svg",
    ".png": "png",
    ".pdf": "pdf",
}
_IMAGES = ("svg", "png", "pdf")


def explain(
    spec: options.SpecOrState = None,
    query: options.Query = None,
    state: options.State = ".dynq",
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
    form: Annotated[
        Format | None, typer.Option("--format", help="Text, or what is kept as Mermaid or Graphviz source.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", metavar="FILE…", help="Estimate the sizes after an apply of these files."),
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option("--shards", metavar="N", help="Say how N shards would split the queries and their rows."),
    ] = None,
    more: Annotated[list[str] | None, typer.Argument(metavar="FILE", hidden=True)] = None,
    out: options.OutFile = None,
) -> None:
    """What each query of a spec or state stores, what a change costs, what to edit; and the theory.

    --data FILE… estimates what an apply of these files, or directories of them, would take: rows and bytes by relation
    and by query, on disk and in memory. Of large files a part of the rows is looked at. SPEC, or a state, goes first.

    --shards N says first by which variables N shards split each query, where rows go and how often they are stored,
    what reading merges, and what stays whole. Relations of a state have the sizes they have, those of a spec as their
    changes: says.

    If a plan promises less than the spec requires, the exit code is 3, after all is printed.

    The extension of -o FILE chooses the form: .txt .md .json .mmd .dot .gv, and with Graphviz installed .svg .png .pdf.
    """
    kind = _kind(as_json, form, out)
    if more and not data:
        raise UsageError(f"unexpected {more[0]}: give one spec or state, and files behind --data")
    if data and kind not in ("text", "json"):
        raise UsageError(f"--data says sizes, and {kind} is a picture: leave one of them out")
    if shards is not None and kind not in ("text", "json"):
        raise UsageError(f"--shards says where rows go, and {kind} is a picture: leave one of them out")
    from dynq_cli.session.explain import explain_spec, explain_state

    place = state if spec is None else spec
    is_state = spec is None or os.path.isdir(spec)
    explanation = explain_state(place) if is_state else explain_spec(place)
    found = _estimate(place, [*data, *(more or ())], is_state=is_state) if data else None
    split = None if shards is None else _shards(place, shards, is_state=is_state)
    if kind in _IMAGES:
        from dynq_cli.cli.graphviz import draw

        assert out is not None
        output.write_whole(out, draw(explanation.dot(query), kind))
    else:
        output.deliver(_render(explanation, kind, query, found, split), out)
    explanation.check_required(query)


def _estimate(place: str, paths: list[str], *, is_state: bool) -> Estimate:
    from dynq_cli.cli.progress import Progress
    from dynq_cli.session.estimate import estimate_spec, estimate_state

    with Progress("reading") as bar:
        if is_state:
            return estimate_state(place, paths, output.warn, bar.add)
        return estimate_spec(place, paths, output.warn, bar.add)


def _shards(place: str, shards: int, *, is_state: bool) -> ShardPlan:
    from dynq_cli.session.shard_plan import shards_of_spec, shards_of_state

    return shards_of_state(place, shards) if is_state else shards_of_spec(place, shards)


def _kind(as_json: bool, form: Format | None, out: str | None) -> str:
    """The one form that `--json`, `--format` and the extension of `-o` ask for."""
    if as_json and form is not None:
        raise UsageError(f"--json and --format {form} ask for two forms: give one of them")
    asked = "json" if as_json else form.value if form is not None else None
    if out is None or out == "-":
        return asked or "text"
    extension = Path(out).suffix.lower()
    by_name = _BY_EXTENSION.get(extension)
    if by_name is None:
        raise UsageError(
            f"the extension of {out} says no form that explain writes: use one of {' '.join(_BY_EXTENSION)}"
        )
    if asked is not None and asked != by_name:
        option = "--json" if as_json else f"--format {asked}"
        raise UsageError(f"{option} and the extension of {out} ask for two forms: give one of them")
    return by_name


def _render(
    explanation: Explanation, kind: str, query: str | None, found: Estimate | None, split: ShardPlan | None
) -> str:
    from dynq_cli.cli import estimated
    from dynq_cli.plan.shards.explain import shards_json, shards_text

    advice = () if found is None else explanation.advice(found.largest_query)
    if kind == "json":
        import json

        said = explanation.json(query)
        if found is not None:
            said = {"estimate": estimated.as_json(found, advice), **said}
        if split is not None:
            said = {"shards": shards_json(split), **said}
        return json.dumps(said, indent=2, ensure_ascii=False)
    if kind == "mermaid":
        return explanation.mermaid(query)
    if kind == "dot":
        return explanation.dot(query)
    from dynq_cli.spec.shown import visible

    sizes = "" if found is None else "\n".join([*estimated.lines(found, advice), "", ""])
    shares = "" if split is None else shards_text(split) + "\n"
    return visible(shares + sizes + explanation.text(query), keep="\n")
