"""`dynq verify`: the results that are kept against those that DuckDB computes anew."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynq_cli.cli import options, output
from dynq_cli.cli.progress import Progress
from dynq_cli.errors import DamagedError, DynqError

if TYPE_CHECKING:
    from dynq_cli.session.recompute import Counted, Differing
    from dynq_cli.session.verify import Verdict


def verify(
    query: options.Query = None,
    state: options.State = ".dynq",
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Recompute the results with DuckDB from the base tables, and compare counts and rows.

    A line per query says whether they agree. Where they do not, some rows of which too many or too few are kept
    follow, and the exit code is 12. A query that DuckDB cannot compute is named, and the others are compared; if all of
    them agree, the exit code is 1.
    """
    from dynq_cli.session.verify import verify as recompute

    wrong = []
    found: dict[str, dict[str, Any]] = {}
    failed = []

    def cannot(name: str, reason: str) -> None:
        failed.append(name)
        found[name] = {"agrees": None, "error": reason}
        if not as_json:
            bar.hide()
            output.result(f"{name}: not recomputed: {reason}")

    with Progress("verifying") as bar:
        for verdict in recompute(state, query, bar.add, cannot):
            if not verdict.agrees:
                wrong.append(verdict.query)
            found[verdict.query] = _as_json(verdict)
            if not as_json:
                bar.hide()
                output.result(_as_text(verdict))
    if as_json:
        output.result(json.dumps({"agrees": not wrong and not failed, "queries": found}, ensure_ascii=False))
    if wrong:
        raise DamagedError(
            f"what {state} keeps of {', '.join(wrong)} is not what its base tables give; do not trust it\n"
            "  hint: make a new state from the data with `dynq init SPEC --load REL=PATH`, and please report this"
        )
    if failed:
        others = "; the others agree" if len(found) > len(failed) else ""
        raise DynqError(f"DuckDB cannot recompute {', '.join(failed)}{others}")


def _as_text(verdict: Verdict) -> str:
    rows, distinct = verdict.recomputed
    if verdict.agrees:
        return f"{verdict.query}: {_rows(rows)}{_distinct(rows, distinct)} agree{'s' if rows == 1 else ''}"
    sides = {
        "recorded": verdict.recorded,
        "counted": verdict.counted,
        "enumerated": verdict.kept,
        "recomputed": verdict.recomputed,
    }
    lines = [f"{verdict.query}: differs: {'; '.join(f'{_sized(c)} {name}' for name, c in sides.items())}"]
    for what, some in (("too many", verdict.too_many), ("too few", verdict.too_few)):
        lines += [f"  {what}: {_kept(kept)}, not {anew}: {row}" for row, kept, anew in _differing(some)]
    return "\n".join(lines)


def _kept(copies: int) -> str:
    return f"kept {copies} time{'' if copies == 1 else 's'}"


def _sized(counts: Counted) -> str:
    return f"{_rows(counts.rows)}{_distinct(*counts)}"


def _rows(number: int) -> str:
    return f"{number:,} row{'' if number == 1 else 's'}"


def _distinct(rows: int, distinct: int) -> str:
    return f" ({distinct:,} distinct)" if distinct != rows else ""


def _differing(some: Differing) -> list[tuple[str, int, int]]:
    from dynq_cli.io.results.lines import json_lines

    if not some.rows.num_columns:
        return [("{}", kept, anew) for kept, anew in zip(some.kept, some.recomputed, strict=True)]
    lines = [line for batch in some.rows.to_batches() for line in json_lines(batch).to_pybytes().decode().split("\n")]
    return list(zip(filter(None, lines), some.kept, some.recomputed, strict=True))


def _as_json(verdict: Verdict) -> dict[str, Any]:
    differing = [
        {"row": json.loads(row), "kept": kept, "recomputed": anew}
        for some in (verdict.too_many, verdict.too_few)
        for row, kept, anew in _differing(some)
    ]
    return {
        "agrees": verdict.agrees,
        "recorded": verdict.recorded._asdict(),
        "counted": verdict.counted._asdict(),
        "enumerated": verdict.kept._asdict(),
        "recomputed": verdict.recomputed._asdict(),
        "differing": differing,
    }
