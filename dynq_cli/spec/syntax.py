"""Explain YAML syntax errors to the author of a spec.

PyYAML reports what its grammar expected; `explain` reports the wrong line and what to write. It guesses the cause from
the lines around the error, but the place is always one where the text is wrong. Unknown errors keep PyYAML's words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from yaml.error import MarkedYAMLError

from dynq_cli.errors import Problem
from dynq_cli.spec.shown import shown
from dynq_cli.spec.source import Source

_KEY = re.compile(r"""\s*(?:-\s+)?(?P<key>[^\s:"'{}\[\],#][^:"'{}\[\],#]*):(?=\s|$)""")
_BLOCK_KEY = re.compile(r"\s*(?:-\s+)?(?P<key>[^\s:]+):\s+(?P<style>[|>])[-+0-9]*\s*(?:#.*)?$")
_LAST_WORD = re.compile(r"[^\s,{}\[\]]+\s*$")
_LONGEST_KEY = 1024
_GLUED = re.compile(r"\s*(?:-\s+)?(?P<key>\w+):(?P<value>\S.*)$")


def explain(error: MarkedYAMLError, source: Source) -> Problem:
    problem, context = error.problem or "", error.context or ""
    mark = error.problem_mark or error.context_mark
    at = mark.index if mark else 0
    start = error.context_mark.index if error.context_mark else at
    for words, reader in _READERS:
        if words in problem or words in context:
            return reader(_Error(source, at, start, problem))
    return _problem(source, at, f"this is not valid YAML: {problem}", "put texts with special characters in quotes")


class _Error:
    """A syntax error: where it was noticed, where its context began, and PyYAML's words."""

    def __init__(self, source: Source, at: int, start: int, problem: str) -> None:
        self.source = source
        self.at = at
        self.start = start
        self.found = problem.rpartition("'")[0].rpartition("'")[2]

    @property
    def line_start(self) -> int:
        """The first character of the line that is not a space."""
        before = self.source.line_before(self.at)
        return self.at - len(before.lstrip())

    def lines_above(self, index: int) -> Iterator[tuple[int, str]]:
        """The lines before that of `index` which are neither blank nor comments, nearest first.

        Each with the index of its first character that is not a space.
        """
        end = index - len(self.source.line_before(index)) - 1
        while end >= 0:
            line = self.source.line_before(end)
            if line.strip() and not line.lstrip().startswith("#"):
                yield end - len(line.lstrip(" ")), line
            end -= len(line) + 1


def _problem(source: Source, index: int, message: str, hint: str) -> Problem:
    return Problem(source.place(index), message, hint)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _unexpected_colon(e: _Error) -> Problem:
    before = e.source.line_before(e.at)
    key = _KEY.match(before)
    if key:
        name = key["key"].strip()
        hint = f"put the whole value of {shown(name)} in quotes, or write it indented below `{name}: >`"
        return _problem(e.source, e.at, "an unquoted text cannot hold a colon followed by a space", hint)
    place, previous = next(e.lines_above(e.at), (e.line_start, ""))
    text = previous.strip()
    if re.match(r"-\w", text):
        return _problem(e.source, place, f"{shown(text)} has no space after its `-`", f"write {shown('- ' + text[1:])}")
    if previous and not _KEY.match(previous):
        message = f"{shown(text)} is not of the form `key: value`"
        return _problem(e.source, place, message, _key_value_hint(previous))
    if len(before) > _LONGEST_KEY:
        return _problem(e.source, e.line_start, "this key is longer than 1024 characters", "choose a shorter name")
    message = "this line is indented deeper than the line above, which already has a value"
    return _problem(e.source, e.line_start, message, f"begin it in column {_indent(previous) + 1}, like the line above")


def _key_value_hint(line: str) -> str:
    glued = _GLUED.match(line)
    if glued:
        return f"put a space after the colon: {shown(glued['key'] + ': ' + glued['value'].strip())}"
    words = line.split()
    if len(words) == 2:
        return f"write {shown(words[0].rstrip('=') + ': ' + words[1])}"
    return "write `key: value`; a text over several lines is indented below `key: >`"


def _missing_colon(e: _Error) -> Problem:
    key = _block_key_above(e, e.start, deepest=_indent(e.source.line_at(e.start)))
    if key:
        return _not_indented(e, e.start, key)
    line = e.source.line_at(e.start)
    message = f"{shown(line.strip())} is not of the form `key: value`"
    return _problem(e.source, e.start, message, _key_value_hint(line))


def _block_key_above(e: _Error, index: int, deepest: int) -> re.Match[str] | None:
    """The `key: >` whose text the line at `index` was probably meant to belong to."""
    for _, line in e.lines_above(index):
        key = _BLOCK_KEY.match(line)
        if key and _indent(line) <= deepest:
            return key
        if _indent(line) <= deepest:
            return None
    return None


def _not_indented(e: _Error, index: int, key: re.Match[str]) -> Problem:
    header = f"{key['key']}: {key['style']}"
    message = f"this line does not belong to the text of `{header}`: it is not indented like the rest"
    hint = f"indent every line of the text by the same number of spaces, deeper than `{key['key']}`"
    return _problem(e.source, index, message, hint)


def _after_value(e: _Error) -> Problem:
    before = e.source.line_before(e.at)
    if e.found in ("}", "]"):
        return _problem(e.source, e.at, f"this `{e.found}` closes nothing", "delete it, or open its pair before it")
    if e.found == ":":
        return _problem(e.source, e.at, "there is no key before this colon", "write `key: value`")
    if not before.strip():
        return _wrong_column(e)
    last = before.rstrip()[-1]
    if last in "\"'":
        message = f"the quoted text ends at the {last} before this, yet more text follows"
        inside = '\\"' if last == '"' else "''"
        hint = f"write a {last} inside the text as {inside}, or write the text without quotes, indented below `key: >`"
        return _problem(e.source, e.at, message, hint)
    if last in "}]":
        message = f"more text follows the closing `{last}`"
        hint = 'a text that begins with `{` or `[` needs quotes, as in path: "{version}.csv"'
        return _problem(e.source, e.at, message, hint)
    return _problem(e.source, e.at, "there is already a value before this", "put the whole value in quotes")


def _wrong_column(e: _Error) -> Problem:
    own = _indent(e.source.line_at(e.at))
    key = _block_key_above(e, e.at, deepest=own)
    if key:
        return _not_indented(e, e.at, key)
    if e.found == "-":
        message = "a list item (`- `) stands among the keys of a map"
        return _problem(e.source, e.at, message, "indent the list below the key it belongs to, or write `key: value`")
    outer = e.source.position(e.start)
    if outer[1] == own + 1:
        message = "a key stands among the items of a list"
        return _problem(e.source, e.at, message, "begin the line with `- `, or indent it below the item it belongs to")
    _, previous = next(e.lines_above(e.at), (0, ""))
    inner = _indent(previous) + 1
    columns = f"column {outer[1]}" if inner == outer[1] else f"column {inner}, or column {outer[1]}"
    message = "this line begins in a column of its own, so it belongs to nothing above it"
    return _problem(e.source, e.at, message, f"begin it in {columns}, like the keys it belongs with")


def _unclosed(e: _Error) -> Problem:
    opened = e.source.text[e.start]
    closing = {"[": "]", "{": "}"}.get(opened, "")
    line, column = e.source.position(e.start)
    what = "list" if opened == "[" else "map"
    same_line = "\n" not in e.source.text[e.start : e.at]
    own = _indent(e.source.line_at(e.at))
    ended = e.found == "<stream end>" or (not same_line and own <= _indent(e.source.line_at(e.start)))
    if ended:
        message = f"the `{opened}` that begins this {what} is never closed"
        return _problem(e.source, e.start, message, f"add `{closing}` where the {what} ends")
    if e.found in ("{", "["):
        message = f"an unquoted text cannot hold `{e.found}` between braces or brackets"
        return _problem(e.source, e.at, message, 'put the text in quotes, as in path: "out/{version}.csv"')
    if e.found in ("}", "]"):
        message = f"`{e.found}` stands where the `{opened}` of line {line}, column {column} has to be closed first"
        return _problem(e.source, e.at, message, f"put `{closing}` before it")
    message = f"a comma is missing before this, in the {what} that begins at line {line}, column {column}"
    hint = "separate entries by commas, and put texts with `: ` or quotes in quotes"
    word = _LAST_WORD.search(e.source.line_before(e.at)) if e.found == ":" else None
    return _problem(e.source, e.at - len(word[0]) if word else e.at, message, hint)


def _bad_start(e: _Error) -> Problem:
    char = e.source.text[e.at]
    if char == "\t":
        if e.source.line_before(e.at).strip():
            return _problem(e.source, e.at, "a tab stands outside quotes", "put a space in its place, or delete it")
        return _problem(e.source, e.at, "this line is indented with a tab", "indent with spaces")
    if char in "|>":
        message = f"a text below `{char}` cannot stand between braces or brackets"
        return _problem(e.source, e.at, message, "put the text in quotes, or write the map without braces")
    return _problem(e.source, e.at, f"an unquoted text cannot begin with `{char}`", "put the text in quotes")


def _bad_reference(e: _Error) -> Problem:
    char = e.source.text[e.start]
    return _problem(e.source, e.start, f"an unquoted text cannot begin with `{char}`", "put the text in quotes")


def _unclosed_quote(e: _Error) -> Problem:
    quote = e.source.text[e.start]
    message = f"the text that begins with this {quote} is never closed"
    return _problem(e.source, e.start, message, f"add {quote} where the text ends")


def _bad_escape(e: _Error) -> Problem:
    begin = e.source.text.rfind("\\", e.start, e.at + 1)
    escape = e.source.text[begin : begin + 2]
    message = f"{shown(escape)} does not begin an escape that double quotes know"
    hint = "write \\\\ for a backslash, or put the text in single quotes, where a backslash is itself"
    return _problem(e.source, begin, message, hint)


def _item_on_key_line(e: _Error) -> Problem:
    message = "a list item (`- `) cannot begin on the line of its key"
    return _problem(e.source, e.at, message, "begin the list on the next line, or write it in brackets: [a, b]")


def _text_after_header(e: _Error) -> Problem:
    style = e.source.text[e.start]
    message = f"the text cannot begin on the line of its `{style}`"
    hint = f"begin it on the next line, indented; or put it in quotes without `{style}`"
    return _problem(e.source, e.at, message, hint)


def _directive(e: _Error) -> Problem:
    return _problem(e.source, e.at, "a spec has no YAML directives (`%`)", "delete this line")


def _after_document(e: _Error) -> Problem:
    return _problem(e.source, e.at, "text follows the end of the document", "delete the `...` or `---` before it")


def _missing_value(e: _Error) -> Problem:
    return _problem(e.source, e.at, f"a value is missing before `{e.found}`", "write the value, or delete the key")


def _tag(e: _Error) -> Problem:
    hint = "delete the tag; a text that begins with `!` needs quotes"
    return _problem(e.source, e.start, "tags (`!name`) are not allowed in a spec", hint)


_READERS: tuple[tuple[str, Callable[[_Error], Problem]], ...] = (
    ("mapping values are not allowed", _unexpected_colon),
    ("could not find expected ':'", _missing_colon),
    ("expected <block end>", _after_value),
    ("expected ',' or", _unclosed),
    ("cannot start any token", _bad_start),
    ("while scanning an alias", _bad_reference),
    ("while scanning an anchor", _bad_reference),
    ("while scanning a quoted scalar", _unclosed_quote),
    ("while scanning a double-quoted scalar", _bad_escape),
    ("sequence entries are not allowed", _item_on_key_line),
    ("while scanning a block scalar", _text_after_header),
    ("directive", _directive),
    ("incompatible YAML document", _directive),
    ("expected '<document start>'", _after_document),
    ("expected the node content", _missing_value),
    ("tag", _tag),
)
