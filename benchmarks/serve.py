"""Group `serve`: durable posts and counts over HTTP while 20 readers ask, beside the fsyncs of a commit."""

from __future__ import annotations

import tempfile

from processes import Numbers, printed, say, script
from report import Section, many, seconds, times
from settings import Settings

TITLE = "A process that stays"
POSTS = 200


def measure(settings: Settings) -> Section:
    say(f"  {POSTS} posts of each kind")
    with tempfile.TemporaryDirectory(prefix="dynq-serve-", dir=settings.data) as folder:
        n: Numbers = printed(script("run_serve.py", folder, POSTS * settings.runs))
    rows = [
        ("one change posted, nobody else", seconds(n["post_alone"]), times(n["post_alone"], n["fsync"])),
        ("one change posted, 20 readers", seconds(n["post"]), times(n["post"], n["fsync"])),
        ("one change posted, 20 readers, 3 subscribers", seconds(n["post_told"]), times(n["post_told"], n["fsync"])),
        ("count, nobody else", seconds(n["count_alone"]), times(n["count_alone"], n["fsync"])),
        ("count, 20 readers", seconds(n["count"]), times(n["count"], n["fsync"])),
        ("the fsyncs of a commit alone", seconds(n["fsync"]), "1.00×"),
    ]
    says = (
        "Medians, from request to answer; a post is answered when its version is durable. A reader asks for a count\n"
        "or 20 rows every 50 ms. In the same time, logs of 100 changes came in one after the other at\n"
        f"{many(n['rate'])} changes/s with 20 readers. The yardstick is what a commit asks of the disk: four fsyncs.\n"
        f"A process that only reads a clock on this machine got {n['share']:.0%} of a core."
    )
    return Section(TITLE, says, ("", "time", "÷ fsyncs"), rows)
