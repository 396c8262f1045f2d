"""Hostile input is refused within bounded memory: the address space of each command is limited here."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynq_cli.cli.app import main
from tests.conftest import ROOT

ADDRESSES = 2 << 30  # bytes: libraries take most of them before anything is read
SPEC = """\
version: 1
relations:
  t: {columns: {s: string}}
  n: {columns: {s: int64}}
queries:
  all: {rule: "all(s) :- t(s)"}
  numbers: {rule: "numbers(s) :- n(s)"}
"""


def limited(folder: Path, *args: str) -> tuple[subprocess.CompletedProcess[str], int]:
    """Run a command line with little memory; what it took at most, in bytes."""
    code = (
        "import atexit, resource\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({ADDRESSES}, {ADDRESSES}))\n"
        "from dynq_cli.__main__ import start\n"
        "status = open('/proc/self/status')\n"
        "atexit.register(lambda: print(next(line.split()[1] for line in status if line.startswith('VmHWM'))))\n"
        "start()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert "Traceback" not in ran.stderr
    return ran, int(ran.stdout.splitlines()[-1]) << 10


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "spec.yaml").write_text(SPEC)
    (folder / "t.0.csv").write_text("s\none\n")
    assert main(["init", str(folder / "spec.yaml"), "--state", str(folder / ".dynq"), "--quiet"]) == 0
    assert main(["apply", str(folder / "t.0.csv"), "--state", str(folder / ".dynq"), "--quiet"]) == 0
    return folder


def one_long_text(path: Path) -> None:
    """A few kilobytes that Arrow unpacks in one go; there could be two gigabytes in them."""
    values = pa.array(["y" * (100 << 20)], pa.large_string())
    pq.write_table(pa.table({"s": values}), path, compression="zstd", use_dictionary=False, write_statistics=False)


def one_line(path: Path) -> None:
    """Half a gigabyte without an end of line."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'{"s":"' if "jsonl" in path.name else b"s\n")
        for _ in range(128):
            file.write(bytes([97]) * (4 << 20))


def deep(path: Path) -> None:
    path.write_text('{"s":' + "[" * 1_000_000 + "\n")


def digits(path: Path) -> None:
    path.write_text('{"s":' + "9" * 3_000_000 + "}\n")


BOMBS: dict[str, tuple[Callable[[Path], None], str]] = {
    "t.text.parquet": (one_long_text, "t.text.parquet: column s has texts of 104,85"),
    "t.line.csv.gz": (one_line, "a row is longer than 4 MiB"),
    "t.line.jsonl.gz": (one_line, "line 1 is longer than 16 MiB"),
    "t.deep.jsonl": (deep, "line 1 is nested too deeply"),
    "n.digits.jsonl": (digits, "line 1 holds an integer of thousands of digits"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_and_changes_nothing(made: Path, name: str) -> None:
    make, said = BOMBS[name]
    make(made / name)
    assert (made / name).stat().st_size < 10 << 20
    before = files_of(made / ".dynq")
    ran, most = limited(made, "apply", name)
    (made / name).unlink()
    assert ran.returncode == 3, ran.stderr
    assert said in ran.stderr
    assert most < 500 << 20
    assert files_of(made / ".dynq") == before


def test_a_small_file_of_gigabytes_that_fit_is_applied_in_bounded_memory(made: Path, tmp_path: Path) -> None:
    """One text of 5,000 bytes, half a million times: the file is tiny, and the state learns one text."""
    indices = pa.array([0], pa.int32()).take(pa.array([0] * 500_000))
    table = pa.table({"s": pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 5_000]))})
    pq.write_table(table, made / "t.same.parquet")
    assert (made / "t.same.parquet").stat().st_size < 1 << 20
    ran, most = limited(made, "apply", "t.same.parquet", "--dry-run")
    assert ran.returncode == 0, ran.stderr
    assert most < 700 << 20


def test_more_new_texts_than_memory_has_room_for_are_an_error_that_changes_nothing(made: Path) -> None:
    """A few megabytes of Parquet with texts that all differ: the state would have to hold gigabytes."""
    path = made / "t.distinct.parquet"
    schema = pa.schema({"s": pa.string()})
    long = "x" * 20_000
    options = {"compression": "zstd", "use_dictionary": False, "write_statistics": False}
    with pq.ParquetWriter(path, schema, **options) as writer:
        for start in range(0, 80_000, 4_000):
            writer.write_table(pa.table({"s": [f"{long}{start + i}" for i in range(4_000)]}))
    assert path.stat().st_size < 10 << 20
    before = files_of(made / ".dynq")
    ran, _ = limited(made, "apply", path.name)
    path.unlink()
    assert ran.returncode == 1, ran.stderr
    assert "there is not enough memory" in ran.stderr
    assert files_of(made / ".dynq") == before
    assert limited(made, "count", "-q", "all")[0].returncode == 0


def laughs() -> str:
    names = "abcdefghi"
    made = ["a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    made += [f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in pairwise(names)]
    return "\n".join(made) + "\n"


YAMLS = {
    "billion laughs": laughs(),
    "deep nesting": "version: " + "[" * 200_000 + "\n",
    "deep nesting of maps": "".join(f"{' ' * i}a:\n" for i in range(3_000)),
    "huge scalar": "version: " + "1" * (64 << 20) + "\n",
    "huge key": "k" * (64 << 20) + ": 1\n",
    "many keys": "".join(f"k{i}: 1\n" for i in range(1_000_000)),
    "a Python object": "version: !!python/object/apply:os.system [exit]\n",
    "a recursive anchor": "version: &a [*a]\n",
}


@pytest.mark.parametrize("name", YAMLS)
def test_a_hostile_spec_is_refused_and_nothing_is_made(tmp_path: Path, name: str) -> None:
    (tmp_path / "spec.yaml").write_text(YAMLS[name])
    ran, most = limited(tmp_path, "init", "spec.yaml")
    assert ran.returncode == 3, ran.stderr[-500:]
    assert "spec.yaml" in ran.stderr
    assert len(ran.stderr) < 20_000
    assert most < 600 << 20
    assert os.listdir(tmp_path) == ["spec.yaml"]


OUT = SPEC + "outputs:\n  - {query: all, kind: count, path: PATH}\n"


@pytest.mark.parametrize("path", ["../count.json", "out/../../count.json", '"out/{query}/../../../x.json"'])
def test_an_output_above_its_directory_is_refused_at_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(OUT.replace("PATH", path))
    assert main(["init", "spec.yaml"]) == 3
    assert "spec.yaml:9:" in capsys.readouterr().err
    assert os.listdir() == ["spec.yaml"]


@pytest.mark.parametrize("path", ["out/count.json", "deep/er/count.json", ".dynq/plans.json", "inside/plans.json"])
def test_an_output_through_a_link_that_leads_out_or_into_the_state_is_refused_before_anything_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here/inbox").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    Path("spec.yaml").write_text(OUT.replace("PATH", path))
    Path("inbox/t.1.csv").write_text("s\none\n")
    Path("out").symlink_to("../elsewhere")
    Path("deep").mkdir()
    Path("deep/er").symlink_to(tmp_path / "elsewhere")
    Path("inside").symlink_to(".dynq")
    assert main(["init", "spec.yaml", "--quiet"]) == 0
    before = files_of(Path(".dynq"))
    assert main(["run", "inbox"]) == 3
    assert "spec.yaml:9:" in capsys.readouterr().err
    assert os.listdir(tmp_path / "elsewhere") == []
    after = files_of(Path(".dynq"))
    assert {name: after[name] for name in before if "lock" not in name} == {
        name: before[name] for name in before if "lock" not in name
    }


@pytest.mark.parametrize(
    ("link", "target"),
    [("in/t/part-1.csv", "secret.csv"), ("in/_batch.json", "secret.json"), ("in/more", "outside")],
)
def test_a_link_that_leads_out_of_an_extraction_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    made: Path,
    link: str,
    target: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in/t").mkdir(parents=True)
    Path("in/t/part-0.csv").write_text("s\nfirst\n")
    Path("in/t/_SUCCESS").touch()
    Path("secret.csv").write_text("s\nsecret\n")
    Path("secret.json").write_text('{"source": "db", "from": 1, "to": 2}')
    Path("outside").mkdir()
    Path(link).symlink_to(tmp_path / target)
    before = files_of(made / ".dynq")
    assert main(["apply", "in", "--state", str(made / ".dynq")]) == 3
    assert "symbolic link" in capsys.readouterr().err
    assert files_of(made / ".dynq") == before
