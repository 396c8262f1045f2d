"""The pages of `dynq serve` about a result: rows by page, changes, derivations; a real browser shows them."""

from __future__ import annotations

import base64
import re
from html import unescape
from pathlib import Path

import pyarrow as pa
import pytest

import dynq_cli
from tests.browser import background, dump
from tests.serve_client import Served

SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, y: string?}, key: [x]}
  S: {columns: {y: string, z: int64}}
queries:
  pairs: {sql: "SELECT x, R.y, z FROM R JOIN S ON R.y = S.y", order_by: [x, z]}
  sums: {sql: "SELECT y, sum(z) AS s FROM S GROUP BY y"}
  rows: {sql: "SELECT x, y FROM R", keep: rows}
  tested: {rule: "tested(x, y) :- R(x, y), S(y, z)", keep: test}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:  # type: ignore[misc]
    folder = tmp_path_factory.mktemp("pages")
    (folder / "spec.yaml").write_text(SPEC)
    with dynq_cli.create(folder / "spec.yaml", folder / ".dynq") as view:
        y = ["<b>&", *["a"] * 118, None]
        view.apply({"R": pa.table({"x": [*range(120)], "y": y}), "S": pa.table({"y": ["a", "<b>&"], "z": [1, 2]})})
        view.mark("first")
        view.apply(pa.table({"x": [1], "_change_type": ["delete"]}), "R")
    with Served(folder) as made:
        yield made


def page(served: Served, path: str, status: int = 200) -> str:
    found, headers, body = served.ask("GET", path)
    assert (found, headers["content-type"]) == (status, "text/html; charset=utf-8"), body
    assert "default-src 'none'" in headers["content-security-policy"]
    return body.decode()


def link(text: str, label: str) -> str:
    """The address of the first link with this text, seen from a page about a query."""
    found = re.search(rf'<a href="([^"]*)">{label}</a>', text)
    assert found is not None, text
    return "/pages/" + unescape(found[1])


def cells(text: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*?)</tr>", text.partition("<tbody>")[2])
    return [[unescape(cell) for cell in re.findall(r"<td[^>]*>([^<]*)<", row)] for row in rows]


def test_rows_come_by_page_in_the_order_of_the_query(served: Served) -> None:
    first = page(served, "/pages/pairs")
    second = page(served, link(first, "next →"))
    third = page(served, link(second, "next →"))
    seen = [int(row[0]) for text in (first, second, third) for row in cells(text)]
    assert seen == [0, *range(2, 119)] and "next →" not in third
    assert "rows 1 to 50, in its order, at version 2, the last" in first
    assert cells(page(served, link(second, "← before"))) == cells(first)
    assert "&lt;b&gt;&amp;" in first and "<b>&" not in first
    assert cells(page(served, "/pages/pairs?where=x+%3D+0"))[0][:3] == ["0", "<b>&", "2"]
    assert cells(page(served, "/pages/pairs?at=first&offset=1"))[0][0] == "1"
    assert cells(page(served, "/pages/rows?where=x+%3D+119"))[0][:2] == ["119", "NULL"]


def test_a_row_links_to_the_base_rows_that_make_it(served: Served) -> None:
    text = page(served, link(page(served, "/pages/pairs"), "why"))
    assert '{"x":0,"y":"<b>&"}' in unescape(text) and '{"y":"<b>&","z":2}' in unescape(text)
    gone = page(served, "/pages/pairs?where=x+%3D+1&at=first")
    assert '{"x":1,"y":"a"}' in unescape(page(served, link(gone, "why")))
    assert "why" in page(served, link(page(served, "/pages/sums"), "why"))


def test_what_changed_is_shown_since_a_version_or_mark(served: Served) -> None:
    assert cells(page(served, "/pages/pairs/diff?since=first")) == [["went", "1", "a", "1"]]
    assert "since version 0, up to version 2" in page(served, "/pages/sums/diff?since=0")


def test_what_is_refused_is_a_page_with_the_reason(served: Served) -> None:
    assert "nowhere" in page(served, "/pages/pairs?at=nowhere", 400)
    assert "keep" in page(served, "/pages/tested", 400)
    assert "no JSON" in page(served, "/pages/pairs/why?row=%3Cscript%3E", 400)
    assert "<script>" not in page(served, "/pages/pairs/why?row=%3Cscript%3E", 400)
    assert served.ask("GET", "/pages/nothing")[0] == 404
    assert served.ask("GET", "/pages/pairs?offset=-1")[0] == 400
    assert served.ask("POST", "/pages/pairs", "x")[0] == 405


def test_a_browser_may_give_the_token_as_a_password(served: Served, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret-1\n")
    (tmp_path / "spec.yaml").write_text(SPEC)
    dynq_cli.create(tmp_path / "spec.yaml", tmp_path / ".dynq").close()
    with Served(tmp_path, "--token-file", str(tmp_path / "token")) as guarded:
        status, headers, _ = guarded.ask("GET", "/")
        assert status == 401 and "Basic" in headers["www-authenticate"]
        for given, wanted in (("me:secret-1", 200), ("me:other", 401), ("secret-1", 401), (":", 401)):
            basic = f"Basic {base64.b64encode(given.encode()).decode()}"
            assert guarded.ask("GET", "/", Authorization=basic)[0] == wanted, given
        assert guarded.ask("GET", "/", Authorization="Basic ?")[0] == 401


def test_a_browser_shows_the_pages_without_running_over_the_side(served: Served, tmp_path: Path) -> None:
    at = f"http://127.0.0.1:{served.port}"
    home = dump(f"{at}/", tmp_path, 500)
    assert "Served live" in home and 'href="pages/pairs"' in home
    text = dump(f"{at}/pages/pairs", tmp_path, 500)
    assert len(cells(text)) == 50 and "&lt;b&gt;&amp;" in text
    assert sum(background(f"{at}/pages/pairs", tmp_path, dark=True)) < 150
    assert sum(background(f"{at}/pages/pairs", tmp_path, dark=False)) > 600
