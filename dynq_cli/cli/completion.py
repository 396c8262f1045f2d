"""What a shell offers after TAB: the queries, models and marks of the state that the command line names.

Only the manifest is read. Where there is no state, or none that can be read, nothing is offered.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dynq_cli.errors import DynqError

if TYPE_CHECKING:
    from dynq_cli.storage.manifest import Manifest


def queries(ctx: typer.Context, incomplete: str) -> list[str]:
    """The queries of the state."""
    from dynq_cli.spec.model import HIDDEN

    manifest = _manifest(ctx)
    return _fitting((name for name in manifest.counts if not name.startswith(HIDDEN)) if manifest else (), incomplete)


def models(ctx: typer.Context, incomplete: str) -> list[str]:
    """The models of the state."""
    from dynq_cli.spec.model import MODELS

    manifest = _manifest(ctx)
    hidden = (name for name in manifest.counts if name.startswith(MODELS)) if manifest else ()
    return _fitting((name.removeprefix(MODELS) for name in hidden), incomplete)


def marks(ctx: typer.Context, incomplete: str) -> list[str]:
    """The marks of the state."""
    manifest = _manifest(ctx)
    return _fitting(manifest.marks if manifest else (), incomplete)


def _fitting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _manifest(ctx: typer.Context) -> Manifest | None:
    from dynq_cli.storage.manifest import read_manifest

    named = ctx.params.get("state") or os.environ.get("DYNQ_STATE") or ".dynq"
    try:
        return read_manifest(Path(named))
    except (DynqError, OSError):
        return None
