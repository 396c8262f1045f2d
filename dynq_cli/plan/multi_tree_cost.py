"""What reading a result from several trees costs, in bounds and in words."""

from __future__ import annotations

from dynq_cli.plan.program import Term, Together


def delay_of(step: Together) -> tuple[str, str]:
    """Bound and meaning of the delay."""
    if step.form.order:
        return "O(1)", "the members' rows come in one order and are merged, those that are equal into one"
    if not step.is_filtered:
        return "O(1)", "a row that a later member has is left to it, and it gives one instead: each step yields a row"
    said = " and ".join([*map(str, step.where), *(f"what {m.tree} has" for m in step.lacking)])
    skipped = [t.tree for t in step.terms if t.rows < 0] or [m.tree for m in step.members]
    return (
        f"O({' + '.join(f'|{tree}|' for tree in skipped)})",
        f"rows of {step.members[0].tree} are filtered by {said}: between two that pass may be all that do not",
    )


def count_of(step: Together) -> tuple[str, str]:
    """Bound and meaning of the count."""
    if step.terms:
        return "O(1)", f"by inclusion and exclusion: {sum_of(step)}"
    members = [m.tree for m in step.members]
    return f"O({' + '.join(f'|{m}|' for m in members)})", "no count is kept: the rows are walked"


def positions_of(step: Together) -> tuple[tuple[str, str], tuple[str, str]]:
    """Bounds and meanings of finding the row at a position, and the position of a row."""
    members = [m.tree for m in step.members]
    if step.form.order:
        return (
            ("O(log² n)", f"each of {' and '.join(members)} is searched for the row by its position in the union"),
            ("O(log n)", f"the rows before it are counted in each tree: {sum_of(step)}"),
        )
    walked = (
        f"O({' + '.join(f'|{m}|' for m in members)})",
        f"walks the rows of {' and '.join(members)} up to the position; order_by makes it O(log² n)",
    )
    return walked, walked


def read_together(step: Together) -> str:
    """The step in words."""
    names = " and ".join(m.tree for m in step.members)
    if step.is_filtered:
        where = f" where {' and '.join(map(str, step.where))}" if step.where else ""
        less = f" without those of {' and '.join(m.tree for m in step.lacking)}" if step.lacking else ""
        said = f"those of {names}{where}{less}"
    else:
        order = f" in the order of {', '.join(map(str, step.form.order))}" if step.form.order else ""
        kind = "each row once" if step.form.semantics == "set" else "with the copies of all"
        said = f"those of {names}{order}, {kind}"
    counted = f"counted as {sum_of(step)}" if step.terms else "counted when they are walked"
    return f"rows of {step.name}, read from the trees and stored nowhere: {said}; {counted}"


def sum_of(step: Together) -> str:
    """How the counts of the trees go into that of the result."""
    rows = _added([(t.rows, t) for t in step.terms])
    distinct = _added([(t.distinct, t) for t in step.terms])
    return rows if rows == distinct else f"{rows}; distinct rows as {distinct}"


def _added(terms: list[tuple[int, Term]]) -> str:
    said = "".join(f" {'-' if many < 0 else '+'} |{term.tree}|" for many, term in terms if many)
    return said.removeprefix(" + ")
