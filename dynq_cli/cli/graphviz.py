"""Draw graphs with the Graphviz program `dot`, if it is installed."""

from __future__ import annotations

import shutil
import subprocess

from dynq_cli.errors import DynqError, UsageError


def draw(source: str, kind: str) -> bytes:
    """Draw a graph in dot's language; `kind` is svg, png or pdf."""
    program = shutil.which("dot")
    if program is None:
        raise UsageError(
            f"drawing .{kind} needs Graphviz, and there is no program 'dot': install it (apt install graphviz,"
            " brew install graphviz), or write .dot or .mmd and draw that elsewhere"
        )
    run = subprocess.run([program, f"-T{kind}"], input=source.encode(), capture_output=True, check=False)
    if run.returncode != 0:
        said = run.stderr.decode(errors="replace").strip().splitlines()
        raise DynqError(f"Graphviz could not draw the tree: {said[0] if said else f'exit code {run.returncode}'}")
    return run.stdout
