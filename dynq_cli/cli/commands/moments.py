"""`dynq moments`: the sums behind a model."""

from __future__ import annotations

from dynq_cli.cli import options, output


def moments(
    model: options.Model = None,
    state: options.State = ".dynq",
    at: options.At = None,
    out: options.OutFile = None,
) -> None:
    """Print the sums that a model is fitted from, as JSON: of every product of features and label, as in `x^2*y`.

    `n` is the number of rows. A model with `per` has a list of `groups`.
    """
    from dynq_cli.io.results.models import moments_text
    from dynq_cli.storage.state import open

    view = open(state)
    version = view.version if at is None else view.version_of(at)
    found = view.model(model)
    text = moments_text(view.moments(found.name, version), version, has_groups=bool(found.per))
    output.deliver(text, out)
