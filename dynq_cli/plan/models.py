"""Explain a model: what is fitted, from how many sums. The costs are those of the hidden query that keeps the sums."""

from __future__ import annotations

from dynq_cli.query.models import monomials, product_name, terms
from dynq_cli.spec.model import ModelSpec


def model_text(model: ModelSpec) -> str:
    """A line for people."""
    per = f" per {', '.join(model.per)}" if model.per else ""
    ridge = f", ridge {model.ridge}" if model.ridge else ""
    many = len(monomials(model))
    return (
        f"model {model.name}: {formula(model)}{per}{ridge}, over {model.over}; {many} sums are kept, and solved in "
        f"O({len(terms(model))}³) when it is asked for\n"
    )


def formula(model: ModelSpec) -> str:
    """The model as statisticians write it.

    >>> formula(ModelSpec("m", "q", "y", ("a", "b")))
    'y ~ 1 + a + b'
    """
    return f"{model.label} ~ {' + '.join(product_name(model.features, t) for t in terms(model))}"


def model_json(model: ModelSpec) -> dict[str, object]:
    """The same for programs."""
    return {
        "over": model.over,
        "label": model.label,
        "terms": [product_name(model.features, t) for t in terms(model)],
        "degree": model.degree,
        "ridge": str(model.ridge),
        "per": list(model.per),
        "sums": len(monomials(model)),
    }
