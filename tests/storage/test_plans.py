"""A state's plans are read back as they would be made, or made again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from dynq_cli.errors import EXIT_DAMAGED, DamagedError, SpecDiffersError
from dynq_cli.storage import plans
from dynq_cli.storage.layout import PLANS, SPEC
from dynq_cli.storage.manifest import read_manifest
from dynq_cli.storage.plans import code_version, has_plans, plan_spec, read_plans, write_plans
from tests.conftest import Dynq
from tests.storage.states import small_state

OTHER = "version: 1\nrelations:\n  R: {columns: {x: int64}}\nqueries:\n  q: {sql: SELECT x FROM R}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small_state(tmp_path, 1)
    return tmp_path / "state"


@pytest.fixture
def nothing_is_planned(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str, file: str = "") -> None:
        raise AssertionError("planned again")

    monkeypatch.setattr(plans, "plan_spec", refuse)


def fresh(folder: Path) -> plans.Planned:
    return plan_spec((folder / SPEC).read_text("utf-8"))


@pytest.mark.usefixtures("nothing_is_planned")
def test_kept_plans_are_those_that_planning_gives(folder: Path) -> None:
    read, planned = read_plans(folder, read_manifest(folder)), fresh(folder)
    assert read == planned
    # Comparing leaves out where things stand in the file; an error would show it.
    assert repr(read.spec) == repr(planned.spec)


def test_kept_plans_name_no_file_outside_the_state(folder: Path) -> None:
    assert str(folder.parent).encode() not in (folder / PLANS).read_bytes()


def test_without_kept_plans_the_spec_is_planned(folder: Path) -> None:
    (folder / PLANS).unlink()
    assert read_plans(folder, read_manifest(folder)) == fresh(folder)
    assert not has_plans(folder, read_manifest(folder))


def test_plans_of_another_version_of_the_code_are_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(plans, "code_version", lambda: "another")
        text = (folder / SPEC).read_text("utf-8")
        write_plans(folder, replace(plan_spec(text), plans={}, programs={}), text)
    assert not has_plans(folder, read_manifest(folder))
    assert read_plans(folder, read_manifest(folder)) == fresh(folder)


def test_plans_of_another_spec_are_not_used(folder: Path) -> None:
    write_plans(folder, plan_spec(OTHER), OTHER)
    assert not has_plans(folder, read_manifest(folder))
    assert read_plans(folder, read_manifest(folder)) == fresh(folder)


def test_queries_that_the_state_was_not_made_for_are_refused(folder: Path) -> None:
    manifest = read_manifest(folder)
    with pytest.raises(SpecDiffersError, match="the queries pairs, keys, gone"):
        read_plans(folder, replace(manifest, plans={**manifest.plans, "gone": "0" * 16}))


@pytest.mark.usefixtures("nothing_is_planned")
def test_a_flipped_bit_is_found_wherever_it_is(folder: Path) -> None:
    path, manifest, chance = folder / PLANS, read_manifest(folder), Random(0)
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        with pytest.raises(DamagedError, match=PLANS):
            read_plans(folder, manifest)


def test_damaged_plans_end_a_command_with_its_exit_code(folder: Path, dynq: Dynq) -> None:
    path = folder / PLANS
    path.write_bytes(path.read_bytes().replace(b"pairs", b"pears", 1))
    ran = dynq("enum", "--query", "keys", "--state", str(folder))
    assert ran.returncode == EXIT_DAMAGED, ran.stderr
    assert PLANS in ran.stderr and "Traceback" not in ran.stderr


def test_an_edit_anywhere_in_the_front_end_is_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = code_version()
    package = tmp_path / "dynq_cli"
    for source in sorted(plans._PACKAGE.rglob("*.py")):
        copy = package / source.relative_to(plans._PACKAGE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
    monkeypatch.setattr(plans, "_PACKAGE", package)

    def version() -> str:
        code_version.cache_clear()
        return code_version()

    try:
        assert version() == before
        (package / "engine" / "live.py").write_text("# another engine keeps the same plans\n", "utf-8")
        assert version() == before
        for name in ("errors.py", "spec/types.py", "query/sql/parse.py", "plan/search.py"):
            code = (package / name).read_bytes()
            (package / name).write_bytes(code + b"\n")
            assert version() != before, name
            (package / name).write_bytes(code)
    finally:
        code_version.cache_clear()
