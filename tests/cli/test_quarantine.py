"""`dynq run --quarantine`: a bad log is set aside with its reason, whole, once; the others are applied."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from dynq_cli.cli.app import main
from dynq_cli.errors import RejectedError
from dynq_cli.session import quarantine
from dynq_cli.session.quarantine import Quarantine, quarantining
from dynq_cli.storage.lock import writing_to
from tests.conftest import ROOT
from tests.crash.history import QUERIES, History, Log
from tests.crash.scenes import rows_of
from tests.seeds import seeds

SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, y: int64}}
  S: {columns: {y: int64}}
queries:
  pairs: {sql: "SELECT x, R.y FROM R, S WHERE R.y = S.y"}
outputs:
  - {query: pairs, kind: count, path: out/pairs.json}
"""
RUN = ["run", "inbox", "--quarantine", "aside"]
IS_ROOT = os.geteuid() == 0


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SPEC)
    Path("inbox").mkdir()
    assert main(["init", "spec.yaml", "--quiet"]) == 0
    capsys.readouterr()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A directory on another file system."""
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system here")
    made = Path(tempfile.mkdtemp(dir=shared))
    yield made
    shutil.rmtree(made)


def put(name: str, text: str) -> Path:
    path = Path("inbox", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def put_good_and_bad() -> None:
    put("R.1.csv", "x,y\n1,10\n")
    put("R.2.csv", "x,y\n1,ten\n")
    put("R.3.csv", "x,y\n3,10\n")
    put("S.1.csv", "y\n10\n")
    put("S.2.csv", "y,_change_type\n99,delete\n")


def files(folder: str | Path) -> dict[str, str]:
    found = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in found}


def reason(name: str, folder: str | Path = "aside") -> str:
    said = json.loads((Path(folder) / f"{name}.reason.json").read_text())
    assert set(said) == {"log", "reason", "code", "time"}
    return str(said["reason"])


def count() -> int:
    return int(json.loads(Path("out/pairs.json").read_text())["rows"])


def test_bad_logs_are_set_aside_and_the_others_applied(capsys: pytest.CaptureFixture[str]) -> None:
    put_good_and_bad()
    assert main(RUN) == 3
    told = capsys.readouterr().err
    assert "inbox/R.2.csv: row 1, column y" in told
    assert "set aside as aside/R.2.csv" in told
    assert "set aside into aside: inbox/R.2.csv, inbox/S.2.csv. The other logs are applied" in told
    assert sorted(files("inbox")) == ["R.1.csv", "R.3.csv", "S.1.csv"]
    assert count() == 2
    assert "column y: `ten` is not an int64" in reason("R.2.csv")
    assert "deletes a row that is not there" in reason("S.2.csv")
    assert files("aside")["R.2.csv"] == "x,y\n1,ten\n"
    assert main(RUN) == 0, "what was set aside blocks no run any more"
    Path("inbox/R.2.csv").write_text(Path("aside/R.2.csv").read_text().replace("ten", "10"))
    assert main(RUN) == 0
    assert count() == 3


def test_json_and_json_messages_say_what_was_set_aside(capsys: pytest.CaptureFixture[str]) -> None:
    put_good_and_bad()
    assert main([*RUN, "--json", "--log-format", "json"]) == 3
    out, err = capsys.readouterr()
    read = json.loads(out)
    assert [outcome["path"] for outcome in read["applied"]] == ["inbox/R.1.csv", "inbox/R.3.csv", "inbox/S.1.csv"]
    assert [(r["path"], r["set_aside"]) for r in read["refused"]] == [
        ("inbox/R.2.csv", "aside/R.2.csv"),
        ("inbox/S.2.csv", "aside/S.2.csv"),
    ]
    assert read["written"] == ["out/pairs.json"]
    assert "set aside into aside" in read["rejected"]
    warned = [json.loads(line) for line in err.splitlines() if '"warning"' in line]
    assert [(w["code"], w["path"], w["set_aside"]) for w in warned] == [
        ("rejected", "inbox/R.2.csv", "aside/R.2.csv"),
        ("rejected", "inbox/S.2.csv", "aside/S.2.csv"),
    ]


def test_an_extraction_is_set_aside_as_a_whole() -> None:
    put("S.csv", "y\n10\n")
    for name in ("R", "b7/R"):
        put(f"{name}/part-0.csv", "x,y\n1,10\n")
        put(f"{name}/part-1.csv", "x,y\n1,ten\n")
    put("R/_SUCCESS", "")
    put("b7/_SUCCESS", "")
    put("b7/S/part-0.csv", "y\n10\n")
    assert main(RUN) == 3
    assert sorted(files("inbox")) == ["S.csv"]
    assert sorted(files("aside")) == [
        "R.reason.json",
        "R/_SUCCESS",
        "R/part-0.csv",
        "R/part-1.csv",
        "_QUARANTINE",
        "b7.reason.json",
        "b7/R/part-0.csv",
        "b7/R/part-1.csv",
        "b7/S/part-0.csv",
        "b7/_SUCCESS",
    ]
    assert count() == 0


def test_finished_relations_in_an_inbox_are_logs_of_their_own_whatever_comes_beside_them() -> None:
    put("R/part-0.csv", "x,y\n1,10\n")
    put("R/_SUCCESS", "")
    put("S/part-0.csv", "y\n10\n")
    put("S/_SUCCESS", "")
    assert main(["run", "inbox"]) == 0
    assert count() == 1
    put("S.csv", "y\n11\n")
    assert main(["run", "inbox"]) == 0
    assert count() == 1, "the relations that were applied are known again"


def test_what_is_refused_by_its_place_is_set_aside_but_an_unfinished_job_is_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    put("S.csv", "y\n10\n")
    put("R/part-0.csv", "x,y\n1,10\n")
    put("deep/day=1/R.csv", "x,y\n1,10\n")
    Path("inbox/link.csv").symlink_to("../spec.yaml")
    put("table/_delta_log/0.json", "{}")
    put("strange.csv", "x,y\n1,10\n")
    assert main(RUN) == 3
    told = capsys.readouterr().err
    assert "inbox/R has no _SUCCESS: the job that wrote it did not finish; left where it is" in told
    assert "not finished, and left in inbox: inbox/R" in told
    assert sorted(files("inbox")) == ["R/part-0.csv", "S.csv"]
    assert os.readlink("aside/link.csv") == "../spec.yaml"
    assert "partitionBy" in reason("deep/day=1")
    assert "Delta table" in reason("table")
    assert "nothing says which relation" in reason("strange.csv")
    put("R/_SUCCESS", "")
    assert main(RUN) == 0
    assert count() == 1


def test_earlier_logs_of_the_same_name_are_kept() -> None:
    texts = ["x\nfirst\n", "x\nsecond\n", "x\nthird\n"]
    for text in texts:
        put("R/1.csv", text)
        assert main(RUN) == 3
    assert [files("aside")[f"{place}R/1.csv"] for place in ("", "2/", "3/")] == texts
    put("R/1.csv", texts[1])
    assert main(RUN) == 3
    assert not files("inbox")
    assert sorted(name for name in files("aside") if name.endswith("R/1.csv")) == ["2/R/1.csv", "3/R/1.csv", "R/1.csv"]
    put("R.csv.reason.json", "no json")
    assert main(RUN) == 3
    put("R.csv", "x\n1\n")
    assert main(RUN) == 3
    assert files("aside")["R.csv.reason.json"] == "no json", "a log with the name of a reason is not overwritten"
    assert files("aside")["2/R.csv"] == "x\n1\n"


def test_a_file_where_a_directory_has_to_be_is_kept() -> None:
    put("day.csv", "x\n1\n")
    assert main(RUN) == 3
    Path("inbox/day.csv").mkdir()
    put("day.csv/R.csv", "x\n1\n")
    assert main(RUN) == 3
    assert files("aside")["day.csv"] == "x\n1\n"
    assert files("aside")["2/day.csv/R.csv"] == "x\n1\n"


def test_other_content_under_a_known_name_and_batches_that_overlap_are_set_aside() -> None:
    put("S.1.csv", "y\n10\n")
    assert main(RUN) == 0
    put("S.1.csv", "y\n11\n")
    put("b1/_batch.json", '{"source": "shop", "from": 0, "to": 5}')
    put("b1/_SUCCESS", "")
    put("b1/R/part-0.csv", "x,y\n1,10\n")
    put("b2/_batch.json", '{"source": "shop", "from": 3, "to": 9}')
    put("b2/_SUCCESS", "")
    put("b2/R/part-0.csv", "x,y\n2,10\n")
    put("b3/_batch.json", '{"source": "shop", "from": 5, "to": 9}')
    put("b3/_SUCCESS", "")
    put("b3/R/part-0.csv", "x,y\n3,10\n")
    assert main(RUN) == 3
    assert "a log named S.1.csv with other content" in reason("S.1.csv")
    assert "overlaps the batch applied already" in reason("b2")
    assert sorted(os.listdir("inbox")) == ["b1", "b3"]
    assert count() == 2


def test_a_log_that_was_refused_half_way_leaves_nothing_in_the_ones_behind_it() -> None:
    put("R.1.csv", "x,y\n1,10\n")
    put("R.2.csv", "x,y,_commit_version\n2,10,1\n3,10,2\n4,99,3\n5,x,4\n")
    put("R.3.csv", "x,y,_change_type,_commit_version\n6,10,insert,1\n7,10,insert,2\n77,10,delete,3\n")
    put("S.1.csv", "y\n10\n")
    assert main(RUN) == 3
    assert sorted(os.listdir("inbox")) == ["R.1.csv", "S.1.csv"]
    assert count() == 1
    assert main(["check", "--read-data", "--quiet"]) == 0
    assert main(["verify", "--quiet"]) == 0


def test_across_file_systems_logs_are_copied_and_then_removed(elsewhere: Path) -> None:
    put_good_and_bad()
    put("b7/_SUCCESS", "")
    put("b7/R/part-0.csv", "x\n1\n")
    run = ["run", "inbox", "--quarantine", str(elsewhere / "aside")]
    assert main(run) == 3
    assert files(elsewhere / "aside").keys() >= {
        "R.2.csv",
        "S.2.csv",
        "b7/R/part-0.csv",
        "b7/_SUCCESS",
        "b7.reason.json",
    }
    assert sorted(os.listdir("inbox")) == ["R.1.csv", "R.3.csv", "S.1.csv"]
    assert main(run) == 0


def test_a_quarantine_in_the_inbox_is_not_read_as_logs(capsys: pytest.CaptureFixture[str]) -> None:
    put_good_and_bad()
    assert main(["run", "inbox", "--quarantine", "inbox/bad"]) == 3
    Path("inbox/bad/R.2.csv").write_text("x,y\n1,10\n")  # mended, and not yet put back
    assert main(["run", "inbox", "--quarantine", "inbox/bad"]) == 0
    assert main(["run", "inbox"]) == 0, "not by a run without the option either"
    assert main(["apply", "inbox"]) == 0
    assert count() == 2
    capsys.readouterr()
    assert main(["apply", "inbox/bad"]) == 2
    assert "holds logs that were set aside" in capsys.readouterr().err
    assert main(["apply", "inbox/bad/R.2.csv"]) == 0


@pytest.mark.parametrize("place", ["inbox", ".", ".dynq", ".dynq/aside", "spec.yaml", "full"])
def test_a_directory_that_is_no_quarantine_is_refused(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    put_good_and_bad()
    Path("full").mkdir()
    Path("full/R.csv").write_text("x,y\n1,10\n")
    assert main(["run", "inbox", "--quarantine", place]) == 2
    assert f"--quarantine {place}" in capsys.readouterr().err
    assert len(files("inbox")) == 5
    assert not Path("out").exists()


@pytest.mark.skipif(IS_ROOT, reason="root may write everywhere")
def test_from_an_inbox_that_is_read_only_logs_are_copied(capsys: pytest.CaptureFixture[str]) -> None:
    put_good_and_bad()
    Path("inbox").chmod(0o555)
    try:
        for _ in "12":
            assert main(RUN) == 3
            assert "inbox/R.2.csv could not leave the inbox: Permission denied" in capsys.readouterr().err
    finally:
        Path("inbox").chmod(0o755)
    assert sorted(name for name in files("aside") if name.endswith(".csv")) == ["R.2.csv", "S.2.csv"]
    assert count() == 2
    assert main(RUN) == 3
    assert sorted(files("inbox")) == ["R.1.csv", "R.3.csv", "S.1.csv"]


def test_what_is_added_to_a_log_while_it_is_copied_is_not_removed(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = put("R.1.csv", "x,y\n1,ten\n")
    copy = quarantine._copy

    def copy_while_written_to(log: Path, target: Path) -> None:
        copy(log, target)
        with log.open("a") as file:
            file.write("2,20\n")

    run = ["run", "inbox", "--quarantine", str(elsewhere / "aside")]
    with monkeypatch.context() as patch:
        patch.setattr(quarantine, "_copy", copy_while_written_to)
        assert main(run) == 3
    assert "could not leave the inbox: it was changed while it was copied" in capsys.readouterr().err
    assert bad.read_text() == "x,y\n1,ten\n2,20\n"
    assert main(run) == 3
    assert not bad.exists()
    assert files(elsewhere / "aside")["2/R.1.csv"] == "x,y\n1,ten\n2,20\n"


def test_a_rehearsal_names_the_place_beside_a_log_that_is_set_aside_already(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for text in ("x,y\n1,ten\n", "x,y\n1,eleven\n"):
        put("R.1.csv", text)
        assert main([*RUN, "--dry-run"]) == 3
        told = capsys.readouterr().err
        assert main(RUN) == 3
        (place,) = re.findall(r"set aside as (\S+)", capsys.readouterr().err)
        assert f"would be set aside as {place}" in told
    assert place == "aside/2/R.1.csv"


def test_infer_reads_no_logs_that_were_set_aside(capsys: pytest.CaptureFixture[str]) -> None:
    put("R.1.csv", "x,y\n1,ten\n")
    assert main(RUN) == 3
    assert main(["infer", "aside"]) == 2
    assert "aside holds logs that were set aside" in capsys.readouterr().err


def test_metrics_into_a_directory_are_refused_before_anything_is_applied(capsys: pytest.CaptureFixture[str]) -> None:
    put("R.1.csv", "x,y\n1,10\n")
    Path("run.prom").mkdir()
    assert main(["run", "inbox", "--metrics", "run.prom"]) == 2
    assert "cannot write run.prom: it is a directory" in capsys.readouterr().err
    assert not Path("out").exists()


def test_links_to_nothing_and_to_the_inbox_itself_are_set_aside(capsys: pytest.CaptureFixture[str]) -> None:
    put("R.1.csv", "x,y\n1,10\n")
    put("S.1.csv", "y\n10\n")
    Path("inbox/gone").symlink_to("nothing")
    Path("inbox/itself").symlink_to(".")
    Path("inbox/loop").symlink_to("loop")
    assert main([*RUN, "--dry-run"]) == 3
    assert main(RUN) == 3
    assert "inbox/gone, inbox/itself, inbox/loop. The other logs are applied" in capsys.readouterr().err
    assert sorted(os.listdir("inbox")) == ["R.1.csv", "S.1.csv"]
    assert count() == 1
    assert all(Path("aside", name).is_symlink() for name in ("gone", "itself", "loop"))
    assert main(RUN) == 0


@pytest.mark.skipif(IS_ROOT, reason="root may read everything")
def test_a_log_that_may_not_be_read_is_set_aside(elsewhere: Path) -> None:
    put("R.1.csv", "x,y\n1,10\n").chmod(0)
    assert main(RUN) == 3
    assert "Permission denied" in reason("R.1.csv")
    put("R.1.csv", "x,y\n1,10\n").chmod(0)
    assert main(["run", "inbox", "--quarantine", str(elsewhere / "aside")]) == 3
    assert "Permission denied" in reason("R.1.csv", elsewhere / "aside"), "it cannot be copied, but the reason is there"


def test_a_view_over_its_budget_sets_nothing_aside(capsys: pytest.CaptureFixture[str]) -> None:
    rule = '  far: {rule: "far(x, z) :- R(x, y), R(z, y)", max_view_rows: 3}'
    Path("spec.yaml").write_text(SPEC.replace("outputs:", f"{rule}\noutputs:"))
    assert main(["init", "spec.yaml", "-s", "small", "--quiet"]) == 0
    put("R.1.csv", "x,y\n" + "".join(f"{n},1000\n" for n in range(9)))
    put("S.1.csv", "y\n1000\n")
    capsys.readouterr()
    assert main([*RUN, "-s", "small"]) == 3
    assert "max_view_rows" in capsys.readouterr().err
    assert sorted(files("inbox")) == ["R.1.csv", "S.1.csv"]
    assert sorted(files("aside")) == ["_QUARANTINE"]


def test_a_state_in_use_or_damaged_sets_nothing_aside() -> None:
    put_good_and_bad()
    with writing_to(Path(".dynq")):
        assert main(RUN) == 11
    Path(".dynq/CURRENT").write_bytes(b"damage")
    assert main(RUN) == 12
    assert len(files("inbox")) == 5
    assert not Path("aside").exists() or sorted(files("aside")) == ["_QUARANTINE"]


def test_an_inbox_that_is_itself_one_extraction_is_not_set_aside(capsys: pytest.CaptureFixture[str]) -> None:
    put("R/part-0.csv", "x\n1\n")
    put("_SUCCESS", "")
    assert main(RUN) == 3
    assert "it is the inbox itself, so it is not set aside" in capsys.readouterr().err
    assert sorted(files("inbox")) == ["R/part-0.csv", "_SUCCESS"]


def test_a_copy_that_a_killed_run_left_is_completed(tmp_path: Path) -> None:
    put("R.csv", "x\n1\n")
    put("b7/R.csv", "x\n1\n")
    error = RejectedError("bad")
    Path("aside").mkdir()
    with quarantining("aside", "inbox", Path(".dynq")) as aside:
        assert isinstance(aside, Quarantine)
        shutil.copy("inbox/R.csv", "aside/R.csv")
        shutil.copytree("inbox/b7", "aside/b7")
        assert aside.take("inbox/R.csv", error).path == "aside/R.csv"
        assert aside.take("inbox/b7", error).path == "aside/b7"
    assert files("inbox") == {}
    Path("inbox/.set-aside.x").mkdir()
    Path("inbox/.set-aside.x/part-0.csv").write_text("")
    with quarantining("aside", "inbox", Path(".dynq")):
        assert os.listdir("inbox") == []


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    put_good_and_bad()
    put("R.0.csv", "x,y,_commit_version\n2,10,1\n3,10,2\n4,99,3\n5,x,4\n")  # refused when half of it was tried
    put("S.3.csv", "y,_change_type\n10,delete\n")  # right only behind S.1.csv
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert main([*RUN, "--dry-run", "--json"]) == 3
    out, err = capsys.readouterr()
    assert "inbox/S.3.csv: would be version 4, 0 inserted, 0 replaced, 1 deleted" in err
    assert "would be set aside as aside/R.2.csv" in err
    assert "would write out/pairs.json" in err
    assert "to be set aside into aside: inbox/R.0.csv, inbox/R.2.csv, inbox/S.2.csv. The other logs would be" in err
    read = json.loads(out)
    assert read["dry_run"] is True
    assert [outcome["version"] for outcome in read["applied"]] == [1, 2, 3, 4]
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    assert main([*RUN, "--json"]) == 3
    real = json.loads(capsys.readouterr().out)
    for told in (read, real):
        for outcome in told["applied"]:
            del outcome["warnings"]
    assert real["applied"] == read["applied"]
    assert real["refused"] == read["refused"]


def test_a_dry_run_without_a_quarantine_stops_where_a_run_would(capsys: pytest.CaptureFixture[str]) -> None:
    put_good_and_bad()
    assert main(["run", "inbox", "--dry-run"]) == 3
    told = capsys.readouterr().err
    assert "inbox/R.1.csv: would be version 1" in told and "R.3.csv" not in told
    Path("inbox/R.2.csv").unlink()
    Path("inbox/S.2.csv").unlink()
    with writing_to(Path(".dynq")):
        assert main(["run", "inbox", "--dry-run"]) == 0, "no lock is needed"
    assert not Path("out").exists()


def samples(path: str = "m.prom") -> dict[str, float]:
    lines = [line for line in Path(path).read_text().splitlines() if not line.startswith("#")]
    return {
        name.replace('state=".dynq"', "").replace("{}", "").replace("{,", "{"): float(value)
        for name, value in (line.rsplit(" ", 1) for line in lines)
    }


def test_metrics_say_what_a_run_did() -> None:
    put_good_and_bad()
    assert main([*RUN, "--metrics", "m.prom"]) == 3
    found = samples()
    assert found["dynq_run_exit_code"] == 3
    assert [found[f'dynq_run_logs{{outcome="{word}"}}'] for word in ("applied", "refused", "skipped")] == [3, 2, 0]
    assert [found[f'dynq_run_rows{{change="{word}"}}'] for word in ("inserted", "replaced", "deleted")] == [3, 0, 0]
    assert (found["dynq_state_version"], found["dynq_state_outputs_version"]) == (3, 3)
    assert (found['dynq_query_rows{query="pairs"}'], found['dynq_relation_rows{relation="R"}']) == (2, 2)
    assert main([*RUN, "--metrics", "m.prom"]) == 0
    assert samples()["dynq_run_exit_code"] == 0
    assert samples()['dynq_run_logs{outcome="skipped"}'] == 3
    kept = Path("m.prom").read_bytes()
    with writing_to(Path(".dynq")):
        assert main([*RUN, "--metrics", "m.prom"]) == 11
    assert Path("m.prom").read_bytes() == kept, "that of the run before stays"
    Path(".dynq/CURRENT").write_bytes(b"damage")
    assert main([*RUN, "--metrics", "m.prom"]) == 12
    assert samples()["dynq_run_exit_code"] == 12
    assert "dynq_state_version" not in samples()


def test_metrics_that_cannot_be_written_are_said_before_anything_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    put_good_and_bad()
    assert main([*RUN, "--metrics", "nowhere/m.prom"]) == 2
    assert main([*RUN, "--metrics", "m.prom", "--dry-run"]) == 2
    assert len(files("inbox")) == 5


def test_metrics_are_the_text_that_prometheus_reads() -> None:
    put("R.1.csv", "x,y\n1,10\n")
    assert main(["init", "spec.yaml", "-s", 'odd "name', "--quiet"]) == 0
    assert main(["run", "inbox", "-s", 'odd "name', "--metrics", "m.prom"]) == 0
    text = Path("m.prom").read_text()
    sample = re.compile(r'dynq_[a-z_]+\{state="odd \\"name"(,[a-z]+="[^"\\]*")*\} -?[0-9.]+')
    families = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(set(families)) == len(families)
    assert [line for line in text.splitlines() if not line.startswith("#") and not sample.fullmatch(line)] == []
    page = (ROOT / "docs/cron.md").read_text()
    assert [name for name in families if name not in page] == []


def test_a_reason_that_is_put_back_with_its_log_is_no_log(capsys: pytest.CaptureFixture[str]) -> None:
    put("R/1.csv", "x,y\n1,ten\n")
    assert main(RUN) == 3
    shutil.copytree("aside/R", "inbox/R", dirs_exist_ok=True)
    put("R/1.csv", "x,y\n1,10\n")
    put("R/2.csv.reason.json", '{"x": 1, "y": 10}\n')  # of another make: a log
    assert main(RUN) == 0
    assert main(["apply", "inbox"]) == 0
    assert "1.csv.reason.json is skipped: it says why a log was set aside" in capsys.readouterr().err
    assert main(["dump", "R", "-o", "r.csv"]) == 0
    assert Path("r.csv").read_text() == "x,y,_count\n1,10,2\n"


@pytest.mark.parametrize("seed", seeds(6))
def test_bad_logs_among_good_ones_change_nothing(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Logs that are refused in their last row, many commits in, or as a whole; what is kept is what the others make."""
    chance = Random(seed)
    history = History(seed, 14)
    folder = tmp_path / "history"
    folder.mkdir()
    monkeypatch.chdir(folder)
    history.write(folder)
    bad = []
    for log in history.logs:
        if chance.random() < 0.5:
            name, _, ending = log.name.partition(".")
            relation = log.relation
            changes = [*log.changes, ("delete", (-1, "nobody") if relation == "R" else ("nobody", 0))]
            text = Log(log.name, relation, tuple(changes)).text()
            if ending == "csv" and chance.random() < 0.5:  # each row a commit
                head, *rows = text.splitlines()
                lines = [f"{head},_commit_version", *(f"{row},{1000 + n}" for n, row in enumerate(rows))]
                text = "\n".join(lines) + "\n"
            place = (
                folder
                / "logs"
                / f"{name}{chance.choice(['', '.bad'])}"
                / f"{relation}.{chance.choice(['0.bad', 'bad'])}.{ending}"
            )
            place.parent.mkdir(exist_ok=True)
            place.write_text(text if chance.random() < 0.8 else "no log\nat all\n")
            bad.append(str(place.relative_to(folder / "logs")))
    assert main([*history.init, "--quiet"]) == 0
    told = []
    for option in (["--dry-run"], []):
        capsys.readouterr()
        assert main(["run", "logs", "--quarantine", "aside", "--quiet", "--json", *option]) == (3 if bad else 0)
        read = json.loads(capsys.readouterr().out)
        told.append(([(o["path"], o["version"], o["inserted"]) for o in read["applied"]], read["refused"]))
    assert told[0] == told[1], "a dry run says what the run does"
    found = [name for name in files("aside") if not name.endswith((".reason.json", "_QUARANTINE"))]
    assert sorted(found) == sorted(bad)
    for query in QUERIES:
        assert main(["enum", "-q", query, "-o", f"{query}.jsonl", "--quiet"]) == 0
        assert rows_of(Path(f"{query}.jsonl").read_text()) == history.seen[-1][query]
    assert main(["check", "--read-data", "--quiet"]) == 0
    assert main(["verify", "--quiet"]) == 0
