"""The documentation says what the program does: a command, option or example that is missing or stale fails here."""

from __future__ import annotations

import os
import pydoc
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.core import TyperGroup

from dynq_cli.cli.app import group
from dynq_cli.cli.reference import reference
from dynq_cli.query import aggregates
from dynq_cli.session.explain import explain_spec
from dynq_cli.spec.load import parse_spec
from tests.every_case import every_case

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def anchors(page: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path, text: str) -> Iterator[str]:
    """Relative links of a page that lead nowhere; links inside code are no links."""
    prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            yield link


def undocumented(tree: TyperGroup, page: str) -> list[str]:
    """Commands without a section and options that their section does not name."""
    found = []
    for name, command in [("", tree), *tree.commands.items()]:
        title = f"dynq {name}".rstrip()
        section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
        if section is None:
            found.append(title)
            continue
        for parameter in command.params:
            names = parameter.opts if parameter.param_type_name == "option" else [parameter.metavar or ""]
            found.extend(f"{title} {option}" for option in names if not re.search(rf"{option}\b", section[1]))
    return found


def missing_in_table(tree: TyperGroup, readme: str) -> list[str]:
    rows = [line for line in readme.splitlines() if line.startswith("| `dynq ")]
    return [name for name in tree.commands if not any(re.match(rf"\| `dynq {name}\b", row) for row in rows)]


def test_every_command_and_option_is_documented() -> None:
    assert undocumented(group(), (ROOT / "docs" / "cli.md").read_text("utf-8")) == []


def test_the_reference_is_up_to_date() -> None:
    assert (ROOT / "docs" / "cli.md").read_text("utf-8") == reference(), "run `make docs`"


def test_the_readme_has_every_command_in_its_table() -> None:
    assert missing_in_table(group(), README.read_text("utf-8")) == []


def test_what_is_not_documented_is_found() -> None:
    page = reference()
    assert undocumented(group(), page.replace("--read-data", "--read")) == ["dynq check --read-data"]
    assert undocumented(group(), page.replace("## dynq infer\n", "")) == ["dynq infer"]
    others = [name for name in group().commands if name != "explain"]
    assert missing_in_table(group(), "| `dynq explain SPEC` | x |\n| `dynq inferno` | y |") == others


@every_case("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page, page.read_text("utf-8"))) == []


def test_a_broken_link_is_found() -> None:
    text = "# Top\n[a](README.md) [b](gone.md) [c](#top) [d](#gone) [e](https://example.org) `[f](gone.md)`\n"
    assert list(broken_links(ROOT / "README.md", text.replace("#top", "#dynq"))) == ["gone.md", "#gone"]


def test_the_readmes_spec_is_explained_as_the_readme_shows(tmp_path: Path) -> None:
    readme = README.read_text("utf-8")
    (spec,) = blocks(readme, "yaml")
    (shown,) = blocks(readme, "text")
    (tmp_path / "first.yaml").write_text(spec, "utf-8")
    printed = explain_spec(tmp_path / "first.yaml").text("large_orders").rstrip("\n") + "\n"
    if os.environ.get("DYNQ_UPDATE_GOLDEN"):
        README.write_text(readme.replace(f"```text\n{shown}```", f"```text\n{printed}```"), "utf-8")
        return
    assert shown == printed


@every_case("page", [README, *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name)
def test_every_spec_in_the_pages_loads(page: Path) -> None:
    for block in blocks(page.read_text("utf-8"), "yaml"):
        parse_spec(block, page.name)


@pytest.mark.parametrize("name", ["library", "cycles"])
def test_a_page_with_one_program_runs_as_written(name: str, tmp_path: Path) -> None:
    (program,) = blocks((ROOT / "docs" / f"{name}.md").read_text("utf-8"), "python")
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "design").glob("*.md")), ids=lambda page: page.name)
def test_the_examples_of_design_pages_run_as_written(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(aggregates, "_BY_NAME", dict(aggregates._BY_NAME))  # a page may register its own
    for program in blocks(page.read_text("utf-8"), "python"):
        exec(compile(program, page.name, "exec"), {})


def test_the_glossary_names_files_that_exist() -> None:
    """Each noun once, each with the file that owns it."""
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| `([\w/]+)` \|$", page, re.MULTILINE)
    nouns = [noun for names, _ in rows for noun in names.split(", ")]
    assert len(rows) > 20 and len(set(nouns)) == len(nouns)
    homes = (ROOT / "dynq_cli", ROOT / "dynq_cli" / "engine")
    assert [owner for _, owner in rows if not any((h / f"{owner}.py").exists() for h in homes)] == []


def test_design_pages_show_numbers_that_were_measured() -> None:
    """Every row of a table under "What was measured" is a line of RESULTS.md."""
    measured = set((ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8").splitlines())
    shown = 0
    for page in sorted((ROOT / "docs" / "design").glob("*.md")):
        _, _, section = page.read_text("utf-8").partition("## What was measured\n")
        rows = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| ")]
        assert [row for row in rows if row not in measured] == [], page.name
        shown += len(rows)
    assert shown > 20


def test_the_page_on_pay_off_has_the_tables_that_were_measured() -> None:
    """Every table of the page with a ratio in it is in RESULTS.md, line by line."""
    page = (ROOT / "docs" / "pay-off.md").read_text("utf-8")
    measured = set((ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8").splitlines())
    rows = [line for line in page.splitlines() if line.startswith("| ") and " : " in line]
    assert len(rows) > 30
    assert [row for row in rows if row not in measured] == []


def test_the_page_on_pay_off_runs_as_written(tmp_path: Path) -> None:
    """Both sides of its example come to the same count."""
    page = (ROOT / "docs" / "pay-off.md").read_text("utf-8")
    (commands,), (program,) = blocks(page, "sh"), blocks(page, "python")
    for folder in ("sample_data", "specs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    (tmp_path / "recompute.py").write_text(program, "utf-8")
    lines = commands.replace("python ", f"{sys.executable} ").replace("dynq ", f"{sys.executable} -m dynq_cli ")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-e", "-c", lines], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines().count("38") == 2, done.stdout


def test_the_page_on_patterns_runs_as_written(tmp_path: Path) -> None:
    (commands,) = blocks((ROOT / "docs" / "patterns.md").read_text("utf-8"), "sh")
    for folder in ("sample_data", "specs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    lines = commands.replace("python ", f"{sys.executable} ").replace("dynq ", f"{sys.executable} -m dynq_cli ")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["sh", "-e", "-c", lines], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    alerts = (tmp_path / "alerts.csv").read_text("utf-8").splitlines()
    assert alerts[0].endswith(",_change_type,_count") and sum(",insert," in line for line in alerts) >= 1, alerts[:3]
    assert "_commit_version" in (tmp_path / "alerts.jsonl").read_text("utf-8").splitlines()[0]


TASKS = (ROOT / "docs" / "tasks.md").read_text("utf-8").split("\n## ")


@pytest.mark.parametrize("task", TASKS[1:], ids=lambda task: task.partition("\n")[0])
def test_a_task_runs_as_written(task: str, tmp_path: Path) -> None:
    """The commands of one section after those that make the state of the page; one that fails ends the test."""
    for folder in ("sample_data", "specs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    commands = "".join(blocks(TASKS[0], "sh") + blocks(task, "sh"))
    assert "dynq " in commands.removeprefix("".join(blocks(TASKS[0], "sh")))
    commands = f'dynq() {{ {sys.executable} -m dynq_cli "$@"; }}\n{commands}'
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", commands],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def missing_modules(page: str) -> list[str]:
    """Paths in backquotes, as `engine/codes`, and dotted names, that lead nowhere."""
    homes = (ROOT, ROOT / "dynq_cli", ROOT / "dynq_cli" / "engine")
    found = []
    for path in re.findall(r"`([a-z_]+(?:/[a-z_]+)+(?:\.py)?)/?`", page):
        if not any((home / f"{path}{end}").exists() for home in homes for end in ("", ".py")):
            found.append(path)
    names = re.findall(r"`(dynq_cli(?:\.\w+)+)[(`]", page)
    return found + [name for name in names if pydoc.locate(name) is None]


def test_modules_that_pages_name_exist() -> None:
    pages = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    assert {page.name: found for page in pages if (found := missing_modules(page.read_text("utf-8")))} == {}
    assert missing_modules("`engine/gone`, `dynq_cli.engine.views.Gone`, `engine/codes`, `dynq_cli.open`") == [
        "engine/gone",
        "dynq_cli.engine.views.Gone",
    ]
