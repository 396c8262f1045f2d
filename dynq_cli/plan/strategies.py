"""The strategies by which queries are kept, as `explain` names them.

To add one, add an entry here; `choose` plans with the first whose condition holds.
"""

from __future__ import annotations

from collections.abc import Callable

from dynq_cli.records import record


@record(frozen=True)
class Facts:
    """What strategies are chosen by.

    `by_delta` says that cycles are joined by delta rather than in pairs. `projects` says that no tree has exactly the
    head.
    """

    is_acyclic: bool
    by_delta: bool
    projects: bool


@record(frozen=True)
class Strategy:
    """`condition` decides."""

    name: str
    condition: Callable[[Facts], bool]
    stores_projection: bool = False


STRATEGIES = (
    Strategy("delta-join", lambda facts: not facts.is_acyclic and facts.by_delta),
    Strategy(
        "view-tree+join+projection", lambda facts: not facts.is_acyclic and facts.projects, stores_projection=True
    ),
    Strategy("view-tree+join", lambda facts: not facts.is_acyclic),
    Strategy("view-tree+projection", lambda facts: facts.projects, stores_projection=True),
    Strategy("view-tree", lambda _: True),
)


def choose_strategy(facts: Facts) -> Strategy:
    """The first strategy whose condition holds.

    >>> choose_strategy(Facts(is_acyclic=True, by_delta=False, projects=False)).name
    'view-tree'
    """
    return next(s for s in STRATEGIES if s.condition(facts))


def strategy_of(name: str) -> Strategy | None:
    """The strategy of a name; None for a union, whose members have their own."""
    return next((s for s in STRATEGIES if s.name == name), None)
