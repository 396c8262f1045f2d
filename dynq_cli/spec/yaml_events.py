"""PyYAML's parser for specs: events with positions, without resolver and constructor."""

from __future__ import annotations

import re
from collections.abc import Iterator

from yaml import events
from yaml.error import Mark
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner, ScannerError
from yaml.tokens import ScalarToken

# No possessive repetition (`*+`): Python before 3.11.5 reads on behind its end, now and then.
_PLAIN_WORD = re.compile(r"[^\0 \t\n:]*(?::(?![\0 \t\n])[^\0 \t\n:]*)*")
_PLAIN_WORD_IN_FLOW = re.compile(r"[^\0 \t\n:,\[\]{}]*(?::(?![\0 \t\n,\[\]{}])[^\0 \t\n:,\[\]{}]*)*")


def span(event: events.Event) -> tuple[int, int]:
    """Where the event begins and ends in the text."""
    start, end = event.start_mark, event.end_mark
    return (start.index if start else 0, end.index if end else 0)


class EventReader(Reader, Scanner, Parser):
    """Iterates over the events of a text; its scanner differs from PyYAML's where a method says so."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        self.parent_indents: dict[int, int] = {}

    def __iter__(self) -> Iterator[events.Event]:
        while self.check_event():
            event: events.Event = self.get_event()  # type: ignore[no-untyped-call]
            yield event

    def scan_block_scalar(self, style: str) -> ScalarToken:
        """As inherited; remembers the indentation that the scalar's own is measured from."""
        self.parent_indents[self.index] = self.indent
        return super().scan_block_scalar(style)

    def scan_plain(self) -> ScalarToken:
        """As inherited, but `?` may stand inside a word between braces, as YAML 1.2 has it.

        Without this `{name: string?}` would not be readable.
        """
        start = end = self.get_mark()
        least_column = self.indent + 1
        word = _PLAIN_WORD_IN_FLOW if self.flow_level else _PLAIN_WORD
        chunks: list[str] = []
        spaces: list[str] = []
        while self.peek() != "#":
            found = word.match(self.buffer, self.pointer)
            if not found or not found[0]:
                break
            self.allow_simple_key = False
            chunks += [*spaces, found[0]]
            self.forward(len(found[0]))
            end = self.get_mark()
            spaces = self.scan_plain_spaces(least_column, start) or []
            if not spaces or (not self.flow_level and self.column < least_column):
                break
        return ScalarToken("".join(chunks), True, start, end)

    def scan_flow_scalar_non_spaces(self, double: bool, start_mark: Mark) -> list[str]:
        """As inherited; an escape beyond Unicode is a syntax error, not a ValueError."""
        try:
            return list(super().scan_flow_scalar_non_spaces(double, start_mark))
        except (ValueError, OverflowError):
            message = "found an escape that is no character"
            raise ScannerError("while scanning a double-quoted scalar", start_mark, message, self.get_mark()) from None
