"""Write the road network's sample data: the roads of day 0, depots and closed roads, and the changes of day 1.

    python sample_data/make_network.py

The same seed gives the same rows. Every road has its reverse but for two, of which day 1 adds one; on day 1 another
road loses its reverse.
"""

from __future__ import annotations

import csv
import random
import shutil
from collections.abc import Iterable
from pathlib import Path

DATA = Path(__file__).parent / "network"
WIDTH, HEIGHT = 5, 4


def main() -> None:
    chance = random.Random(20)
    roads = [(y * WIDTH + x + 1, y * WIDTH + x + 2) for y in range(HEIGHT) for x in range(WIDTH - 1)]
    roads += [(y * WIDTH + x + 1, (y + 1) * WIDTH + x + 1) for y in range(HEIGHT - 1) for x in range(WIDTH)]
    first, second, third, *_ = chance.sample(roads, 3)
    links = sorted({*roads, *((b, a) for a, b in roads)} - {first[::-1], second[::-1]})
    shutil.rmtree(DATA, ignore_errors=True)
    _write("day-0/link.csv", ("from_node", "to_node"), links)
    _write("day-0/depot.csv", ("node",), [(n,) for n in sorted(chance.sample(range(1, WIDTH * HEIGHT + 1), 4))])
    shut = sorted(chance.sample(links, 3))
    _write("day-0/closed.csv", ("from_node", "to_node", "since"), [(*link, "2026-03-01") for link in shut])
    changes = [("insert", *first[::-1]), ("delete", *third[::-1])]
    _write("day-1/link.1.csv", ("_change_type", "from_node", "to_node"), changes)


def _write(name: str, header: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    path = DATA / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([tuple(header), *rows])


if __name__ == "__main__":
    main()
