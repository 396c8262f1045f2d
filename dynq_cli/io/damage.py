"""Turn every error of reading a file into one `RejectedError` that names the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from dynq_cli.errors import RejectedError
from dynq_cli.io.data_files import Format, unreadable

_ARTICLE: dict[Format, str] = {
    "parquet": "a Parquet",
    "csv": "a CSV",
    "arrow": "an Arrow IPC",
    "jsonl": "a JSON-lines",
}
_AGAIN = "copy it again from its source, or extract it again"


@contextmanager
def refusing(path: str, form: Format) -> Iterator[None]:
    """Turn what the libraries raise on a damaged file into a RejectedError.

    MemoryError is among it: a flipped bit in a length asks for more memory than there is.
    """
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        if isinstance(error, OSError) and error.strerror:
            raise unreadable(path, error) from error
        said = " ".join(str(error).split()) or type(error).__name__
        again = "" if form in ("csv", "jsonl") else f"; {_AGAIN}"
        raise RejectedError(f"{path} is damaged or not {_ARTICLE[form]} file: {said}{again}") from error
