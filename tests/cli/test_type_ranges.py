"""The table of types in `docs/spec.md` holds: first and last values go in and come out, one past them is refused."""

from __future__ import annotations

import base64
import json
import re
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dynq_cli
from dynq_cli.cli.app import main
from dynq_cli.errors import RejectedError
from dynq_cli.io.infer import infer_spec
from dynq_cli.io.results.table import text_table

PAGE = Path(__file__).parents[2] / "docs" / "spec.md"
ROW = re.compile(r"^\| `([a-z0-9(),]+)` \| `([^`]+)` \| `([^`]+)` \|", re.MULTILINE)
# Types without a first and last value stand here with some of theirs, as CSV has them.
RANGES = {kind: [first, last] for kind, first, last in ROW.findall(PAGE.read_text("utf-8"))}
RANGES |= {"string": ['""', "\U0010ffff"], "binary": ['""', base64.b64encode(b"\xff" * 3).decode()]}
LAST_FLOAT32 = (2 - 2**-23) * 2.0**127
LAST_FLOAT64 = (2 - 2**-52) * 2.0**1023


def moments(numbers: list[int], stored: pa.DataType, kind: pa.DataType) -> pa.Array:
    return pa.array(numbers, stored).view(kind)


ARROW = {
    "bool": pa.array([False, True]),
    "int8": pa.array([-(2**7), 2**7 - 1], pa.int8()),
    "int16": pa.array([-(2**15), 2**15 - 1], pa.int16()),
    "int32": pa.array([-(2**31), 2**31 - 1], pa.int32()),
    "int64": pa.array([-(2**63) + 1, 2**63 - 1], pa.int64()),
    "float32": pa.array([-LAST_FLOAT32, LAST_FLOAT32], pa.float32()),
    "float64": pa.array([-LAST_FLOAT64, LAST_FLOAT64], pa.float64()),
    "decimal(4,1)": pa.array([Decimal("-999.9"), Decimal("999.9")], pa.decimal128(4, 1)),
    "string": pa.array(["", "\U0010ffff"]),
    "binary": pa.array([b"", b"\xff" * 3]),
    "date": moments([-(2**31), 2**31 - 1], pa.int32(), pa.date32()),
    "time": moments([0, 86_400_000_000 - 1], pa.int64(), pa.time64("us")),
    "timestamp": moments([-(2**63) + 1, 2**63 - 1], pa.int64(), pa.timestamp("us")),
}
PAST_TEXTS = {
    "int8": ["-129", "128"],
    "int16": ["-32769", "32768"],
    "int32": ["-2147483649", "2147483648"],
    "int64": ["-9223372036854775808", "9223372036854775808"],
    "float32": ["-3.4028236e+38", "3.4028236e+38"],
    "float64": ["-1.7976931348623159e+308", "1.7976931348623159e+308"],
    "decimal(4,1)": ["-1000.0", "1000.0"],
    "date": ["-5877641-06-22", "5881580-07-12"],
    "time": ["-00:00:01", "24:00:00"],
    "timestamp": ["-290308-12-21T19:59:05.224192", "294247-01-10T04:00:54.775808"],
}
MILLISECONDS = 86_400_000
PAST_ARROW = {
    "int8": pa.array([-129, 128], pa.int64()),
    "int16": pa.array([-32769, 32768], pa.int64()),
    "int32": pa.array([-(2**31) - 1, 2**31], pa.int64()),
    "int64": pa.array([Decimal(-(2**63)), Decimal(2**63)], pa.decimal128(20, 0)),
    "float32": pa.array([-3.5e38, 3.5e38], pa.float64()),
    "decimal(4,1)": pa.array([Decimal("-1000.0"), Decimal("1000.0")], pa.decimal128(5, 1)),
    "date": moments([(-(2**31) - 1) * MILLISECONDS, 2**31 * MILLISECONDS], pa.int64(), pa.date64()),
    "time": moments([-1, 86_400_000_000], pa.int64(), pa.time64("us")),
    "timestamp": moments([-(2**63) // 1000 - 1, 2**63 // 1000 + 1], pa.int64(), pa.timestamp("ms")),
}
KINDS = list(ARROW)


def as_json(kind: str, text: str) -> Any:
    plain = "" if text == '""' else text
    return text == "true" if kind == "bool" else int(text) if kind.startswith("int") else plain


def test_the_page_and_this_file_name_the_same_types() -> None:
    assert set(RANGES) == set(ARROW)


def test_first_and_last_values_come_out_of_every_format_as_they_went_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = [f"c{i}" for i in range(len(KINDS))]
    columns = ", ".join(f'{name}: "{kind}"' for name, kind in zip(names, KINDS, strict=True))
    ways = ("from_csv", "from_jsonl", "from_parquet", "from_library")
    relations = "".join(f"  {way}: {{columns: {{id: int64, {columns}}}, key: [id]}}\n" for way in ways)
    queries = "".join(f"  q_{way}: {{sql: 'SELECT id, {', '.join(names)} FROM {way} ORDER BY id'}}\n" for way in ways)
    Path("spec.yaml").write_text(f"version: 1\nrelations:\n{relations}queries:\n{queries}", "utf-8")
    lines = [",".join([str(row), *(RANGES[kind][row] for kind in KINDS)]) for row in range(2)]
    objects = [
        {"id": row, **{n: as_json(k, RANGES[k][row]) for n, k in zip(names, KINDS, strict=True)}} for row in range(2)
    ]
    table = pa.table({"id": [0, 1], **dict(zip(names, ARROW.values(), strict=True))})
    Path("from_csv.csv").write_text("\n".join([",".join(["id", *names]), *lines]) + "\n", "utf-8")
    Path("from_jsonl.jsonl").write_text("".join(json.dumps(o) + "\n" for o in objects), "utf-8")
    pq.write_table(table, "from_parquet.parquet")

    assert main(["init", "spec.yaml", "-s", "state"]) == 0
    assert main(["apply", "-s", "state", "from_csv.csv", "from_jsonl.jsonl", "from_parquet.parquet"]) == 0
    with dynq_cli.open("state") as view:
        view.apply(table, "from_library")
        shown = text_table(iter(view.enum("q_from_library")), view.schema("q_from_library"), 10)
    assert RANGES["date"][1] in shown.text and RANGES["timestamp"][0] in shown.text
    for way in ways:
        for form in ("csv", "parquet", "jsonl", "arrow"):
            assert main(["enum", "-s", "state", "-q", f"q_{way}", "-o", f"{way}.out.{form}"]) == 0
        written = Path(f"{way}.out.csv").read_text("utf-8").splitlines()[1:]
        assert [line.removesuffix(",1") for line in written] == lines, way
        read = pq.read_table(f"{way}.out.parquet").drop_columns("_count")
        assert read.cast(table.schema).equals(table), way
    assert main(["verify", "-s", "state"]) == 0


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("ranges")
    relations = "".join(f'  r{i}: {{columns: {{id: int64, v: "{kind}"}}}}\n' for i, kind in enumerate(KINDS))
    spec = f"version: 1\nrelations:\n{relations}queries:\n  q: {{sql: 'SELECT id, v FROM r1'}}\n"
    (place / "spec.yaml").write_text(spec, "utf-8")
    dynq_cli.create(place / "spec.yaml", place / "state").close()
    return place


@pytest.mark.parametrize("kind", PAST_TEXTS)
def test_a_value_past_the_range_is_refused_by_row_and_column(
    kind: str, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    relation, directory = f"r{KINDS.index(kind)}", state / "state"
    good = RANGES[kind][0]
    for text in PAST_TEXTS[kind]:
        (state / f"{relation}.bad.csv").write_text(f"id,v\n1,{good}\n2,{text}\n", "utf-8")
        rows = [{"id": 1, "v": good}, {"id": 2, "v": text}]
        (state / f"{relation}.bad.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        for form in ("csv", "jsonl"):
            assert main(["apply", "-s", str(directory), str(state / f"{relation}.bad.{form}")]) == 3
            said = capsys.readouterr().err
            assert "row 2, column v: " in said, said
    values = PAST_ARROW.get(kind, pa.array([], pa.float64()))
    for at in range(len(values)):
        table = pa.table({"id": [2], "v": values.slice(at, 1)})
        with dynq_cli.open(directory) as view, pytest.raises(RejectedError, match="row 1, column v: "):
            view.apply(table, relation)
        if kind != "date":  # Parquet has no date64: pyarrow would write another day
            pq.write_table(table, state / f"{relation}.bad.parquet")
            assert main(["apply", "-s", str(directory), str(state / f"{relation}.bad.parquet")]) == 3
            assert "row 1, column v: " in capsys.readouterr().err
    with dynq_cli.open(directory) as view:
        assert view.version == 0


FAR = moments([2**31 - 1], pa.int32(), pa.date32())


def test_messages_and_row_lookups_take_years_that_python_lacks(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "version: 1\nrelations:\n  keyed: {columns: {d: date}, key: [d]}\n  bag: {columns: {t: timestamp}}\nqueries:\n"
        "  q: {sql: 'SELECT d FROM keyed'}\n  b: {sql: 'SELECT t FROM bag'}\n"
        "  c: {sql: \"SELECT d, DATE '20000-01-01' AS e FROM keyed\"}\n",
        "utf-8",
    )
    with dynq_cli.create(spec, tmp_path / "state") as view:
        view.apply(pa.table({"d": FAR}), "keyed")
        with pytest.raises(RejectedError, match=r"there already \(5881580-07-11\)"):
            view.apply(pa.table({"d": FAR}), "keyed")
        late = moments([2**63 - 1], pa.int64(), pa.timestamp("us"))
        with pytest.raises(RejectedError, match=r"not there \(294247-01-10T04:00:54.775807\)"):
            view.apply(pa.table({"_change_type": ["delete"], "t": late}), "bag")
        fixed = moments([6_585_322], pa.int32(), pa.date32())[0]
        assert fixed.cast(pa.string()).as_py() == "20000-01-01"
        assert view.test({"d": FAR[0], "e": fixed}, "c") == 1
        assert view.test({"d": FAR[0], "e": FAR[0]}, "c") == 0
        assert view.test({"d": FAR[0], "e": date(2000, 1, 1)}, "c") == 0


def test_infer_reads_days_that_python_lacks(tmp_path: Path) -> None:
    days = moments([2**31 * MILLISECONDS, 0], pa.int64(), pa.date64())
    with pa.ipc.new_file(tmp_path / "far.arrow", pa.schema([("d", pa.date64())])) as file:
        file.write_table(pa.table({"d": days}))
    assert "d: date" in infer_spec([str(tmp_path / "far.arrow")]).text
