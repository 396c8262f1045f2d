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
        Format | None, typer.Option("--format", help="Text, or the trees as Mermaid or Graphviz source.")
    ] = None,
    out: options.OutFile = None,
) -> None:
    """Class, witness, view tree and costs of each query of a spec, or of the spec of a state.

    The extension of -o FILE chooses the form: .txt .md .json .mmd .dot .gv, and with Graphviz installed .svg .png .pdf.
    """
    kind = _kind(as_json, form, out)
    from dynq_cli.session.explain import explain_spec, explain_state

    if spec is None:
        explanation = explain_state(state)
    else:
        explanation = explain_state(spec) if os.path.isdir(spec) else explain_spec(spec)
    if kind in _IMAGES:
        from dynq_cli.cli.graphviz import draw

        assert out is not None
        output.write_whole(out, draw(explanation.dot(query), kind))
    else:
        output.deliver(_render(explanation, kind, query), out)


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


def _render(explanation: Explanation, kind: str, query: str | None) -> str:
    if kind == "json":
        import json

        return json.dumps(explanation.json(query), indent=2, ensure_ascii=False)
    if kind == "mermaid":
        return explanation.mermaid(query)
    if kind == "dot":
        return explanation.dot(query)
    from dynq_cli.spec.shown import visible

    return visible(explanation.text(query), keep="\n")
