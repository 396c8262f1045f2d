"""The marks that the diffs of `outputs:` are read from: each holds the version of the last diff that was written.

They are made with the state, at version 0, so that the diffs of an output, one after the other, are all that ever
changed. An output that names no mark has the mark `_outputs`.
"""

from __future__ import annotations

from pathlib import Path

from dynq_cli.spec.model import Output, Spec
from dynq_cli.storage.history import kept_since
from dynq_cli.storage.manifest import read_manifest
from dynq_cli.storage.state import State

OUTPUTS = "_outputs"


def mark_of(output: Output) -> str:
    """The mark of an output of kind diff."""
    return output.mark or OUTPUTS


def marks_of(spec: Spec) -> list[str]:
    """The marks of all diffs among the outputs, each once."""
    return list(dict.fromkeys(mark_of(output) for output in spec.outputs if output.kind == "diff"))


def make_missing(state: State, directory: Path) -> None:
    """Make the marks that are not there, where the last outputs were written, else as far back as can be read.

    LockedError if another process is writing.
    """
    known = state.marks
    for name in marks_of(state.spec):
        if name not in known:
            manifest = read_manifest(directory)
            state.mark(name, max(manifest.written, kept_since(manifest)))
