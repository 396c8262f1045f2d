"""The labels of all ordered dictionaries, in one array for kernels.

    array[starts[name] + id]    the label of an id of the dictionary `name`

The array is empty if no order uses ids. `labels` defines labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.labels import Labels, Values


class OrderLabels:
    """Labels by dictionary name. With one dictionary, its labels are the array, without a copy."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._labels = {name: Labels() for name in sorted(set(names))}
        self.array: Words = np.zeros(1, np.int64)
        self.starts: dict[str, int] = {}
        self._join()

    def of(self, name: str) -> Labels:
        return self._labels[name]

    def update(self, dictionaries: Mapping[str, Values]) -> None:
        """Label what the dictionaries got since the last time; amortised O(m log N) for m new values among N."""
        for name, labels in self._labels.items():
            labels.update(dictionaries[name])
        self._join()

    def truncate(self, counts: Mapping[str, int]) -> None:
        """Remove the ids from `counts` on."""
        for name, labels in self._labels.items():
            labels.truncate(counts[name])
        self._join()

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {
            f"{name}.order.{part}": array
            for name, labels in self._labels.items()
            for part, array in labels.arrays().items()
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore the labels that `arrays` returned; the next `update` labels all other ids."""
        for name in self._labels:
            prefix = f"{name}.order."
            parts = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
            if parts:
                self._labels[name] = Labels.from_arrays(parts)
        self._join()

    def _join(self) -> None:
        """Make the labels contiguous again if arrays were replaced. Amortised O(1) per label."""
        several = [labels.memory for labels in self._labels.values()]
        if len(several) <= 1:
            self.array = several[0] if several else self.array
            self.starts = dict.fromkeys(self._labels, 0)
        elif not all(memory.base is self.array for memory in several):
            self.array = np.concatenate(several)
            ends = np.cumsum([len(memory) for memory in several]).tolist()
            for labels, memory, end in zip(self._labels.values(), several, ends, strict=True):
                labels.move_to(self.array[end - len(memory) : end])
            self.starts = dict(zip(self._labels, [0, *ends[:-1]], strict=True))
