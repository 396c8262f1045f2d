"""`infer` suggests the joins that the data bear out, as queries that load, and no others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynq_cli.cli.app import main
from dynq_cli.io.infer import infer_spec
from tests.conftest import ROOT

JOIN = re.compile(r"^  (#?) *SELECT .*\n.*? FROM (\w+) JOIN (\w+) ON (.*)$", re.MULTILINE)


def joins(folder: Path, rows: int = 1_000_000) -> dict[str, str]:
    """What is joined with what, by which condition; after a # if it is a comment. All of it loads."""
    text = infer_spec([str(folder)], key_rows=rows).text
    (folder / "spec.yaml").write_text(text)
    assert main(["init", str(folder / "spec.yaml"), "-s", str(folder / "state"), "--quiet"]) == 0
    return {f"{mark}{child} {parent}": on for mark, child, parent, on in JOIN.findall(text)}


def put(folder: Path, name: str, **columns: Sequence[object]) -> None:
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def test_names_that_agree_and_values_that_are_there_are_a_join(tmp_path: Path) -> None:
    put(tmp_path, "customer", c_custkey=[1, 2, 3], c_name=["a", "b", "c"], c_nationkey=[0, 1, 1])
    put(tmp_path, "nation", n_nationkey=[0, 1, 2], n_name=["x", "y", "z"])
    put(tmp_path, "orders", o_orderkey=[1, 2, 3, 4], o_custkey=[2, 2, 3, None], o_size=[1, 2, 3, 2])
    assert joins(tmp_path) == {
        "orders customer": "orders.o_custkey = customer.c_custkey",
        "customer nation": "customer.c_nationkey = nation.n_nationkey",
    }


def test_a_column_named_after_a_relation_refers_to_its_key(tmp_path: Path) -> None:
    (tmp_path / "customers.csv").write_text("id,name\n1,Ann\n2,Bob\n3,Cy\n")
    (tmp_path / "orders.csv").write_text("id,customer_id,name\n1,1,x\n2,3,y\n3,3,y\n")
    assert joins(tmp_path) == {"orders customers": "orders.customer_id = customers.id"}
    assert "customers.name AS customers_name" in (tmp_path / "spec.yaml").read_text()


def test_numbers_that_merely_overlap_are_no_join(tmp_path: Path) -> None:
    many = list(range(1, 2001))
    put(tmp_path, "parts", id=many, size=[n % 50 + 1 for n in many])
    put(tmp_path, "shops", id=many[:500], staff=[n % 30 + 1 for n in many[:500]], order_no=many[:500])
    assert joins(tmp_path) == {}


def test_texts_and_scattered_numbers_need_no_names(tmp_path: Path) -> None:
    codes = [f"{a}{b}{c}" for a in "ABCD" for b in "XYZW" for c in "KLMN"]
    put(tmp_path, "airports", iata=codes, city=["Lyon"] * len(codes))
    put(tmp_path, "carriers", number=[n * 7919 for n in range(100)], title=["t"] * 100)
    flown = range(3000)
    put(
        tmp_path,
        "flights",
        flight=list(flown),
        origin=[codes[n % 40] for n in flown],
        dest=[codes[n % len(codes)] for n in flown],
        flown_by=[n % 100 * 7919 for n in flown],
        is_late=["y" if n % 2 else "n" for n in flown],
    )
    text = infer_spec([str(tmp_path)]).text
    assert joins(tmp_path)["flights carriers"] == "flights.flown_by = carriers.number"
    assert "ON flights.origin = airports.iata\n" in text
    assert "  flights_airports_by_dest:\n" in text
    assert text.count(" JOIN ") == 3


def test_a_few_missing_values_make_it_a_comment_and_many_drop_it(tmp_path: Path) -> None:
    put(tmp_path, "customers", customer_id=list(range(100)), city=["x"] * 100)
    put(tmp_path, "orders", order_id=list(range(300)), customer_id=[n % 102 for n in range(300)])
    put(tmp_path, "visits", visit_id=list(range(300)), customer_id=[n % 150 for n in range(300)])
    assert joins(tmp_path) == {"#orders customers": "orders.customer_id = customers.customer_id"}
    assert (
        "# 2 of the 102 values of customer_id in the rows read are not in customers"
        in (tmp_path / "spec.yaml").read_text()
    )


def test_keys_of_several_columns(tmp_path: Path) -> None:
    pairs = [(part, supplier) for part in range(30) for supplier in range(4)]
    put(tmp_path, "partsupp", ps_partkey=[p for p, _ in pairs], ps_suppkey=[s for _, s in pairs], ps_cost=[1.5] * 120)
    rows = [pairs[n % 110] for n in range(500)]
    put(tmp_path, "lineitem", l_partkey=[p for p, _ in rows], l_suppkey=[s for _, s in rows], l_tax=[0.5] * 500)
    on = "lineitem.l_partkey = partsupp.ps_partkey AND lineitem.l_suppkey = partsupp.ps_suppkey"
    assert joins(tmp_path) == {"lineitem partsupp": on}


def test_one_to_one_is_a_join_in_one_direction(tmp_path: Path) -> None:
    put(tmp_path, "customers", customer_id=[5, 6, 7, 8], city=["x"] * 4)
    put(tmp_path, "profiles", customer_id=[5, 6, 8], motto=["m"] * 3)
    assert joins(tmp_path) == {"profiles customers": "profiles.customer_id = customers.customer_id"}


def test_files_of_different_formats_and_types_are_compared_by_value(tmp_path: Path) -> None:
    table = pa.table({"code": pa.array(["a1", "b2", "c3", "d4", "e5"], pa.string_view()), "n": [1, 2, 3, 4, 5]})
    pq.write_table(table, tmp_path / "things.parquet")
    (tmp_path / "uses.csv").write_text("thing,thing_n\na1,1\nb2,2\nc3,3\nd4,4\ne5,5\na1,1\n")
    found = joins(tmp_path)
    assert found == {"uses things": "uses.thing = things.code"}


def test_dictionaries_are_compared_by_value(tmp_path: Path) -> None:
    codes = ["a1", "b2", "c3", "d4", "e5", "f6"]
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, 4, None, 5, 0]), pa.array([*codes, "unused"]))
    pq.write_table(pa.table({"thing": coded, "n": list(range(8))}), tmp_path / "uses.parquet")
    put(tmp_path, "things", code=codes, weight=[1.5] * 6)
    assert joins(tmp_path) == {"uses things": "uses.thing = things.code"}


def test_a_key_that_was_not_read_to_its_end_is_not_checked(tmp_path: Path) -> None:
    put(tmp_path, "customers", customer_id=list(range(5000)), city=["x"] * 5000)
    put(tmp_path, "orders", customer_id=[n % 50 for n in range(300)])
    assert joins(tmp_path, rows=1000) == {}
    assert len(joins_again(tmp_path)) == 1


def joins_again(folder: Path) -> list[str]:
    return JOIN.findall(infer_spec([str(folder / "customers.parquet"), str(folder / "orders.parquet")]).text)


@pytest.mark.parametrize("name", ["order", "Group", "n"])
def test_words_of_sql_and_yaml_are_quoted(name: str, tmp_path: Path) -> None:
    put(tmp_path, name, key_of_it=[10, 20, 30], value=["a", "b", "c"])
    put(tmp_path, "lines", key_of_it=[10, 20, 20, 30], select=[1, 2, 3, 3])
    assert "  lines_" in infer_spec([str(tmp_path)]).text
    joins(tmp_path)


def test_the_sample_joins_its_orders(tmp_path: Path) -> None:
    text = infer_spec([str(ROOT / "sample_data/shop")]).text
    assert "FROM orders JOIN customers ON orders.customer_id = customers.customer_id" in text
    assert "FROM items JOIN products ON items.product_id = products.product_id" in text
    assert text.count(" JOIN ") == 2
