"""`dynq alter`: make the state follow a changed spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dynq_cli.cli import options, output
from dynq_cli.cli.commands.init import load_of
from dynq_cli.cli.progress import Progress
from dynq_cli.errors import RejectedError

if TYPE_CHECKING:
    from dynq_cli.session.alter import Altered


def alter(
    spec: options.Spec,
    load: Annotated[
        list[str] | None,
        typer.Option(
            "--load",
            metavar="REL=PATH",
            help="Fill a new relation from a snapshot, or new columns of one by its key; may be repeated.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Do all but write: say what is built, from how many rows, how large.")
    ] = False,
    state: options.State = ".dynq",
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Make the state follow a changed spec, as one version, all or nothing, from the rows that are there.

    Queries and outputs may be added, dropped and changed; relations added and dropped; columns added (NULL, or filled
    by key with --load), dropped and widened; keys added where they hold. Marks and older versions stay, with the
    queries and columns that they had. A query that was not there at a version cannot be read there.

    Readers go on meanwhile. Views of unchanged queries over unchanged rows stay as they are.
    """
    loads = [load_of(item) for item in load or ()]
    from dynq_cli.session.alter import alter as alter_state
    from dynq_cli.session.explain import check_supported

    with Progress("altering") as bar:
        try:
            altered = alter_state(state, spec, loads, bar.add, dry_run=dry_run)
        except RejectedError:
            check_supported(spec)  # which knows the place of a query that is refused
            raise
    if as_json:
        _show_json(altered, dry_run=dry_run)
        return
    _tell(altered, state, spec, dry_run=dry_run)


def _tell(altered: Altered, state: str, spec: str, *, dry_run: bool) -> None:
    if not altered.differences:
        output.note(f"{spec} means what the spec of {state} means: nothing to do at version {altered.version}")
        return
    for line in altered.differences:
        output.note(line)
    for relation, moved in altered.moved.items():
        told = f"{relation}: built from {moved.rows:,} rows"
        if moved.unfilled or moved.unused:
            told += f"; {moved.unfilled:,} without a loaded value, {moved.unused:,} loaded keys without a row"
        output.note(told)
    for relation, rows in altered.loaded.items():
        output.note(f"{relation}: {rows:,} rows loaded")
    for relation, rows in altered.dropped.items():
        output.warn(f"{relation}: its {rows:,} rows {'would be' if dry_run else 'are'} gone from the state")
    if altered.is_built:
        length = 0 if altered.sizes is None else _length(altered)
        if altered.stayed:
            output.note(f"views of {', '.join(altered.stayed)} stay as they are, byte for byte")
        output.note(f"rows and views take {length:,} bytes; building took {altered.seconds:.1f} s")
    else:
        output.note("rows and views stay as they are")
    kept = ", ".join(
        name if c is None else f"{name} ({c.rows:,} row{'' if c.rows == 1 else 's'})"
        for name, c in altered.counts.items()
    )
    would = "would be" if dry_run else "is"
    output.note(f"{state} {would} at version {altered.version}; it keeps {kept}")


def _length(altered: Altered) -> int:
    sizes = altered.sizes
    assert sizes is not None
    relations = sum(size.length for size in sizes.relations.values())
    return relations + sum(size.length for size in sizes.queries.values()) + sizes.shared + sizes.dictionaries


def _show_json(altered: Altered, *, dry_run: bool) -> None:
    import json

    sizes = altered.sizes
    said = {
        "version": altered.version,
        "dry_run": dry_run,
        "differences": altered.differences,
        "built": altered.is_built,
        "moved": {name: vars(moved) for name, moved in altered.moved.items()},
        "stayed": altered.stayed,
        "loaded": altered.loaded,
        "dropped": altered.dropped,
        "counts": {name: counts and vars(counts) for name, counts in altered.counts.items()},
        "bytes": None if sizes is None else _length(altered),
        "queries": {} if sizes is None else {name: vars(size) for name, size in sizes.queries.items()},
        "seconds": round(altered.seconds, 3),
    }
    output.result(json.dumps(said))
