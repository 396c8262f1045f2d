"""Layout of view trees: their nodes, and where their output variables are read."""

from __future__ import annotations

from dynq_cli.plan.plan import Plan
from dynq_cli.records import record


@record(frozen=True)
class Place:
    """The place of an output variable: a level of the enumeration, and a position in its key."""

    level: int
    position: int


@record(frozen=True)
class TreeLayout:
    """The nodes of a view tree. `levels` are the nodes of the output set without the root, parents first."""

    plan: Plan
    first: int
    stop: int
    root: int
    levels: tuple[int, ...]
    frontier: tuple[bool, ...]
    places: dict[str, Place]


@record(frozen=True)
class Labelled:
    """A key of an ordered tree that is an id: the tree, the number of the key, and whose id."""

    tree: int
    key: int
    dictionary: str
