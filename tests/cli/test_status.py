"""`dynq status`: the facts of a state, at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.cli.app import main
from dynq_cli.storage import commit
from dynq_cli.storage.layout import checksum_of
from tests.conftest import ROOT

HEAVY = ("numba", "pyarrow", "duckdb", "sqlglot", "yaml", "lark", "pydantic")
pytestmark = pytest.mark.usefixtures("bag_and_set")


def test_version_counts_and_sizes_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 0
    captured = capsys.readouterr()
    lines = {line.partition("  ")[0]: line.partition("  ")[2].strip() for line in captured.out.splitlines()}
    assert lines["version"].startswith("1, of 20")
    assert lines["relation R"].startswith("3 rows; ")
    assert lines["query bag"].startswith("3 rows, 2 distinct; views of ")
    assert lines["query set"].startswith("2 rows; views of ")
    assert lines["outputs"] == "never written"
    assert lines["writer"] == "none"
    assert captured.err == ""


def test_json_has_the_same_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert read["version"] == 1
    assert {name: (q["rows"], q["distinct"]) for name, q in read["queries"].items()} == {"bag": (3, 2), "set": (2, 2)}
    assert all(q["bytes"] > 0 and q["stored_rows"] == 0 for q in read["queries"].values())
    assert read["relations"]["R"].items() >= {"rows": 3, "copies": 3}.items()
    assert read["outputs_at"] is None
    assert read["bytes"]["total"] >= read["bytes"]["snapshot"] > 0
    assert [entry["version"] for entry in read["recent"]] == [1, 0]
    assert read["applied"] >= read["made"]


def test_it_does_not_wait_for_an_engine() -> None:
    program = (
        "import sys; from dynq_cli.cli.app import main; code = main(['status']);"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "[]\n")


def test_where_nothing_is_there_is_no_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "-s", "elsewhere"]) == 10
    assert "dynq init" in capsys.readouterr().err


def test_a_damaged_manifest_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    content = bytearray(Path(".dynq/CURRENT").read_bytes())
    content[-5] ^= 1
    Path(".dynq/CURRENT").write_bytes(content)
    assert main(["status"]) == 12
    assert "CURRENT" in capsys.readouterr().err


def test_the_sizes_add_up_to_what_the_system_says(capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(2):  # so that there is a generation before
        with pytest.MonkeyPatch.context() as patch, dynq_cli.open() as view:
            patch.setattr(commit, "DUE_SECONDS", -1.0)
            view.apply({"R": pa.table({"x": [i], "y": [5]})})
    Path(".dynq/notes.txt").write_text("of somebody else")
    assert main(["status", "--json"]) == 0
    sizes = json.loads(capsys.readouterr().out)["bytes"]
    total, allocated = sizes.pop("total"), sizes.pop("allocated")
    assert sizes["dictionaries"] < sizes["snapshot"]
    assert sum(sizes.values()) - sizes["dictionaries"] == total
    before, _ = sorted(Path(".dynq").glob("snapshot-*"))
    assert sizes["before"] > before.stat().st_size and sizes["other"] == len("of somebody else")
    files = sorted(map(str, Path(".dynq").iterdir()))
    assert total == du("--bytes", files)
    assert allocated == 1024 * du("--block-size=1024", files)
    assert main(["status"]) == 0
    told = capsys.readouterr().out
    numbers = [line.partition("  ")[2].split()[0] for line in told.splitlines() if line.startswith(FILES)]
    assert sum(int(number.replace(",", "")) for number in numbers) == total
    assert f"{total:,} bytes in files" in told and "snapshot before" in told


FILES = ("snapshot", "write-ahead log", "logs before", "ledger", "spec and manifest", "other files")


def du(option: str, files: list[str]) -> int:
    told = subprocess.run(["du", "-c", option, *files], capture_output=True, text=True, check=True).stdout
    return int(told.splitlines()[-1].split()[0])


def test_a_state_whose_manifest_has_no_sizes_is_opened_and_gets_them_with_the_next_apply(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["mark", "here"]) == 0  # the manifest has all versions then
    current = Path(".dynq/CURRENT")
    read = json.loads(current.read_bytes().partition(b"\n")[2])
    del read["tables"]
    text = json.dumps(read).encode() + b"\n"
    current.write_bytes(checksum_of(text).encode() + b"\n" + text)
    assert main(["status"]) == 0
    assert "not known yet" in capsys.readouterr().out
    with dynq_cli.open() as view:
        view.apply({"R": pa.table({"x": [1], "y": [5]})})
    assert main(["status", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["relations"]["R"].items() >= {"rows": 3, "copies": 4}.items()
    assert told["queries"]["bag"]["bytes"] > 0


def test_the_page_on_running_has_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    page = (ROOT / "docs/cron.md").read_text()
    words = [*facts, *facts["bytes"], *next(iter(facts["relations"].values())), *next(iter(facts["queries"].values()))]
    assert [word for word in words if f"`{word}`" not in page] == []
