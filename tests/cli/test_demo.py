"""`dynq demo` runs from begin to end, and what it tells is what the sample's expected results say."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from dynq_cli.cli import demo_script

Dynq = Callable[..., "subprocess.CompletedProcess[str]"]
Rows = list[list[str]]


def expected(root: Path, day: int, query: str) -> Rows:
    with (root / "sample_data" / "shop_expected" / f"day-{day}" / f"{query}.csv").open(encoding="utf-8") as file:
        return list(csv.reader(file))


def enumerated(dynq: Dynq, *args: str) -> Rows:
    run = dynq("enum", *args, "--expand", "-o", "-")
    assert run.returncode == 0, run.stderr
    return list(csv.reader(io.StringIO(run.stdout)))


def test_the_demo_tells_its_story_and_leaves_a_state_with_the_expected_results(
    dynq: Dynq, root: Path, tmp_path: Path
) -> None:
    run = dynq("demo", "shop", DYNQ_STATE="elsewhere")
    assert run.returncode == 0, run.stderr
    lines = [len(expected(root, day, "order_lines")) - 1 for day in range(4)]
    told = re.findall(r"\$ dynq count -q order_lines\n(\d+)\n", run.stdout)
    assert [int(number) for number in told] == [lines[0], lines[1], lines[3]]
    assert f"order_lines: {lines[3]} rows agree\n" in run.stdout
    altered, why = run.stdout.partition("$ dynq alter ")[2].partition("$ dynq why ")[::2]
    assert (
        sum(int(line.split(",")[1]) for line in altered.split("city,lines,")[1].splitlines()[1:] if "," in line) == 31
    )
    assert "returned_on" in why and "customers" in why and "cast-iron" not in why
    assert "</svg>" in (tmp_path / "shop" / "shop.html").read_text("utf-8")
    roads = run.stdout.partition("$ dynq diff -q one_way")[2].partition("\n\n")[0]
    assert sorted(line.split(",")[-1] for line in roads.splitlines()[2:]) == ["delete", "insert"], roads
    assert run.stdout.endswith("Everything is in shop: go there and try the commands yourself.\n")
    assert [p.name for p in tmp_path.iterdir()] == ["shop"]
    for query in ("order_lines", "customers_with_returns"):
        header, *rows = enumerated(dynq, "-s", "shop/.dynq", "-q", query)
        wanted, *others = expected(root, 3, query)
        assert (header, sorted(rows)) == (wanted, sorted(others))


def test_the_numbers_at_the_end_are_those_of_the_expected_results(root: Path) -> None:
    days = [len(expected(root, day, "order_lines")) - 1 for day in range(4)]
    said = " ".join(demo_script.END.split())
    assert re.search(
        rf"{days[0]} order lines on day 0.* {days[1]} \(.*Day 2: .* {days[2]}\. Day 3: .*: {days[3]}\.", said
    )


def test_every_day_ends_with_the_expected_results(dynq: Dynq, root: Path) -> None:
    day = root / "sample_data" / "shop"
    loads = [f"--load={r}={day / 'day-0' / r}.csv" for r in ("customers", "products", "orders", "items")]
    assert dynq("init", str(root / demo_script.SPEC), *loads).returncode == 0
    for number in range(4):
        if number:
            run = dynq("apply", "--atomic", str(day / f"day-{number}"))
            assert run.returncode == 0, run.stderr
        for query in ("order_lines", "customers_with_returns"):
            wanted = expected(root, number, query)
            assert sorted(enumerated(dynq, "-q", query)) == sorted(wanted)
        assert [[dynq("count", "-q", "open_orders").stdout.strip()]] == expected(root, number, "open_orders")[1:]


def test_without_a_directory_nothing_is_left(dynq: Dynq, tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    run = dynq("demo", TMPDIR=str(tmp_path / "temporary"))
    assert run.returncode == 0, run.stderr
    assert list((tmp_path / "temporary").iterdir()) == []
    assert [p.name for p in tmp_path.iterdir()] == ["temporary"]


@pytest.mark.parametrize("name", ["full", "full/file"])
def test_a_directory_that_holds_something_is_left_alone(dynq: Dynq, tmp_path: Path, name: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine", "utf-8")
    run = dynq("demo", name)
    assert (run.returncode, run.stdout) == (2, "")
    assert f"{name} is there and not empty; nothing was done" in run.stderr
    assert [p.read_text("utf-8") for p in (tmp_path / "full").iterdir()] == ["mine"]


def test_a_wheel_has_what_the_demo_needs(root: Path) -> None:
    with (root / "pyproject.toml").open("rb") as file:
        shipped = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    for name in (demo_script.SPEC, demo_script.ALTERED, demo_script.RULES, *demo_script.DATA):
        assert (root / name).exists()
        assert shipped[name] == f"dynq_cli/demo/{name}"
