"""Versions of installed libraries, without importing them or `importlib.metadata`.

Importing `importlib.metadata` takes longer than opening a small state. The version is in the name of the `.dist-info`
directory next to the library.
"""

from __future__ import annotations

import os
from importlib.util import find_spec


def version_of(library: str) -> str:
    """Return the installed version of a library whose distribution has the same name."""
    spec = find_spec(library)
    if spec is not None and spec.origin is not None:
        beside = os.path.dirname(os.path.dirname(spec.origin))
        found = [name for name in os.listdir(beside) if name.startswith(f"{library}-") and name.endswith(".dist-info")]
        if len(found) == 1:
            return found[0].removeprefix(f"{library}-").removesuffix(".dist-info")
    from importlib.metadata import version

    return version(library)
