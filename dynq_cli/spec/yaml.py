"""A YAML tree in which every scalar is a string and every character has its place.

Read from PyYAML's events, so nothing guesses types (`on`, `012`, `1:30`, `null` stay what they
are) and nothing is built that the limits forbid: at most MAX_NODES nodes, MAX_DEPTH levels and,
by `Source`, 1 MiB of text. Refused because a spec needs none of them, and each has hurt
somebody: anchors and aliases, tags, merge keys, keys that are not text, further documents.
A repeated key is an error and its first value is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from yaml import events
from yaml.error import MarkedYAMLError

from dynq_cli.errors import Place, Problem
from dynq_cli.spec.cut_texts import Entry, mend_list, mend_map
from dynq_cli.spec.model import Text
from dynq_cli.spec.nodes import ListNode, MapNode, Node, RefusedNode, Scalar
from dynq_cli.spec.scalars import scalar_anchors
from dynq_cli.spec.shown import shown
from dynq_cli.spec.source import Source
from dynq_cli.spec.syntax import explain
from dynq_cli.spec.yaml_events import EventReader, span

MAX_NODES = 100_000
MAX_DEPTH = 32

_SURROGATE = re.compile("[\ud800-\udfff]")


def read_yaml(source: Source) -> tuple[Node | None, list[Problem]]:
    """The tree and what is wrong with it; no tree if the text is not YAML or is past a limit.

    Time and memory are linear in the text.
    """
    builder = _Builder(source)
    try:
        builder.run()
    except MarkedYAMLError as error:
        builder.problems.append(explain(error, source))
        return None, builder.problems
    except _LimitError as error:
        builder.problems.append(error.problem)
        return None, builder.problems
    if builder.root is None and not builder.problems:
        message = "the file is empty"
        hint = "begin with `version: 1`, then `relations:` and `queries:`; `dynq infer` prints a skeleton"
        builder.problems.append(Problem(source.place(0), message, hint))
    return builder.root, builder.problems


class _LimitError(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass
class _Frame:
    """A list or map under construction; in a map `key` waits for its value."""

    place: Place
    is_map: bool
    flow: bool
    items: list[Node] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    key: Node | None = None


class _Builder:
    """Turns events into nodes with an explicit stack, so depth never meets Python's own."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self.root: Node | None = None
        self._stack: list[_Frame] = []
        self._nodes = 0

    def run(self) -> None:
        parser = EventReader(self.source.text)
        documents = 0
        for event in parser:
            match event:
                case events.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        hint = "a spec is one document: delete this `---`"
                        self._report(event, "a second document begins here", hint)
                        return
                case events.AliasEvent():
                    hint = f"write the value itself; a text that begins with `*` needs quotes, as in {_quoted(event)}"
                    self._report(event, "aliases (`*name`) are not allowed in a spec", hint)
                    self._add(RefusedNode(self._place(event)))
                case events.ScalarEvent():
                    self._check_properties(event)
                    self._add(self._scalar(event, parser.parent_indents.get(span(event)[0], -1)))
                case events.MappingStartEvent() | events.SequenceStartEvent():
                    self._check_properties(event)
                    self._open(event)
                case events.MappingEndEvent() | events.SequenceEndEvent():
                    self._add(self._close(self._stack.pop()), counted=True)

    def _open(self, event: events.CollectionStartEvent) -> None:
        self._count(self._place(event))
        if len(self._stack) == MAX_DEPTH:
            message = f"the file is nested deeper than {MAX_DEPTH} levels"
            raise _LimitError(Problem(self._place(event), message, "a spec has at most five levels"))
        is_map = isinstance(event, events.MappingStartEvent)
        self._stack.append(_Frame(self._place(event), is_map, flow=bool(event.flow_style)))

    def _scalar(self, event: events.ScalarEvent, parent_indent: int) -> Scalar:
        style = event.style if event.style in ("'", '"', "|", ">") else None
        anchors, _ = scalar_anchors(self.source.text, *span(event), style, parent_indent)
        placed = tuple((offset, *self.source.position(index)) for offset, index in anchors)
        lone = _SURROGATE.search(event.value)
        if lone:
            message = f"the escape for U+{ord(lone[0]):04X} is half a character"
            at = Text(event.value, self.source.file, placed).place(lone.start())
            self.problems.append(Problem(at, message, "write the character itself, or \\U with its eight digits"))
        return Scalar(Text(event.value, self.source.file, placed), self._place(event), style is None, span(event))

    def _add(self, node: Node, counted: bool = False) -> None:
        if not counted:
            self._count(node.place)
        if not self._stack:
            self.root = node
            return
        top = self._stack[-1]
        if not top.is_map:
            top.items.append(node)
        elif top.key is None:
            top.key = node
        else:
            top.entries.append((top.key, node))
            top.key = None

    def _close(self, frame: _Frame) -> Node:
        if frame.is_map:
            entries, cut = mend_map(frame.entries, self.source) if frame.flow else (frame.entries, [])
            self.problems += cut
            return MapNode(tuple(self._checked(entries)), frame.place)
        items, cut = mend_list(frame.items, self.source) if frame.flow else (frame.items, [])
        self.problems += cut
        return ListNode(tuple(items), frame.place)

    def _checked(self, entries: list[Entry]) -> Iterator[tuple[Scalar, Node]]:
        seen: dict[str, Place] = {}
        for key, value in entries:
            if isinstance(key, RefusedNode):
                continue
            if not isinstance(key, Scalar):
                hint = "keys are names; a text that begins with `{` or `[` needs quotes"
                self.problems.append(Problem(key.place, "a list or map cannot be a key", hint))
            elif key.plain and key.value == "<<":
                hint = "write the keys out; a spec has no merging"
                self.problems.append(Problem(key.place, "merge keys (`<<`) are not allowed in a spec", hint))
            elif key.value in seen:
                first = seen[key.value]
                message = f"{shown(key.value)} is written twice, first at line {first.line}, column {first.column}"
                self.problems.append(Problem(key.place, message, "keep one of the two"))
            else:
                seen[key.value] = key.place
                yield key, value

    def _check_properties(self, event: events.ScalarEvent | events.CollectionStartEvent) -> None:
        if event.anchor is not None:
            hint = f"delete `&{event.anchor}`; a text that begins with `&` needs quotes"
            self._report(event, "anchors (`&name`) are not allowed in a spec", hint)
        if event.tag is not None:
            hint = "delete the tag; every value is read as text. A text that begins with `!` needs quotes"
            self._report(event, "tags (`!name`) are not allowed in a spec", hint)

    def _count(self, place: Place) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            message = f"the file has more than {MAX_NODES:,} values"
            hint = "a spec holds relations, queries and outputs; check that this is not a data file"
            raise _LimitError(Problem(place, message, hint))

    def _place(self, event: events.Event) -> Place:
        return self.source.place(span(event)[0])

    def _report(self, event: events.Event, message: str, hint: str) -> None:
        self.problems.append(Problem(self._place(event), message, hint))


def _quoted(event: events.AliasEvent) -> str:
    return f'"*{event.anchor}"'
