"""Write a stream of card payments for `specs/fraud.yaml`: a change log per hour, with some stolen cards among them.

    python sample_data/make_payments.py DIR [--hours H] [--accounts A] [--per-hour N] [--stolen S] [--seed X]

Most accounts pay now and then, few of them often; amounts are log-normal around 30, so some are small and few are
large. A stolen card is tried with two small payments and then used for a large one, minutes apart. Some payments come
late, in the log of a later hour, and some are taken back: a delete of the row. The same seed gives the same files.
"""

from __future__ import annotations

import argparse
import csv
import datetime as dt
from decimal import Decimal
from pathlib import Path
from random import Random

START = dt.datetime(2026, 3, 2)
LATE, TAKEN_BACK = 0.02, 0.01

Payment = tuple[int, dt.datetime, Decimal, int]


def _amount(chance: Random) -> Decimal:
    return Decimal(round(100 * min(chance.lognormvariate(3.4, 1.0), 5000))).scaleb(-2)


def ordinary(chance: Random, accounts: int, hour: dt.datetime, many: int, first: int) -> list[Payment]:
    """Payments of an hour; the first accounts pay most."""
    made = []
    for i in range(many):
        account = min(int(accounts * chance.random() ** 2), accounts - 1)
        made.append((account, hour + dt.timedelta(seconds=chance.randrange(3600)), _amount(chance), first + i))
    return made


def stolen(chance: Random, accounts: int, hour: dt.datetime, first: int) -> list[Payment]:
    """Two small payments that try a card, and a large one."""
    account, at = chance.randrange(accounts), hour + dt.timedelta(seconds=chance.randrange(3600))
    amounts = [Decimal(chance.randrange(100, 900)).scaleb(-2) for _ in range(2)]
    amounts.append(Decimal(chance.randrange(50_000, 300_000)).scaleb(-2))
    made = []
    for i, amount in enumerate(amounts):
        at += dt.timedelta(seconds=chance.randrange(60, 900))
        made.append((account, at, amount, first + i))
    return made


def write(folder: Path, hours: int, accounts: int, per_hour: int, stolen_cards: int, seed: int) -> None:
    chance, number, live, late = Random(seed), 1, list[Payment](), list[Payment]()
    folder.mkdir(parents=True, exist_ok=True)
    for h in range(hours):
        hour = START + dt.timedelta(hours=h)
        fresh = ordinary(chance, accounts, hour, per_hour, number)
        number += len(fresh)
        for _ in range(stolen_cards):
            fresh += stolen(chance, accounts, hour, number)
            number += 3
        gone = [live.pop(chance.randrange(len(live))) for _ in range(int(TAKEN_BACK * len(fresh))) if live]
        held = [p for p in fresh if chance.random() < LATE]
        comes = late + [p for p in fresh if p not in held]
        late = held
        live += comes
        with (folder / f"trans.{h:04d}.csv").open("w", newline="", encoding="utf-8") as file:
            log = csv.writer(file, lineterminator="\n")
            log.writerow(["_change_type", "acc", "ts", "amnt", "id"])
            log.writerows(["delete", *p] for p in gone)
            log.writerows(["insert", *p] for p in comes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--accounts", type=int, default=2000)
    parser.add_argument("--per-hour", type=int, default=1000)
    parser.add_argument("--stolen", type=int, default=1, help="stolen cards in an hour")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    write(given.folder, given.hours, given.accounts, given.per_hour, given.stolen, given.seed)


if __name__ == "__main__":
    main()
