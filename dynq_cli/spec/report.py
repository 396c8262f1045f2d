"""Collect every problem of a spec; the readers shared by all parts.

A reader returns the value, or None after reporting a problem. So one wrong line does not hide others.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from dynq_cli.errors import Place, Problem
from dynq_cli.spec.model import Text
from dynq_cli.spec.nodes import ListNode, MapNode, Node, RefusedNode, Scalar
from dynq_cli.spec.shown import shown

_GLUED_COLON = re.compile(r"(\w+):(\S+)")
_LONGEST_GUESS = 100
_MOST_GUESSES = 200
_MOST_KNOWN = 2000


@dataclass(frozen=True)
class Shape:
    """The keys a kind of map has: the required ones with what to write where one is missing.

    `hint` says what to write instead of something that is no map; `synonyms` are words people
    use for the keys.
    """

    hint: str
    required: Mapping[str, str]
    optional: tuple[str, ...] = ()
    synonyms: Mapping[str, str] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        return (*self.required, *self.optional)


@dataclass(frozen=True)
class Field:
    """An entry of a map with known keys: where its key stands, and its value."""

    place: Place
    value: Node


@dataclass
class Report:
    problems: list[Problem] = field(default_factory=list)

    def add(self, place: Place, message: str, hint: str) -> None:
        self.problems.append(Problem(place, message, hint))

    def fields(self, node: Node, owner: str, place: Place, shape: Shape) -> dict[str, Field] | None:
        """The known keys of a map. A misspelt key is reported and read as the one it resembles."""
        mapping = self.map(node, owner, place, shape.hint)
        if mapping is None:
            return None
        found = {k.value: Field(k.place, v) for k, v in mapping.entries if k.value in shape.keys}
        for key, value in mapping.entries:
            if key.value in shape.keys:
                continue
            meant = shape.synonyms.get(key.value.lower()) or self.nearest(key.value, shape.keys)
            known = f"{owner} may have {', '.join(f'`{k}`' for k in shape.keys)}"
            advice = f"did you mean `{meant}`?" if meant else known
            self.add(key.place, f"unknown key {shown(key.value)} in {owner}", advice)
            if meant and meant not in found:
                found[meant] = Field(key.place, value)
        for name, hint in shape.required.items():
            if name not in found:
                self.add(place, f"{owner} has no `{name}`", hint)
        return found

    def map(self, node: Node, owner: str, place: Place, hint: str) -> MapNode | None:
        match node:
            case MapNode(entries=()):
                self.add(place, f"{owner} is empty", hint)
                return None
            case MapNode():
                return node
            case Scalar() if node.absent:
                self.add(place, f"{owner} is empty", hint)
            case Scalar() if glued := _GLUED_COLON.match(node.value):
                advice = f"put a space after the colon: {shown(f'{glued[1]}: {glued[2]}')}"
                self.add(node.place, f"{owner} has to be a map, not {_described(node)}", advice)
            case Scalar() | ListNode():
                self.add(node.place, f"{owner} has to be a map, not {_described(node)}", hint)
        return None

    def text(self, node: Node, owner: str, hint: str) -> Text | None:
        """A text with something in it."""
        match node:
            case Scalar() if node.value.strip():
                return node.text
            case Scalar():
                self.add(node.place, f"{owner} is empty", hint)
            case MapNode() | ListNode():
                self.add(node.place, f"{owner} has to be one value, not {_described(node)}", hint)
        return None

    def choice(self, node: Node, owner: str, choices: tuple[str, ...]) -> str | None:
        listed = " or ".join([", ".join(f"`{c}`" for c in choices[:-1]), f"`{choices[-1]}`"])
        hint = f"write {listed}"
        text = self.text(node, owner, hint)
        if text is None:
            return None
        if text.value in choices:
            return text.value
        meant = self.nearest(text.value, choices)
        advice = f"did you mean `{meant}`?" if meant else hint
        self.add(text.place(), f"{owner} cannot be {shown(text.value)}", advice)
        return None

    def items(self, node: Node, owner: str, hint: str) -> tuple[Node, ...]:
        """The items of a list; a single text counts as a list of one."""
        match node:
            case ListNode(items=()):
                self.add(node.place, f"{owner} is an empty list", hint)
            case ListNode():
                return node.items
            case Scalar() if not node.absent:
                return (node,)
            case Scalar():
                self.add(node.place, f"{owner} is empty", hint)
            case MapNode():
                self.add(node.place, f"{owner} has to be a list, not a map", hint)
        return ()

    def nearest(self, word: str, known: Collection[str]) -> str | None:
        """The known word that `word` most resembles, if any does.

        Guessing is for people: it stops in files with more problems than people make.
        """
        if len(self.problems) > _MOST_GUESSES or len(known) > _MOST_KNOWN:
            return None
        folded = {k.lower(): k for k in known}
        near = difflib.get_close_matches(word[:_LONGEST_GUESS].lower(), folded, n=1, cutoff=0.7)
        return folded[near[0]] if near else None


def _described(node: Node) -> str:
    match node:
        case Scalar():
            return f"the text {shown(' '.join(node.value.split()))}" if not node.absent else "nothing"
        case ListNode():
            return "a list"
        case MapNode():
            return "a map"
        case RefusedNode():
            return "what stands there"
