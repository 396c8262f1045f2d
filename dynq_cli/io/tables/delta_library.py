"""The library that reads and writes Delta tables, imported when a table is opened."""

from __future__ import annotations

from typing import Any

from dynq_cli.io.tables.mirror import not_installed


def deltalake(wanted: str) -> Any:
    """Return the library. UsageError if it is not installed."""
    try:
        import deltalake as library
        import deltalake.exceptions
    except ImportError:
        raise not_installed("deltalake", "delta", wanted) from None
    return library


def said(error: Exception) -> str:
    """What the library says, in one line."""
    return " ".join(str(error).split())[:1000]
