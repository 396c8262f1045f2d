"""What SQL takes and nobody means: conditions that can never hold."""

from __future__ import annotations

from collections.abc import Iterator

from dynq_cli.query.draft import EMPTY
from dynq_cli.query.normal_form import Query, UnionQuery


def never_holding(query: Query) -> Iterator[str]:
    """A warning for each condition of a query, and of those inside it, that leaves it without rows."""
    if isinstance(query, UnionQuery):
        for member in query.members:
            yield from never_holding(member)
        return
    yield from (text for text in query.simplifications if text.endswith(EMPTY))
    for view in query.views:
        if not view.named:
            yield from never_holding(view.query)
