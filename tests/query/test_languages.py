"""A query language that is registered from outside is read, compiled, kept and verified like SQL and rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.cli.app import main
from dynq_cli.errors import SpecError
from dynq_cli.spec import languages
from dynq_cli.spec.languages import Language

SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, s: "string?"}}
  S: {columns: {x: int64, s: "string?"}}
queries:
  all: {table: R, order_by: [x]}
  both: {table: [R, S]}
"""


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    known = dict(languages._BY_KEY)
    made = Language("table", "tests.query.whole_table", "name a relation, as in `table: R`", "a table", True, ("from",))
    languages.register(made)
    yield
    languages._BY_KEY.clear()
    languages._BY_KEY.update(known)


def test_its_queries_are_kept_and_verified(registered: None, capsys: pytest.CaptureFixture[str]) -> None:
    Path("spec.yaml").write_text(SPEC)
    with dynq_cli.create("spec.yaml") as view:
        view.apply({"R": pa.table({"x": [2, 1], "s": ["b", None]}), "S": pa.table({"x": [2], "s": ["b"]})})
        assert [row["x"] for batch in view.enum("all") for row in batch.to_pylist()] == [1, 2]
        assert view.counts("both").rows == 2
    assert main(["verify"]) == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("table: R, ", "table: Q, ", "spec.yaml:6:16: there is no relation Q\n  hint: name a relation of the spec"),
        ("[R, S]", "[R, T]", "spec.yaml:7:21: there is no relation T"),
        ("table: R, ", "from: R, ", "unknown key `from` in query `all`\n  hint: did you mean `table`?"),
        ("table: R, ", "table: R, sql: SELECT 1, ", "spec.yaml:6:19: query `all` has both `sql` and `table`"),
        (
            "table: R, ",
            "",
            "query `all` has neither `sql`, `rule`, `formula` nor `table`\n"
            "  hint: write `sql:`, `rule:`, `formula:` or `table:`",
        ),
        ("table: R, ", "table: , ", "`table` of query `all` is empty\n  hint: name a relation, as in `table: R`"),
    ],
)
def test_mistakes_have_a_place_and_a_hint(registered: None, old: str, new: str, message: str) -> None:
    Path("spec.yaml").write_text(SPEC.replace(old, new, 1))
    with pytest.raises(SpecError) as caught:
        dynq_cli.create("spec.yaml")
    assert message in str(caught.value)


def test_a_key_is_registered_once(registered: None) -> None:
    with pytest.raises(ValueError, match="there is a language rule already"):
        languages.register(Language("rule", "tests.query.whole_table", ""))
