"""`dynq alter`: what it says, what it refuses, and `run` before and after it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dynq_cli.cli.app import main
from tests.cli.conftest import BAG_AND_SET

pytestmark = pytest.mark.usefixtures("bag_and_set")
MORE = '  more: {sql: "SELECT y, count(*) AS n FROM R GROUP BY y"}\n'


def change(old: str, new: str) -> None:
    assert old in BAG_AND_SET
    Path("new.yaml").write_text(BAG_AND_SET.replace(old, new))


def test_what_is_done_is_told_first_as_a_rehearsal(capsys: pytest.CaptureFixture[str]) -> None:
    change("queries:\n", "queries:\n" + MORE)
    assert main(["alter", "new.yaml", "--dry-run"]) == 0
    said = capsys.readouterr().err
    assert "query more is new" in said and "R: built from 3 rows" in said and "would be at version 2" in said
    assert main(["count", "-q", "more"]) == 2
    assert main(["alter", "new.yaml", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["version"], told["built"], told["counts"]["more"]) == (2, True, {"rows": 2, "distinct": 2})
    assert told["bytes"] > 0 and told["queries"]["more"]["stored"] == 2
    assert main(["count", "-q", "more"]) == 0
    assert main(["alter", "new.yaml"]) == 0
    assert "nothing to do at version 2" in capsys.readouterr().err


def test_an_old_version_has_the_queries_that_it_had(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mark", "then"]) == 0
    change('  bag: {sql: "SELECT x FROM R"}\n', MORE)
    assert main(["alter", "new.yaml"]) == 0
    capsys.readouterr()
    assert main(["count", "-q", "bag", "--at", "then"]) == 0
    assert main(["enum", "-q", "bag", "--at", "then", "--expand"]) == 0
    assert main(["count", "--at", "then"]) == 0
    count, name, *rows, bag, bags, set_, sets = capsys.readouterr().out.split()
    assert (count, name, sorted(rows), bag, bags, set_, sets) == ("3", "x", ["1", "1", "2"], "bag", "3", "set", "2")
    for command in (["enum", "-q", "more", "--at", "1"], ["page", "-q", "more", "--at", "1"], ["diff", "-q", "more"]):
        assert main(command) == 3
        assert "version" in capsys.readouterr().err
    assert main(["count", "-q", "bag"]) == 2


def test_a_spec_that_is_wrong_or_refused_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for old, new in (
        ("SELECT x FROM R", "SELECT q FROM R"),
        ("x: int64", "x: string"),
        ('"SELECT x FROM R"}', '"SELECT x FROM R", require: {count: O(1), jth: O(1)}}'),
    ):
        change(old, new)
        assert main(["alter", "new.yaml"]) == 3
        assert "new.yaml:" in capsys.readouterr().err
    assert main(["alter", "nothing.yaml"]) == 2
    change("queries:\n", "queries:\n" + MORE)
    assert main(["alter", "new.yaml", "-s", "elsewhere"]) == 10
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == 1


def test_init_on_a_state_with_another_spec_says_how_to_alter_it(capsys: pytest.CaptureFixture[str]) -> None:
    change("queries:\n", "queries:\n" + MORE)
    assert main(["init", "new.yaml"]) == 2
    assert "dynq alter" in capsys.readouterr().err


def test_run_writes_all_rows_of_a_new_query_once_and_then_what_changed(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = 'outputs:\n  - {query: bag, kind: diff, path: "out/bag-{version}.csv"}\n'
    Path("first.yaml").write_text(BAG_AND_SET + outputs)
    Path("new.yaml").write_text(
        BAG_AND_SET.replace("queries:\n", "queries:\n" + MORE)
        + outputs
        + '  - {query: more, kind: diff, path: "out/more-{version}.csv"}\n'
    )
    Path("in").mkdir()
    assert main(["init", "first.yaml", "-s", "s"]) == 0
    Path("in/R.1.csv").write_text("x,y\n1,5\n2,5\n")
    assert main(["run", "in", "-s", "s"]) == 0
    assert main(["alter", "new.yaml", "-s", "s"]) == 0
    Path("in/R.2.csv").write_text("x,y\n3,6\n")
    assert main(["run", "in", "-s", "s"]) == 0
    Path("in/R.3.csv").write_text("x,y\n4,6\n")
    assert main(["run", "in", "-s", "s"]) == 0
    read = {p.name: sorted(p.read_text().splitlines()[1:]) for p in Path("out").iterdir()}
    # The run after the alteration first writes the outputs of its version.
    assert read["bag-1.csv"] == ["1,insert,1", "2,insert,1"]
    assert read["bag-2.csv"] == []
    assert read["more-2.csv"] == ["5,2,insert"]
    assert read["bag-3.csv"] == ["3,insert,1"]
    assert read["more-3.csv"] == ["6,1,insert"]
    assert read["more-4.csv"] == ["6,1,delete", "6,2,insert"]
