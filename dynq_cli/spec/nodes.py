"""The nodes of a YAML tree as a spec uses it: texts, lists, maps, each with its place."""

from __future__ import annotations

from dataclasses import dataclass

from dynq_cli.errors import Place
from dynq_cli.spec.model import Text


@dataclass(frozen=True)
class Scalar:
    """A text; `plain` if written without quotes and not as a block; `span` is its part of the file."""

    text: Text
    place: Place
    plain: bool
    span: tuple[int, int]

    @property
    def value(self) -> str:
        return self.text.value

    @property
    def absent(self) -> bool:
        """Nothing was written: `key:` and no more."""
        return self.plain and not self.text.value


@dataclass(frozen=True)
class ListNode:
    items: tuple[Node, ...]
    place: Place


@dataclass(frozen=True)
class MapNode:
    """Entries in the order of the file; no key twice."""

    entries: tuple[tuple[Scalar, Node], ...]
    place: Place


@dataclass(frozen=True)
class RefusedNode:
    """A node whose problem is already reported; readers skip it."""

    place: Place


Node = Scalar | ListNode | MapNode | RefusedNode
