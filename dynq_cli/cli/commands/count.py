"""`dynq count`: how many rows a result has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from dynq_cli.cli import output
from dynq_cli.errors import UsageError
from dynq_cli.io.results.counts import CountForm, count_form_of, count_text, counts_text
from dynq_cli.lazy import Lazy

if TYPE_CHECKING:
    import typer

    from dynq_cli.cli import options
    from dynq_cli.storage.state import State
else:
    typer, options = Lazy("typer"), Lazy("dynq_cli.cli.options")


def count(
    query: options.Query = None,
    state: options.State = ".dynq",
    at: options.At = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print rows, distinct rows and version as JSON.")] = False,
    out: options.OutFile = None,
) -> None:
    """Print how many rows a result has: of a bag with all copies, of a set distinct rows, of an aggregate its groups.

    Without --query, a spec of several queries gets a line per query, with its name and its rows, but for those that
    are kept for tests alone. The extension of -o FILE chooses the form: .txt has the number, .json and .csv also
    distinct rows and version.
    """
    form = _form(as_json, out)
    from dynq_cli.storage.state import open

    view = open(state)
    version = view.version if at is None else view.version_of(at)
    names = [query] if query is not None else view.queries_at(version)
    if len(names) > 1:
        tested = _tested(view)
        several = {name: view.counts(name, version) for name in names if name not in tested}
        if not several:
            view.counts(names[0])  # which says why nothing can be counted
        text = counts_text({name: (c.rows, c.distinct) for name, c in several.items()}, version, form)
    else:
        counts = view.counts(query, version)
        text = count_text(counts.rows, counts.distinct, version, form)
    output.deliver(text, out)


def _tested(view: State) -> list[str]:
    """The queries that are kept for tests alone. Without queries that keep no count, the spec is not read."""
    if all(view.kept_counts(name) for name in view.queries):
        return []
    return [query.name for query in view.spec.queries if query.keep == "test"]


def _form(as_json: bool, out: str | None) -> CountForm:
    asked: CountForm = "json" if as_json else "txt"
    if out is None or out == "-":
        return asked
    form = count_form_of(out)
    if as_json and form != "json":
        raise UsageError(f"--json and the extension of {out} ask for two forms: give one of them")
    return form
