"""One test over many cases: every case is tried, and the failure lists all that do not hold.

For cases that differ in data alone, where `pytest.mark.parametrize` would make hundreds of tests of one promise.
`DYNQ_CASE=TEXT` tries only the cases whose label has the text.
"""

from __future__ import annotations

import functools
import inspect
import os
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

ONLY = os.environ.get("DYNQ_CASE", "")
Test = Callable[..., None]
Labels = Callable[[Any], str] | Iterable[str] | None


def every_case(names: str | Sequence[str], cases: Iterable[Any], ids: Labels = None) -> Callable[[Test], Test]:
    """Have a test try all cases; parameters are those of `pytest.mark.parametrize`."""
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    each = [case if len(wanted) > 1 else (case,) for case in cases]
    assert each, "no case"
    labels = ["-".join(map(ids or repr, values)) for values in each] if ids is None or callable(ids) else list(ids)

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures: list[str] = []
            for label, values in zip(labels, each, strict=True):
                if ONLY not in label:
                    continue
                try:
                    test(**fixtures, **dict(zip(wanted, values, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    said = f"{error}" if failures else "".join(traceback.format_exception(error)[1:])
                    failures.append(f"--- {label}\n{said}\n")
            if failures:
                pytest.fail(f"{len(failures)} of {len(each)} cases:\n" + "".join(failures), pytrace=False)

        given = inspect.signature(test)
        kept = [parameter for name, parameter in given.parameters.items() if name not in wanted]
        run.__signature__ = given.replace(parameters=kept)  # type: ignore[attr-defined]
        del run.__wrapped__
        return run

    return decorate
