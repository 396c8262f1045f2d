"""The script of `dynq demo`: three days in a small shop, step by step.

Words, and commands as a user would type them in a directory that has `specs` and `sample_data`.
"""

from __future__ import annotations

from dynq_cli.records import record

SPEC, ALTERED = "specs/shop_lines.yaml", "specs/shop_cities.yaml"
RULES = "specs/network.yaml"
DATA = ("sample_data/shop", "sample_data/shop_expected", "sample_data/network")
_DAY = "sample_data/shop/day-{}"
_LOADS = tuple(
    word
    for relation in ("customers", "products", "orders", "items")
    for word in ("--load", f"{relation}={_DAY.format(0)}/{relation}.csv")
)
_ROADS = ("--state", "roads")
_NETWORK = "sample_data/network/day-{}"
_ROAD_LOADS = tuple(
    word
    for relation in ("link", "depot", "closed")
    for word in ("--load", f"{relation}={_NETWORK.format(0)}/{relation}.csv")
)
_RETURNS = ("enum", "-q", "customers_with_returns")
_LINES = ("count", "-q", "order_lines")


@record(frozen=True)
class Step:
    """A text, then the commands that are run; with `shows_spec`, the spec's queries stand between the two."""

    said: str
    commands: tuple[tuple[str, ...], ...]
    shows_spec: bool = False


STEPS = (
    Step(
        "A small shop has customers, products, orders and order lines. Its owner keeps asking the same questions, so\n"
        f"they are written down once, in {SPEC}:",
        (("init", SPEC, *_LOADS),),
        shows_spec=True,
    ),
    Step(
        "The tables of day 0 are in. How many order lines are there, and who has sent something back?\n"
        "Nothing is computed now: the answers were kept while the tables were read.",
        (_LINES, ("enum", "-q", "order_lines", "--limit", "3"), _RETURNS),
    ),
    Step(
        "Day 1. Karim Nasser is new and orders three things. Ada Winter orders two. A guest cancels an order, and the\n"
        "cast-iron pan of Frank Otto comes back. With --atomic the three change logs are one version.",
        (("apply", "--atomic", _DAY.format(1)), _LINES, _RETURNS),
    ),
    Step(
        "A log is known by its name and content. The same one again, as from a cron job that ran twice, changes\n"
        "nothing.",
        (("apply", "--atomic", _DAY.format(1)),),
    ),
    Step(
        "Day 2. Karim Nasser drops the desk lamp. The return of Greta Lang's teapots was a mistake: she keeps them.",
        (("apply", "--atomic", _DAY.format(2)), _RETURNS),
    ),
    Step(
        "Day 3 comes as Parquet, with commit versions. Ada Winter's order is cancelled. Order 1024 is entered, found\n"
        "to be wrong and entered again. David Vogt leaves, and his orders stay without a name.",
        (("apply", "--atomic", _DAY.format(3)), _LINES),
    ),
    Step(
        "What came and went in the result with day 3, and who had sent something back at version 1? No result was ever"
        " stored.",
        (("diff", "-q", "order_lines"), (*_RETURNS, "--at", "1")),
    ),
    Step(
        "Is a certain row in a result? Which orders wait to be shipped?",
        (
            (
                "test",
                "-q",
                "customers_with_returns",
                "--row",
                '{"customer_id": 6, "name": "Frank Otto", "email": "frank@example.org"}',
            ),
            ("enum", "-q", "open_orders"),
        ),
    ),
    Step(
        f"A new question comes up: what is sold in each city? {ALTERED} has it as one more query, and the state\n"
        "follows: the result is made from the rows that are there, and no file is loaded again.",
        (("alter", ALTERED), ("enum", "-q", "sales_by_city")),
    ),
    Step(
        "Why is Frank Otto among those who sent something back? The rows of the tables that make this row:",
        (
            (
                "why",
                "-q",
                "customers_with_returns",
                "--row",
                '{"customer_id": 6, "name": "Frank Otto", "email": "frank@example.org"}',
            ),
        ),
    ),
    Step(
        "A page to send to a colleague: the queries with their counts over the versions, what they cost, their trees.",
        (("report", "-o", "shop.html"),),
    ),
    Step(
        f"Rules of data are short as formulas. {RULES} has those of a road network, in a state of its own: every\n"
        "road has its reverse, depots have two open ways out. Which roads break the first, and what changes on day 1?",
        (
            ("init", RULES, *_ROADS, *_ROAD_LOADS),
            ("enum", "-q", "one_way", *_ROADS),
            ("apply", *_ROADS, f"{_NETWORK.format(1)}/link.1.csv"),
            ("diff", "-q", "one_way", *_ROADS),
        ),
    ),
    Step(
        "What the state says of itself, and whether DuckDB gets the same results from the tables as they are now.",
        (("status",), ("verify",)),
    ),
)

END = """\
What to look at, by eye:
- 33 order lines on day 0. Day 1: five came, 38 (the guest's three never were in it: NULL joins with nothing).
  Day 2: one went, 37. Day 3: two were cancelled, one came, and David Vogt's five are nobody's now: 31.
- Greta Lang had sent something back until day 2; Frank Otto has since day 1.
- Orders 1021, 1023 and 1024 are open: two inserts of days 1 and 2, and the one that was entered twice on day 3.
- sample_data/shop_expected has order_lines.csv and customers_with_returns.csv of every day, as DuckDB found them when
  the sample was made."""
