"""`dynq apply`: each file a version; what is refused changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dynq_cli.cli.app import main
from dynq_cli.storage.lock import writing_to

Dynq = Callable[..., "subprocess.CompletedProcess[str]"]
SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, y: int64}, key: [x]}
  S: {columns: {y: int64}}
queries:
  pairs: {sql: "SELECT x, R.y FROM R, S WHERE R.y = S.y"}
"""


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SPEC)
    Path("R.1.csv").write_text("x,y\n1,10\n2,20\n")
    Path("S.1.csv").write_text("y\n10\n20\n20\n")
    Path("R.2.csv").write_text("_change_type,x,y\ninsert,3,20\ndelete,1,10\n")
    assert main(["init", "spec.yaml", "--quiet"]) == 0
    capsys.readouterr()


def count(capsys: pytest.CaptureFixture[str]) -> tuple[int, int]:
    assert main(["count", "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    return read["version"], read["rows"]


def files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(".dynq").iterdir() if path.name != "lock"}


def applied(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> dict[str, Any]:
    assert main(["apply", *args, "--json"]) == code
    read: dict[str, Any] = json.loads(capsys.readouterr().out)
    return read


def test_each_file_is_a_version_and_said_in_a_line(dynq: Dynq) -> None:
    run = dynq("apply", "R.1.csv", "S.1.csv", "R.2.csv")
    assert (run.returncode, run.stdout) == (0, "")
    assert run.stderr.splitlines() == [
        "dynq: R.1.csv: version 1, 2 inserted, 0 replaced, 0 deleted (snapshot)",
        "dynq: S.1.csv: version 2, 3 inserted, 0 replaced, 0 deleted (snapshot)",
        "dynq: R.2.csv: version 3, 1 inserted, 0 replaced, 1 deleted (canonical)",
    ]
    assert dynq("count").stdout == "4\n"


def test_json_has_the_version_and_what_became_of_each_log(capsys: pytest.CaptureFixture[str]) -> None:
    read = applied(capsys, "R.1.csv", "R.2.csv")
    assert (read["version"], read["dry_run"], read["rejected"]) == (2, False, None)
    first, second = read["applied"]
    assert (first["path"], first["version"], first["form"], first["rows"]) == ("R.1.csv", 1, "snapshot", 2)
    assert (second["inserted"], second["deleted"]) == (1, 1)


def test_what_was_applied_before_is_skipped_and_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    applied(capsys, "R.1.csv")
    assert main(["apply", "R.1.csv"]) == 0
    assert "R.1.csv: skipped, applied before" in capsys.readouterr().err
    assert count(capsys)[0] == 1


def test_other_content_under_a_known_name_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    applied(capsys, "R.1.csv")
    Path("R.1.csv").write_text("x,y\n5,5\n")
    before = files()
    assert main(["apply", "R.1.csv"]) == 3
    told = capsys.readouterr().err
    assert "has a log named R.1.csv with other content" in told
    assert "version 1" in told
    assert files() == before


def test_known_content_under_another_name_is_applied_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    Path("S.2.csv").write_bytes(Path("S.1.csv").read_bytes())
    assert main(["apply", "S.1.csv", "S.2.csv"]) == 0
    assert "warning: S.2.csv has the content of S.1.csv" in capsys.readouterr().err
    assert count(capsys)[0] == 2


def test_the_versions_before_a_rejected_log_are_kept_and_those_after_it_not_tried(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("R.bad.csv").write_text("_change_type,x,y\ninsert,7,10\ndelete,8,10\n")
    read = applied(capsys, "R.1.csv", "R.bad.csv", "S.1.csv", code=3)
    assert (read["version"], [log["path"] for log in read["applied"]]) == (1, ["R.1.csv"])
    assert "R.bad.csv" in read["rejected"]
    assert "row 2" in read["rejected"]
    assert count(capsys) == (1, 0)


def test_with_atomic_all_files_are_one_version_or_none(capsys: pytest.CaptureFixture[str]) -> None:
    Path("R.bad.csv").write_text("_change_type,x,y\ndelete,8,10\n")
    before = files()
    assert main(["apply", "--atomic", "R.1.csv", "S.1.csv", "R.bad.csv"]) == 3
    assert files() == before
    assert main(["apply", "--atomic", "R.1.csv", "S.1.csv"]) == 0
    capsys.readouterr()
    assert count(capsys) == (1, 3)


def test_a_dry_run_says_what_would_be_and_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    before = files()
    assert main(["apply", "--dry-run", "R.1.csv", "R.2.csv"]) == 0
    assert "R.2.csv: would be version 2, 1 inserted, 0 replaced, 1 deleted" in capsys.readouterr().err
    read = applied(capsys, "--dry-run", "R.1.csv")
    assert (read["version"], read["dry_run"], read["applied"][0]["version"]) == (0, True, 1)
    assert main(["apply", "--dry-run", "R.2.csv"]) == 3, "a delete of a row that is not there"
    assert files() == before


def test_upsert_replaces_rows_of_the_same_key(capsys: pytest.CaptureFixture[str]) -> None:
    Path("R.3.csv").write_text("x,y\n1,20\n4,10\n")
    applied(capsys, "R.1.csv", "S.1.csv")
    applied(capsys, "R.3.csv", code=3)
    applied(capsys, "R.3.csv", "--upsert")
    assert count(capsys) == (3, 5)


def test_missing_deletes_are_skipped_and_counted_where_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    Path("R.3.csv").write_text("_change_type,x,y\ndelete,9,90\ninsert,4,10\n")
    applied(capsys, "R.3.csv", "--on-missing-delete=fail", code=3)
    assert main(["apply", "R.3.csv", "--on-missing-delete=skip"]) == 0
    said = (
        "R.3.csv: version 1, 1 inserted, 0 replaced, 0 deleted, 1 delete of rows that are not there skipped (canonical)"
    )
    assert said in capsys.readouterr().err
    assert _noted(capsys) == (1, 0)
    assert main(["apply", "R.1.csv", "--on-missing-delete=maybe"]) == 2


def test_missing_deletes_of_several_files_are_not_counted_as_deletes(capsys: pytest.CaptureFixture[str]) -> None:
    Path("S.2.csv").write_text("_change_type,_count,y\ndelete,5,20\n")
    Path("R.3.csv").write_text("_change_type,x,y\ndelete,1,\ndelete,8,\n")
    applied(capsys, "R.1.csv", "S.1.csv")
    (log,) = applied(capsys, "--atomic", "R.3.csv", "S.2.csv", "--on-missing-delete=skip")["applied"]
    assert (log["rows"], log["inserted"], log["deleted"], log["skipped_deletes"]) == (3, 0, 3, 4)
    assert _noted(capsys) == (0, 3)


def _noted(capsys: pytest.CaptureFixture[str]) -> tuple[int, int]:
    """Inserts and deletes of the last version, as the state knows them."""
    assert main(["status", "--json"]) == 0
    logs = json.loads(capsys.readouterr().out)["recent"][0]["logs"]
    return sum(log["inserted"] for log in logs), sum(log["deleted"] for log in logs)


def test_relation_and_format_can_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    Path("export.csv").write_text("x,y,_diff\n1,10,1\n")
    assert main(["apply", "export.csv"]) in (2, 3), "nothing says which relation it is"
    capsys.readouterr()
    read = applied(capsys, "export.csv", "--relation", "R", "--format", "weights")
    assert read["applied"][0]["form"] == "weights"
    assert main(["apply", "R.1.csv", "--relation", "Q"]) == 2
    assert main(["apply", "R.1.csv", "--format", "hieroglyphs"]) == 2


def test_earlier_commits_are_refused_or_skipped_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    Path("S.3.csv").write_text("y,_change_type,_commit_version\n1,insert,5\n")
    Path("S.4.csv").write_text("y,_change_type,_commit_version\n1,insert,4\n2,insert,6\n")
    applied(capsys, "S.3.csv")
    applied(capsys, "S.4.csv", code=3)
    (log,) = applied(capsys, "S.4.csv", "--allow-replay")["applied"]
    assert (log["replayed"], log["rows"], log["inserted"], log["deleted"]) == (1, 2, 1, 0)
    assert _noted(capsys) == (1, 0)


def test_a_directory_is_applied_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    Path("in").mkdir()
    for name in ("R.2.csv", "R.1.csv", "S.1.csv"):
        Path(name).rename(Path("in", name))
    assert [log["path"] for log in applied(capsys, "in")["applied"]] == ["in/R.1.csv", "in/R.2.csv", "in/S.1.csv"]


def test_a_path_that_is_not_there_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["apply", "R.gone.csv"]) == 2
    assert "R.gone.csv" in capsys.readouterr().err


def test_where_nothing_is_there_is_no_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["apply", "R.1.csv", "-s", "elsewhere"]) == 10
    assert "dynq init" in capsys.readouterr().err


def test_another_writer_is_named_and_nothing_is_changed(dynq: Dynq) -> None:
    with writing_to(Path(".dynq")):
        run = dynq("apply", "R.1.csv")
    assert run.returncode == 11
    assert str(os.getpid()) in run.stderr
    assert dynq("count", "--json").stdout == '{"rows": 0, "distinct": 0, "version": 0}\n'


def test_diff_has_what_one_version_changed(capsys: pytest.CaptureFixture[str]) -> None:
    applied(capsys, "R.1.csv", "S.1.csv")
    assert main(["apply", "R.2.csv", "--diff", "d.csv"]) == 0
    assert "wrote 2 rows to d.csv" in capsys.readouterr().err
    lines = Path("d.csv").read_text().splitlines()
    assert (lines[0], sorted(lines[1:])) == ("x,y,_change_type,_count", ["1,10,delete,1", "3,20,insert,2"])
    assert main(["diff", "-o", "again.csv"]) == 0
    assert sorted(Path("again.csv").read_text().splitlines()) == sorted(lines)


def test_diff_of_several_versions_says_which_version_each_change_belongs_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    applied(capsys, "R.1.csv", "S.1.csv", "R.2.csv", "--diff", "d.csv")
    lines = Path("d.csv").read_text().splitlines()
    assert lines[0] == "x,y,_change_type,_commit_version,_count"
    assert sorted(lines[1:]) == ["1,10,delete,3,1", "1,10,insert,2,1", "2,20,insert,2,2", "3,20,insert,3,2"]
    assert [line.split(",")[3] for line in lines[1:]] == ["2", "2", "3", "3"]
    assert sorted(path.name for path in Path().iterdir() if "d.csv" in path.name) == ["d.csv"]


def test_with_atomic_the_diff_is_that_of_the_one_version(capsys: pytest.CaptureFixture[str]) -> None:
    applied(capsys, "--atomic", "R.1.csv", "S.1.csv", "R.2.csv", "--diff", "d.csv")
    lines = Path("d.csv").read_text().splitlines()
    assert (lines[0], sorted(lines[1:])) == ("x,y,_change_type,_count", ["2,20,insert,2", "3,20,insert,2"])


def test_a_diff_covers_the_versions_before_a_rejected_log(capsys: pytest.CaptureFixture[str]) -> None:
    Path("S.bad.csv").write_text("_change_type,y\ndelete,99\n")
    read = applied(capsys, "R.1.csv", "S.1.csv", "S.bad.csv", "R.2.csv", "--diff", "d.csv", code=3)
    assert read["version"] == 2
    lines = Path("d.csv").read_text().splitlines()
    assert sorted(lines[1:]) == ["1,10,insert,2,1", "2,20,insert,2,2"]


def test_a_diff_where_nothing_is_new_has_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    applied(capsys, "R.1.csv", "S.1.csv")
    assert main(["apply", "R.1.csv", "--diff", "-"]) == 0
    assert capsys.readouterr().out == "x,y,_change_type,_count\n"


def test_another_state_applies_the_diffs_of_applies_once(capsys: pytest.CaptureFixture[str]) -> None:
    Path("next.yaml").write_text(
        "version: 1\nrelations: {pairs: {columns: {x: int64, y: int64}}}\n"
        'queries: {all: {sql: "SELECT x, y FROM pairs"}}\n'
    )
    assert main(["init", "next.yaml", "-s", "next"]) == 0
    Path("R.4.csv").write_text("x,y\n9,10\n")
    for name, logs in (("pairs.1.parquet", ["R.1.csv", "S.1.csv", "R.2.csv"]), ("pairs.2.arrow", ["R.4.csv"])):
        assert main(["apply", *logs, "--diff", name]) == 0
        assert applied(capsys, name, "-s", "next")["applied"][0]["version"] is not None
        assert applied(capsys, name, "-s", "next")["applied"][0]["version"] is None
    rows = []
    for state in (".dynq", "next"):
        assert main(["enum", "-s", state]) == 0
        rows.append(sorted(capsys.readouterr().out.splitlines()))
    assert rows[0] == rows[1]
    assert len(rows[0]) == 4
    assert main(["diff", "--since", "2", "-o", "pairs.3.parquet"]) == 0
    assert main(["apply", "pairs.3.parquet", "-s", "next"]) == 3, "it overlaps what was applied"


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["--diff", "d.xlsx"], 2, ".parquet .csv .jsonl .arrow"),
        (["--diff", "gone/d.csv"], 2, "there is no directory"),
        (["--diff", "d.csv", "--dry-run"], 2, "--dry-run"),
        (["--diff", "-", "--json"], 2, "stdout"),
        (["--diff", "d.csv", "-q", "nobody"], 2, "no query nobody"),
        (["-q", "pairs"], 2, "--diff FILE"),
    ],
)
def test_a_diff_that_cannot_be_written_is_refused_before_anything_is_applied(
    args: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files()
    assert main(["apply", "R.1.csv", *args]) == code
    assert said in capsys.readouterr().err
    assert files() == before
    assert not Path("d.csv").exists()


def test_the_query_of_a_diff_must_be_named_where_there_are_several(capsys: pytest.CaptureFixture[str]) -> None:
    Path("two.yaml").write_text(SPEC + '  left: {sql: "SELECT DISTINCT y FROM R"}\n')
    assert main(["init", "two.yaml", "-s", "two"]) == 0
    assert main(["apply", "R.1.csv", "-s", "two", "--diff", "d.csv"]) == 2
    assert "pairs, left" in capsys.readouterr().err
    assert main(["count", "-s", "two", "-q", "left"]) == 0
    assert capsys.readouterr().out == "0\n"
    assert main(["apply", "R.1.csv", "-s", "two", "--diff", "d.csv", "-q", "left"]) == 0
    lines = Path("d.csv").read_text().splitlines()
    assert (lines[0], sorted(lines[1:])) == ("y,_change_type", ["10,insert", "20,insert"])


def test_an_apply_that_is_killed_leaves_its_versions_and_no_part_of_a_diff(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        """The end of the process."""

    def dying(*_: Any) -> None:
        raise Died

    applied(capsys, "S.1.csv")
    with monkeypatch.context() as patch:
        patch.setattr("dynq_cli.session.changes.write", dying)
        with pytest.raises(Died):
            main(["apply", "R.1.csv", "R.2.csv", "--diff", "d.csv"])
    assert not Path("d.csv").exists()
    assert count(capsys) == (3, 4)
    assert main(["diff", "--since", "1"]) == 0
    assert sorted(capsys.readouterr().out.splitlines()[1:]) == ["2,20,insert,2", "3,20,insert,2"]


def extraction(day: str, *rows: str) -> None:
    folder = Path(day) / "S"
    folder.mkdir(parents=True)
    (folder / "part-0.csv").write_text("y\n" + "".join(f"{row}\n" for row in rows))
    (folder / "_SUCCESS").touch()


def test_extractions_whose_parts_have_the_same_names_are_all_applied(capsys: pytest.CaptureFixture[str]) -> None:
    extraction("day-1", "10")
    extraction("day-2", "20")
    extraction("day-3", "10")  # content and part names of day-1: still another extraction
    for day in ("day-1", "day-2", "day-3"):
        assert main(["apply", day, "R.1.csv"]) == 0
    assert count(capsys) == (4, 3)
    assert main(["apply", "day-1"]) == 0
    assert "skipped" in capsys.readouterr().err


def test_an_unknown_format_is_said_also_where_the_log_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["apply", "R.1.csv"]) == 0
    assert main(["apply", "R.1.csv", "--format", "nonsense"]) == 2
    assert "there is no format `nonsense`" in capsys.readouterr().err


def test_a_file_of_a_directory_that_is_no_log_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("in").mkdir()
    Path("in/S.txt").write_text("y\n10\n")
    Path("in/S.csv").write_text("y\n10\n")
    assert main(["apply", "in"]) == 0
    assert "in/S.txt is skipped: nothing says its format" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("int8", "128", "`128` is out of the range of int8"),
        ("int64", "9223372036854775808", "`9223372036854775808` is out of the range of int64"),
        ("float32", "1e300", "`1e300` is out of the range of float32"),
        (
            "decimal(5,2)",
            "1.555",
            "`1.555` does not fit decimal(5,2): at most 3 digits before the point and 2 after it",
        ),
        ("int64", "1.5", "`1.5` is not an int64: write digits with an optional minus"),
    ],
)
def test_a_number_that_does_not_fit_is_told_from_what_is_no_number(
    capsys: pytest.CaptureFixture[str], kind: str, text: str, said: str
) -> None:
    columns = f'{{columns: {{v: "{kind}"}}}}'
    Path("n.yaml").write_text(f"version: 1\nrelations: {{N: {columns}}}\nqueries: {{q: {{sql: SELECT v FROM N}}}}\n")
    Path("N.csv").write_text(f"v\n{text}\n")
    assert main(["init", "n.yaml", "-s", "numbers"]) == 0
    assert main(["apply", "N.csv", "-s", "numbers"]) == 3
    assert f"N.csv: row 1, column v: {said}" in capsys.readouterr().err
