"""No value is in more rows of one column than a relation's `max_degree`; what a commit does in sum is checked."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.cli.app import main
from dynq_cli.errors import RejectedError

SPEC = """
version: 1
relations:
  link: {columns: {a: int64, b: "int64?"}, max_degree: 2}
  kind: {columns: {id: int64, name: string, price: "decimal(30,2)"}, key: [id], max_degree: 2}
queries:
  q: {rule: "q(a, b) :- link(a, b)"}
  n: {rule: "n(name, count()) :- kind(_, name, _)"}
"""
LINKS = "a,b\n1,10\n1,11\n2,10\n3,\n4,\n5,\n"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(SPEC)
    Path("link.csv").write_text(LINKS)
    Path("kind.csv").write_text("id,name,price\n1,tree,1.50\n2,tree,1.50\n3,bush,2.00\n")
    assert main(["init", "spec.yaml"]) == 0
    assert main(["apply", "link.csv", "kind.csv"]) == 0


def _files() -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(Path(".dynq").rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("_change_type,a,b\ninsert,7,9\ninsert,1,12\n", "link.2.csv: row 2, column a: 1 is then in 3 rows of link"),
        ("_change_type,a,b\ninsert,7,10\ninsert,8,10\n", "row 1, column b: 10 is then in 4 rows of link"),
        ("_change_type,a,b,_count\ninsert,7,7,3\n", "row 1, column a: 7 is then in 3 rows of link"),
        (
            "_change_type,_commit_version,a,b\ninsert,1,7,7\ninsert,2,7,8\ninsert,3,7,9\ndelete,4,7,9\n",
            "row 3, column a: 7 is then in 3 rows",
        ),
    ],
)
def test_a_log_that_passes_the_degree_is_refused_and_changes_nothing(
    log: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("link.2.csv").write_text(log)
    before = _files()
    assert main(["apply", "link.2.csv"]) == 3
    told = capsys.readouterr().err
    assert said in told
    assert "whose `max_degree` is 2" in told
    assert _files() == before
    assert main(["check"]) == 0


def test_the_commit_counts_as_a_whole(capsys: pytest.CaptureFixture[str]) -> None:
    Path("link.2.csv").write_text("_change_type,a,b\ninsert,1,12\ninsert,1,13\ndelete,1,10\ndelete,1,11\n")
    assert main(["apply", "link.2.csv"]) == 0
    Path("link.3.csv").write_text("_change_type,a,b\nupdate_preimage,1,12\nupdate_postimage,1,14\n")
    assert main(["apply", "link.3.csv"]) == 0
    Path("kind.2.csv").write_text("id,name,price\n3,bush,1.50\n")
    assert main(["apply", "--upsert", "kind.2.csv"]) == 3
    assert "row 1, column price: 1.50 is then in 3 rows of kind" in capsys.readouterr().err
    Path("kind.3.csv").write_text("id,name,price\n1,bush,1.50\n")
    assert main(["apply", "--upsert", "kind.3.csv"]) == 0
    assert main(["verify"]) == 0


def test_null_is_no_value() -> None:
    with dynq_cli.open() as view:
        view.apply(pa.table({"a": [6], "b": pa.array([None], pa.int64())}), "link")
        assert view.counts("q").rows == 7


def test_a_dump_that_passes_the_degree_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("dump.csv").write_text("a,b\n1,10\n1,11\n1,12\n")
    assert main(["apply", "--replace", "link=dump.csv"]) == 3
    assert "dump.csv: row 3, column a: 1 is then in 3 rows of link" in capsys.readouterr().err
    with dynq_cli.open() as view, pytest.raises(RejectedError, match="row 3, column a"):
        view.replace(pa.table({"a": [1, 1, 1], "b": [10, 11, 12]}), "link")


def test_a_bad_log_is_set_aside_with_the_reason() -> None:
    Path("inbox").mkdir()
    Path("inbox/link.1.csv").write_text("a,b\n1,12\n")
    Path("inbox/link.2.csv").write_text("a,b\n8,12\n")
    assert main(["run", "inbox", "--quarantine", "aside"]) == 3
    (reason,) = Path("aside").rglob("*.reason.json")
    assert "column a: 1 is then in 3 rows" in reason.read_text()
    with dynq_cli.open() as view:
        assert view.counts("q").rows == 7


def test_values_past_the_degree_are_told_where_the_spec_says_warn(capsys: pytest.CaptureFixture[str]) -> None:
    Path("warn.yaml").write_text(SPEC.replace("max_degree: 2}\n  kind", "max_degree: 2, on_degree: warn}\n  kind"))
    assert main(["alter", "warn.yaml"]) == 0
    Path("link.2.csv").write_text("a,b\n1,12\n")
    assert main(["apply", "link.2.csv"]) == 0
    assert "warning: link, column a: 1 is then in 3 rows of link, whose `max_degree` is 2" in capsys.readouterr().err
    Path("link.3.csv").write_text("a,b\n9,12\n")
    assert main(["apply", "link.3.csv"]) == 0
    assert "warning" not in capsys.readouterr().err
    # What is there by now, a stricter spec refuses.
    assert main(["alter", "spec.yaml"]) == 3
    assert "link, column a: 1 is in 3 rows, and the given `max_degree` is 2" in capsys.readouterr().err
    Path("link.4.csv").write_text("_change_type,a,b\ndelete,1,12\n")
    assert main(["apply", "link.4.csv"]) == 0
    assert main(["alter", "spec.yaml"]) == 0


def test_rows_that_are_there_have_to_keep_a_new_degree(capsys: pytest.CaptureFixture[str]) -> None:
    Path("less.yaml").write_text(SPEC.replace("max_degree: 2", "max_degree: 1", 1))
    assert main(["alter", "less.yaml"]) == 3
    Path("more.yaml").write_text(SPEC.replace("max_degree: 2", "max_degree: 3", 1))
    assert main(["alter", "more.yaml"]) == 0
    Path("link.2.csv").write_text("a,b\n1,12\n")
    assert main(["apply", "link.2.csv"]) == 0


def test_old_versions_are_read_and_the_queries_that_count_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    Path("link.2.csv").write_text("_change_type,a,b\ndelete,1,10\ninsert,1,12\n")
    assert main(["apply", "link.2.csv"]) == 0
    assert main(["enum", "-q", "q", "--at", "1", "-o", "old.csv"]) == 0
    assert len(Path("old.csv").read_text().splitlines()) == 7
    capsys.readouterr()
    assert main(["status"]) == 0
    assert main(["explain", "spec.yaml", "--json"]) == 0
    assert main(["check"]) == 0
    assert "degrees/" not in capsys.readouterr().out
    assert main(["report", "-o", "page.html"]) == 0


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("max_degree: 0", "`max_degree` of relation `link` cannot be `0`"),
        ("max_degree: many", "`max_degree` of relation `link` cannot be `many`"),
        ("max_degree: -3", "`max_degree` of relation `link` cannot be `-3`"),
        ("max_degree: 2, on_degree: stop", "`on_degree` of relation `link` cannot be `stop`"),
        ("on_degree: warn", "`on_degree` of relation `link` says what happens past `max_degree`"),
    ],
)
def test_what_is_no_degree_is_refused(written: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("wrong.yaml").write_text(SPEC.replace("max_degree: 2", written, 1))
    assert main(["explain", "wrong.yaml"]) == 3
    assert said in capsys.readouterr().err
