"""The commands that `keep` in the spec keeps a query for; others are refused before they read anything."""

from __future__ import annotations

from collections.abc import Mapping

from dynq_cli.errors import RejectedError
from dynq_cli.spec.model import Keep

SERVED: Mapping[Keep, tuple[str, ...]] = {
    "all": ("count", "enum", "diff", "test", "jth", "page", "sample", "rank"),
    "rows": ("count", "enum", "diff", "test"),
    "test": ("test",),
}


def require(query: str, keep: Keep, verb: str) -> None:
    """RejectedError if a query is not kept for `dynq VERB`."""
    if verb in SERVED[keep]:
        return
    *most, last = SERVED[keep]
    served = f"{', '.join(most)} and {last}" if most else f"{last} alone"
    wider = " or ".join(f"`keep: {each}`" for each, verbs in SERVED.items() if verb in verbs)
    raise RejectedError(
        f"query {query} has `keep: {keep}` in the spec, which serves {served}, and not {verb}\n"
        f"  hint: {verb} needs {wider}, in a state made for such a spec"
    )
