"""The README's five commands and the crontab line of docs/cron.md do what these pages say."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A `dynq` in a folder of its own, which runs the source beside these tests."""
    path = tmp_path / "bin" / "dynq"
    path.parent.mkdir()
    path.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)} -m dynq_cli "$@"\n'
    )
    path.chmod(0o755)
    return path


def shell(line: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DYNQ_")}
    return subprocess.run(
        ["sh", "-c", line], cwd=folder, env={**clean, **env}, capture_output=True, text=True, check=False, timeout=600
    )


def test_the_five_commands_of_the_readme_end_with_the_count_that_it_shows(tmp_path: Path, program: Path) -> None:
    (page,) = blocks("README.md", "console")
    commands = [line[2:] for line in page.splitlines() if line.startswith("$ ")]
    shown = [line for line in page.splitlines() if not line.startswith("$ ")]
    assert (len(commands), commands[0]) == (5, "make install")
    for name in ("specs", "sample_data"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(program, tmp_path / ".venv" / "bin" / "dynq")
    printed = []
    for command in commands[1:]:
        done = shell(command, tmp_path)
        assert done.returncode == 0, done.stderr
        printed += done.stdout.splitlines()
    assert printed == shown


def test_the_crontab_line_keeps_the_outputs_fresh(tmp_path: Path, program: Path) -> None:
    (line,) = blocks("docs/cron.md", "crontab")
    when, command = re.fullmatch(r"((?:\S+ ){5})(.*)\n", line).groups()  # type: ignore[union-attr]
    assert when.split()[1:] == ["*"] * 4
    assert "%" not in command, "cron would take it for the end of the line"
    (spec,) = blocks("docs/cron.md", "yaml")
    shop = tmp_path / "shop"
    (shop / "inbox").mkdir(parents=True)
    (shop / "spec.yaml").write_text(spec)
    env = {"HOME": str(tmp_path), "PATH": f"{program.parent}:/usr/bin:/bin"}
    assert shell("dynq init spec.yaml", shop, **env).returncode == 0

    (shop / "inbox" / "customers.csv").write_text("customer_id,city\n10,Lyon\n20,Turin\n")
    (shop / "inbox" / "orders.csv").write_text("order_id,customer_id\n1,10\n2,20\n")
    first = shell(command, tmp_path, **env)
    assert (first.returncode, first.stdout, first.stderr) == (0, "", "")
    assert json.loads((shop / "out" / "by-city-2.json").read_text())["rows"] == 2
    assert sorted((shop / "out" / "by-city.csv").read_text().splitlines()) == [
        "Lyon,1,10,1",
        "Turin,2,20,1",
        "city,order_id,customer_id,_count",
    ]
    said = [json.loads(message)["level"] for message in (shop / "run.log").read_text().splitlines()]
    assert set(said) == {"info"}

    before = {path: path.stat().st_mtime_ns for path in shop.rglob("*") if path.is_file()}
    again = shell(command, tmp_path, **env)
    assert again.returncode == 0
    changed = {p.name for p in shop.rglob("*") if p.is_file() and p.stat().st_mtime_ns != before.get(p)}
    assert changed <= {"lock", "run-lock"}

    (shop / "inbox" / "orders.bad.csv").write_text("order_id,customer_id,_change_type\n9,10,delete\n")
    assert shell(command, tmp_path, **env).returncode == 3
    last = json.loads((shop / "run.log").read_text().splitlines()[-1])
    assert last["code"] == "rejected"
    assert "orders.bad.csv" in last["message"]


def test_the_fields_that_the_page_names_are_in_the_status(tmp_path: Path, program: Path) -> None:
    page = (ROOT / "docs" / "cron.md").read_text("utf-8")
    fields, parts = (page[page.index(f"| {head} | holds |") :].partition("\n\n")[0] for head in ("field", "part"))
    named, of_bytes = (
        {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
        for table in (fields, parts)
    )
    (spec,) = blocks("docs/cron.md", "yaml")
    (tmp_path / "spec.yaml").write_text(spec)
    env = {"PATH": f"{program.parent}:/usr/bin:/bin"}
    done = shell("dynq init spec.yaml && dynq status --json", tmp_path, **env)
    assert len(named) >= 8
    told = json.loads(done.stdout)
    assert named <= set(told)
    assert of_bytes | {"dictionaries", "total"} == set(told["bytes"])
