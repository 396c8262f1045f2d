"""`dynq fit`: the coefficients of a model."""

from __future__ import annotations

from typing import Annotated

import typer

from dynq_cli.cli import options, output


def fit(
    model: options.Model = None,
    state: options.State = ".dynq",
    at: options.At = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Print coefficients as fractions, in strings: every digit of them.")
    ] = False,
    out: options.OutFile = None,
) -> None:
    """Print a model of the spec, fitted to the rows that its query has: least squares, as JSON.

    `coefficients` by term (`1` is the constant), the number of rows `n`, the sum of squared errors `sse`, and `r2`.
    Terms that depend on those before them are named under `dependent`. A model with `per` has a list of `groups`.

    The sums that a fit needs are kept up to date, so the time depends on the number of terms, not on the data.
    """
    from dynq_cli.io.results.models import fits_text
    from dynq_cli.storage.state import open

    view = open(state)
    version = view.version if at is None else view.version_of(at)
    found = view.model(model)
    fits = view.fits(found.name, version)
    for each in fits:
        if each.dependent:
            where = f" of {', '.join(map(str, each.group.values()))}" if found.per else ""
            output.warn(f"{', '.join(each.dependent)}{where} depends on the terms before it; its coefficient is 0")
    output.deliver(fits_text(fits, version, has_groups=bool(found.per), exact=exact), out)
