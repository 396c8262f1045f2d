"""The strategies by which queries are kept, as `explain` names them.

To add one, add an entry here; `choose` plans with the first whose condition holds. `note` is what the user should know
of one that is not built yet; `program_cost` names what is kept in its place.
"""

from __future__ import annotations

from collections.abc import Callable

from dynq_cli.records import record


@record(frozen=True)
class Facts:
    """What strategies are chosen by.

    `loomis_whitney` is the number of atoms of a Loomis–Whitney query, None for others. `only_sums` says that nothing
    but sums and counts over all bindings is asked for. `projects` says that no tree has exactly the head.
    """

    is_acyclic: bool
    loomis_whitney: int | None
    only_sums: bool
    projects: bool


@record(frozen=True)
class Strategy:
    """`condition` decides; `has_tree` is False where no tree is searched for; `note` is a sentence for `explain`."""

    name: str
    condition: Callable[[Facts], bool]
    has_tree: bool = True
    stores_projection: bool = False
    note: str = ""


STRATEGIES = (
    Strategy(
        "ivm-epsilon",
        lambda facts: not facts.is_acyclic and facts.loomis_whitney is not None and facts.only_sums,
        has_tree=False,
        note="by joining atoms: the count of this cycle could be kept in O(n^0.5) per change (IVM-epsilon), which is "
        "not built",
    ),
    Strategy(
        "view-tree+join+projection", lambda facts: not facts.is_acyclic and facts.projects, stores_projection=True
    ),
    Strategy("view-tree+join", lambda facts: not facts.is_acyclic),
    Strategy("view-tree+projection", lambda facts: facts.projects, stores_projection=True),
    Strategy("view-tree", lambda _: True),
)


def choose_strategy(facts: Facts) -> Strategy:
    """The first strategy whose condition holds.

    >>> choose_strategy(Facts(is_acyclic=True, loomis_whitney=None, only_sums=False, projects=False)).name
    'view-tree'
    """
    return next(s for s in STRATEGIES if s.condition(facts))


def strategy_of(name: str) -> Strategy | None:
    """The strategy of a name; None for a union, whose members have their own."""
    return next((s for s in STRATEGIES if s.name == name), None)
