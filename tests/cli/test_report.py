"""`dynq report`: one page that needs nothing else, with what the commands tell; a real browser draws it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.cli.app import main
from dynq_cli.session.report import Point, curve
from tests.browser import dump

SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, y: string}}
  S: {columns: {y: string, z: int64}}
queries:
  "pairs": {rule: "pairs(x, z) :- R(x, y), S(y, z)"}
  sums: {sql: "SELECT y, sum(z) AS s FROM S WHERE y <> '<b>&' GROUP BY y"}
"""


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(SPEC)
    with dynq_cli.create("spec.yaml") as view:
        for n in range(3):
            view.apply({"R": pa.table({"x": [n], "y": ["a"]}), "S": pa.table({"y": ["a"], "z": [n]})})
        view.mark("m<1>".replace("<1>", "1"))


def page(*options: str) -> str:
    assert main(["report", "-o", "r.html", *options]) == 0
    return Path("r.html").read_text("utf-8")


class Tags(HTMLParser):
    """The tags that are open, and every attribute that could load something."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [f"{tag} {name}" for name, _ in attrs if name in ("src", "href", "onload", "onclick")]
        assert tag not in ("script", "link", "img", "iframe", "object", "base")
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_loads_nothing() -> None:
    text, tags = page(), Tags()
    tags.feed(text)
    assert (tags.open, tags.loaded) == ([], [])
    assert "url(" not in text and "@import" not in text and "http" not in text.replace("http-equiv", "")


def test_it_tells_counts_costs_versions_and_escapes_what_users_wrote() -> None:
    text = page()
    assert '<p class="count">9<span> rows</span>' in text and '<p class="count">1<span> rows</span>' in text
    assert "0 rows at version 0, 9 at version 3" in text
    assert "<code>view-tree+projection</code>" in text and "linked only through y" in text
    assert "&lt;b&gt;&amp;" in text and "<b>&'" not in text
    assert "<code>m1</code> 3" in text
    for drawn in re.findall(r"<svg.*?</svg>", text):
        ElementTree.fromstring(drawn)


def test_one_version_goes_back_to_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("an earlier version is read")

    monkeypatch.setattr(dynq_cli.storage.state.State, "views_at", refuse)
    assert "no earlier version is kept" in page("--versions", "1")


def test_versions_before_a_query_was_there_have_no_point() -> None:
    Path("new.yaml").write_text(SPEC + '  more: {sql: "SELECT x FROM R"}\n')
    dynq_cli.alter(".dynq", "new.yaml")
    with dynq_cli.open() as view:
        view.apply(pa.table({"x": [9], "y": ["q"]}), "R")
    assert "3 rows at version 4, 4 at version 5" in page()
    assert "no earlier" in curve([Point(1, None), Point(2, 3)])


def test_other_files_are_refused() -> None:
    assert main(["report", "-o", "r.pdf"]) == 2
    assert main(["report", "-o", "r.html", "-s", "elsewhere"]) == 10
    assert not list(Path.cwd().glob("r.*"))


def test_it_shows_rows_changes_and_why_the_first_row_is_there() -> None:
    text = page()
    assert "The first 1 rows, in no particular order" in text and "The first 9 rows" in text
    assert "What came and went since version 2" in text
    assert "Why the first row is there" in text and "{&quot;y&quot;:&quot;a&quot;,&quot;z&quot;:0}" in text


def test_rows_that_cannot_be_explained_leave_the_page_whole() -> None:
    Path("hidden.yaml").write_text(
        '{version: 1, relations: {R: {columns: {rowid: int64}}}, queries: {q: {sql: "SELECT rowid FROM R"}}}'
    )
    with dynq_cli.create("hidden.yaml", "hidden") as view:
        view.apply(pa.table({"rowid": [1]}), "R")
    assert "R has a column rowid" in page("-s", "hidden")


def test_pictures_say_how_many_rows_each_view_has() -> None:
    drawn = re.findall(r"<svg class=\"tree.*?</svg>", page(), re.DOTALL)
    assert "3 rows" in drawn[0] and "reads · 9 rows" in drawn[0]
    assert "per y" in drawn[1] and "reads · 1 row<" in drawn[1]


@pytest.mark.parametrize("width", [1280, 500])
def test_a_browser_draws_it_without_running_over_the_side(width: int, tmp_path: Path) -> None:
    """The page is measured by a script that only this test adds."""
    text = page()
    measure = "<script>document.title=[document.documentElement.scrollWidth,innerWidth].join()</script></body>"
    Path("measured.html").write_text(text.replace("<details>", "<details open>").replace("</body>", measure), "utf-8")
    found = re.search(r"<title>(\d+),(\d+)</title>", dump((tmp_path / "measured.html").as_uri(), tmp_path, width))
    assert found is not None
    wide, window = map(int, found.groups())
    assert wide <= window
