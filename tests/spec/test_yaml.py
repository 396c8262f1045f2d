"""The YAML reader: strings stay strings, characters keep their places, hostile files stay cheap."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from yaml.events import ScalarEvent

from dynq_cli.errors import Problem, SpecError
from dynq_cli.spec.model import Text
from dynq_cli.spec.nodes import ListNode, MapNode, Node, Scalar
from dynq_cli.spec.scalars import scalar_anchors
from dynq_cli.spec.source import MAX_BYTES, Source, source_of
from dynq_cli.spec.yaml import MAX_DEPTH, MAX_NODES, read_yaml
from dynq_cli.spec.yaml_events import EventReader, span
from tests.every_case import every_case


def read(text: str) -> Node:
    node, problems = read_yaml(source_of(text, "s.yaml"))
    assert problems == []
    assert node is not None
    return node


def problems_of(text: str) -> list[Problem]:
    return read_yaml(source_of(text, "s.yaml"))[1]


def plain(node: Node) -> object:
    match node:
        case Scalar():
            return node.value
        case ListNode():
            return [plain(item) for item in node.items]
        case MapNode():
            return {key.value: plain(value) for key, value in node.entries}
    raise AssertionError(node)


def scalars(node: Node) -> list[Scalar]:
    match node:
        case Scalar():
            return [node]
        case ListNode():
            return [found for item in node.items for found in scalars(item)]
        case MapNode():
            return [found for key, value in node.entries for found in [key, *scalars(value)]]
    return []


def assert_places_point_at_the_same_characters(text: Text, source: str) -> None:
    """Every character stands where `place` says, or is an escape there; places only move forward."""
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    last = (0, 0)
    for offset, char in enumerate(text.value):
        place = text.place(offset)
        assert (place.line, place.column) > last
        last = (place.line, place.column)
        written = (lines[place.line - 1] + "\n")[place.column - 1]
        if char in " \n":
            assert written in " \n\\"
        else:
            assert written in (char, "\\")


@every_case(
    "word", ["on", "no", "yes", "null", "~", "1:30", "012", "1e3", "0x1F", "1_000", "2024-01-01", ".inf", "true", "="]
)
def test_words_that_yaml_would_guess_stay_strings(word: str) -> None:
    assert plain(read(f"{word}: {word}\nlist: [{word}]\n")) == {word: word, "list": [word]}


def test_question_mark_may_end_a_word_between_braces() -> None:
    assert plain(read("{a: string?, b: [x?, y?z]}")) == {"a": "string?", "b": ["x?", "y?z"]}


def test_windows_line_ends_and_byte_order_mark_move_no_place() -> None:
    unix = "a: b\nc: >\n  one\n  two\n"
    assert read("\ufeff" + unix.replace("\n", "\r\n")) == read(unix)


STYLES = {
    "plain": "k: SELECT a, b\n",
    "plain over lines": "k: SELECT a,\n     b\n\n  FROM t  # comment\n",
    "plain over blank lines": "k: SELECT a\n\n\n\n  FROM t\n",
    "double over blank lines": 'k: "one\n\n\n  two \\\n\n\n  three"\n',
    "single": "k: 'it''s  ''quoted'''\n",
    "single over lines": "k: 'one\n\n    two  \n  three'\n",
    "double": 'k: "tab\\t quote\\" x\\x41 u\\u0042 U\\U00000043 end"\n',
    "double over lines": 'k: "one\n  two \\\n  three\\n\n\n  four"\n',
    "literal": "k: |\n  one\n    two\n\n  three\n\n",
    "literal with indentation": "k: |2\n    one\n  two\n",
    "literal kept": "k: |+\n\n  one\n\n\n",
    "literal stripped": "k: |-\n  one\n  two\n\n",
    "literal at end of file": "k: |\n  one\n  two",
    "folded": "k: >\n  one\n  two\n\n\n  three\n    deeper\n    still\n  four\n",
    "folded stripped": "k: >- # comment\n   one\n   two\n",
    "folded with indentation": "k: >1+\n one\n  two\n three\n\n",
    "folded in a list": "- >\n  one\n  two\n-\n  - |\n    x\n    y\n",
    "between braces": "{k: [one two, 'th''ree', \"fo\\x75r\",\n five\n six]}\n",
}


@every_case("source", STYLES.values(), ids=STYLES.keys())
def test_every_character_of_every_style_has_its_place(source: str) -> None:
    found = scalars(read(source))
    assert any(len(scalar.value) > 2 for scalar in found)
    for scalar in found:
        assert_places_point_at_the_same_characters(scalar.text, source)


def test_place_in_folded_text_is_that_of_the_word() -> None:
    root = read("q:\n  sql: >\n    SELECT a\n    FROM t\n\n    WHERE b\n")
    text = next(s.text for s in scalars(root) if "SELECT" in s.value)
    assert text.value == "SELECT a FROM t\nWHERE b\n"
    places = {word: text.place(text.value.index(word)) for word in ("SELECT", "FROM", "t", "WHERE", "b")}
    assert {word: (p.line, p.column) for word, p in places.items()} == {
        "SELECT": (3, 5),
        "FROM": (4, 5),
        "t": (4, 10),
        "WHERE": (6, 5),
        "b": (6, 11),
    }


def test_place_after_an_escape_counts_the_characters_of_the_escape() -> None:
    text = scalars(read('"a\\u0042c\\n\\"d"'))[0].text
    assert text.value == 'aBc\n"d'
    assert [text.place(i).column for i in range(6)] == [2, 3, 9, 10, 12, 14]


def test_place_after_the_last_character_is_next_to_it() -> None:
    text = scalars(read("k: 'ab'"))[1].text
    assert text.place(2).column == 7


_PIECES = st.sampled_from(
    ["a", "bc", ":-", "x: y", " ", "  ", "\n", "\n  ", "\n    ", "\n\n", "''", '"', "\\n", "\\x41", "\\\n", "\\\\",
     "#", " #", "é", "𝄞", "\t", "(", ",", "|", ">", "-", "?", "'"]
)  # fmt: skip
_FRAMES = st.sampled_from(
    ["k: {}\n", "k: '{}'\n", 'k: "{}"\n', "k: |\n  {}\n", "k: >\n  {}\n", "k: |+\n  {}\nz: 1\n", "k: >-\n  {}\n",
     "k: |2\n  {}\n", "a:\n  k: >1\n   {}\n", "k: |\n  {}", "- >+\n   {}\n- b\n", "k:\n- |1-\n  {}\n", "[{}]", "{}"]
)  # fmt: skip


@given(_FRAMES, st.lists(_PIECES, max_size=14))
def test_places_are_right_in_whatever_is_valid_yaml(frame: str, pieces: list[str]) -> None:
    text = frame.replace("{}", "".join(pieces))
    root, problems = read_yaml(source_of(text, "s.yaml"))
    assume(root is not None and not problems)
    assert root is not None
    for scalar in scalars(root):
        assert_places_point_at_the_same_characters(scalar.text, text)


@given(_FRAMES, st.lists(_PIECES, max_size=14))
def test_the_walk_over_a_scalar_yields_as_many_characters_as_its_value(frame: str, pieces: list[str]) -> None:
    source = Source("s.yaml", frame.replace("{}", "".join(pieces)))
    assume(not problems_of(source.text))
    parser = EventReader(source.text)
    for event in parser:
        if isinstance(event, ScalarEvent):
            style = event.style if event.style in ("'", '"', "|", ">") else None
            indent = parser.parent_indents.get(span(event)[0], -1)
            _, length = scalar_anchors(source.text, *span(event), style, indent)
            assert length == len(event.value)


@given(st.text(alphabet=" \n\t:-?,[]{}#&*!|>'\"%@`\\ab1<=~.é", max_size=60))
def test_any_text_gives_a_tree_or_problems_with_places_in_the_text(text: str) -> None:
    root, problems = read_yaml(source_of(text, "s.yaml"))
    assert (root is None) <= bool(problems)
    lines = text.split("\n")
    for problem in problems:
        assert problem.hint
        assert 1 <= problem.place.line <= len(lines)
        assert 1 <= problem.place.column <= len(lines[problem.place.line - 1]) + 1


def test_duplicate_key_names_both_places_and_keeps_the_first() -> None:
    root, problems = read_yaml(source_of("a: 1\nb: {c: 2, c: 3}\na: 4\n", "s.yaml"))
    assert root is not None
    assert plain(root) == {"a": "1", "b": {"c": "2"}}
    assert [(p.place.line, p.place.column) for p in problems] == [(2, 11), (3, 1)]
    assert "first at line 2, column 5" in problems[0].message
    assert "first at line 1, column 1" in problems[1].message


@every_case(
    ("text", "words"),
    [
        ("a: &x 1\nb: *x\n", ["anchors", "aliases"]),
        ("a: !!int 1\n", ["tags"]),
        ("a: ! b\n", ["tags"]),
        ("a: !e!x b\n", ["tags"]),
        ("a: {<<: {b: c}}\n", ["merge keys"]),
        ("a: 1\n---\nb: 2\n", ["second document"]),
        ("? [a, b]\n: c\n", ["cannot be a key"]),
        ("%TAG ! tag:x:\n--- \na: !b c\n", ["tags"]),
    ],
)
def test_yaml_that_a_spec_does_not_need_is_refused(text: str, words: list[str]) -> None:
    problems = problems_of(text)
    assert len(problems) == len(words)
    for problem, word in zip(problems, words, strict=True):
        assert word in problem.message


def test_text_cut_at_its_comma_is_one_problem_with_the_text_that_was_meant() -> None:
    (problem,) = problems_of("{p: decimal(15,2), q: int64}")
    assert problem.hint == 'put the whole text in quotes: `"decimal(15,2)"`'
    (problem,) = problems_of("{sql: SELECT a, b, c FROM t, k: v}")
    assert '"SELECT a, b, c FROM t"' in problem.hint
    (problem,) = problems_of("[Q(x, y) :- R(x, 'a', y), z]")
    assert "\"Q(x, y) :- R(x, 'a', y)\"" in problem.hint


def test_entry_without_colon_that_is_a_name_is_left_to_the_reader_of_the_map() -> None:
    assert plain(read("{a: int64, b}")) == {"a": "int64", "b": ""}


@pytest.mark.parametrize("escape", ["\\U00110000", "\\UFFFFFFFF", "\\ud800", "\\xZ1", "\\q"])
def test_escape_that_is_no_character_is_a_problem_at_its_backslash(escape: str) -> None:
    (problem,) = problems_of(f'a: "xy{escape}"\n')
    assert (problem.place.line, problem.place.column) == (1, 7)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        "{a: " * 100_000,
        "- " * 200_000,
        "".join(" " * i + "a:\n" for i in range(500)),
        "? " * 100_000,
    ],
    ids=["brackets", "braces", "dashes", "indentation", "question marks"],
)
def test_deep_nesting_is_refused_at_once(text: str) -> None:
    start = time.monotonic()
    (problem,) = problems_of(text)
    assert f"deeper than {MAX_DEPTH} levels" in problem.message
    assert time.monotonic() - start < 5


def test_nesting_up_to_the_limit_is_read() -> None:
    read("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert problems_of("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))


def test_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_NODES == 100_000
    monkeypatch.setattr("dynq_cli.spec.yaml.MAX_NODES", 1_000)
    assert problems_of("[" + "a," * 998 + "a]") == []
    (problem,) = problems_of("[" + "a," * 999 + "a]")
    assert "more than 1,000 values" in problem.message


def test_file_above_the_size_limit_is_refused_and_at_the_limit_read() -> None:
    assert plain(read("a: " + "x" * (MAX_BYTES - 3))) == {"a": "x" * (MAX_BYTES - 3)}
    for text in ("a: " + "x" * (MAX_BYTES - 2), "a: " + "é" * (MAX_BYTES // 2 - 1)):
        with pytest.raises(SpecError, match="larger than 1,048,576 bytes"):
            source_of(text, "s.yaml")


def test_billion_laughs_cost_nothing() -> None:
    levels = "".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]\n" for i in range(1, 40))
    tracemalloc.start()
    problems = problems_of("l0: &l0 [lol]\n" + levels)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(problems) == 40 + 39 * 9
    assert peak < 20 << 20


@pytest.mark.parametrize(
    "text",
    ['"' + '\\"' * 50_000 + '"', "'" + "''" * 50_000 + "'", "a: |\n" + "  x\n" * 25_000, "a: >\n" + " \n" * 50_000],
    ids=["escapes", "doubled quotes", "lines", "blank lines"],
)
def test_scalars_made_of_anchors_stay_within_bounded_memory(text: str) -> None:
    tracemalloc.start()
    read(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 300 * len(text)


@every_case("char", [*"\0\x07\x1b\x7f\x85\u2028\u2029\ufeff\ufffe\ud800"])
def test_invisible_characters_are_refused_with_their_place(char: str) -> None:
    with pytest.raises(SpecError) as caught:
        source_of(f"a: b\nc: d{char}e\n", "s.yaml")
    (problem,) = caught.value.problems
    assert (problem.place.line, problem.place.column) == (2, 5)
    assert f"U+{ord(char):04X}" in problem.message
