"""A format of results that is registered from outside works everywhere that a format is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.cli.app import main
from dynq_cli.errors import SpecError
from dynq_cli.spec import output_formats
from dynq_cli.spec.output_formats import OutputFormat

SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, s: "string?"}}
queries:
  all: {sql: "SELECT x, s FROM R ORDER BY x"}
  any: {rule: "any() :- R(x, s)"}
outputs:
  - {query: all, kind: enum, path: "out/{version}.md"}
"""


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    known = dict(output_formats._BY_NAME)
    output_formats.register(OutputFormat("md", "tests.io.results.markdown", needs_columns=True))
    Path("spec.yaml").write_text(SPEC)
    yield
    output_formats._BY_NAME.clear()
    output_formats._BY_NAME.update(known)


TABLE = "| x | s | _count |\n| --- | --- | --- |\n| 1 | a | 2 |\n| 2 |  | 1 |\n"


def test_rows_are_written_in_it(registered: None, capsys: pytest.CaptureFixture[str]) -> None:
    with dynq_cli.create("spec.yaml") as view:
        view.apply(pa.table({"x": [1, 1, 2], "s": ["a", "a", None]}), "R")
    assert main(["enum", "-q", "all", "-o", "x.md"]) == 0
    assert Path("x.md").read_text() == TABLE
    Path("inbox/R").mkdir(parents=True)
    Path("inbox/R/1.csv").write_text("x,s\n3,c\n")
    assert main(["run", "inbox"]) == 0
    assert Path("out/2.md").read_text() == TABLE + "| 3 | c | 1 |\n"
    capsys.readouterr()
    assert main(["enum", "-q", "all", "-o", "x.xlsx"]) == 2
    assert ".parquet .csv .jsonl .arrow .md" in capsys.readouterr().err
    assert main(["enum", "-q", "any", "-o", "x.md"]) == 2
    assert "a result without columns has no .md file: use .csv .jsonl .arrow" in capsys.readouterr().err


def test_a_spec_with_an_output_in_no_format_lists_it(registered: None) -> None:
    Path("spec.yaml").write_text(SPEC.replace(".md", ".xlsx"))
    with pytest.raises(SpecError, match=r"end it in `.parquet`, `.csv`, `.jsonl`, `.arrow` or `.md`"):
        dynq_cli.load_spec("spec.yaml")


def test_an_extension_is_registered_once(registered: None) -> None:
    with pytest.raises(ValueError, match="there is a format csv already"):
        output_formats.register(OutputFormat("csv", "tests.io.results.markdown"))
