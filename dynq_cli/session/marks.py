"""Marks of `outputs:` of kind diff: each names the version up to which diffs were written, where the next one starts.

They are created with the state, at version 0: so all diffs of an output, in order, make up the whole result. An output
that names no mark uses the mark `_outputs`.
"""

from __future__ import annotations

from dynq_cli.spec.model import Output, Spec
from dynq_cli.storage.state import State

OUTPUTS = "_outputs"


def mark_of(output: Output) -> str:
    """Return the mark of an output of kind diff."""
    return output.mark or OUTPUTS


def marks_of(spec: Spec) -> list[str]:
    """Return the marks of all outputs of kind diff, each once."""
    return list(dict.fromkeys(mark_of(output) for output in spec.outputs if output.kind == "diff"))


def make_missing(state: State) -> None:
    """Create missing marks: at the version of the last written outputs, else at the oldest version that can be read.

    LockedError if another process is writing.
    """
    known = state.marks
    for name in marks_of(state.spec):
        if name not in known:
            state.mark(name, max(state.written, state.kept_since))
