"""Dictionaries: dense ids from 0 for values without a fixed width, in the order of first appearance.

    decode(intern(values)) = values        intern(values)[i] = intern(values)[j]  ⟺  values[i] = values[j]

Ids depend only on the sequence of interned values: not on the process, not on the division into batches, not on values
that were rolled back. Values are equal if their bytes are. A dictionary consists of flat arrays, which can be written
to disk and mapped copy-on-write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from dynq_cli.engine.expression_cache import ExpressionCache
from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.intern import (
    Bytes,
    Flags,
    Flat,
    Int64s,
    drop_largest,
    fill_slots,
    gather_bytes,
    gather_offsets,
    intern_rows,
    look_up_rows,
)
from dynq_cli.engine.order_labels import OrderLabels
from dynq_cli.errors import RejectedError
from dynq_cli.spec.types import Type

Item = TypeVar("Item", bound=np.generic)

MAX_VALUES = 2**31 - 2
_SMALLEST = 16
_LARGE = 1 << 24
_MAX_ARROW_BYTES = 2**31 - 1


class Dictionary:
    """One dictionary: distinct values with their ids."""

    def __init__(self) -> None:
        self._count = 0
        self._flat = Flat(
            data=np.zeros(_SMALLEST * 8, np.uint8),
            offsets=np.zeros(_SMALLEST + 1, np.int64),
            hashes=np.zeros(_SMALLEST, np.uint64),
            slots=np.full(_SMALLEST * 2, -1, np.int32),
        )

    def __len__(self) -> int:
        return self._count

    @property
    def flat(self) -> Flat:
        """The arrays, for kernels; valid until the next new value."""
        return self._flat

    @property
    def length(self) -> int:
        """Bytes in use: values, offsets, hashes and slots. O(1)."""
        flat = self._flat
        return int(flat.offsets[self._count]) + self._count * 16 + flat.slots.nbytes

    def intern(self, values: pa.Array) -> Int64s:
        """Return the id of each value, adding new values; NULL for nulls.

        Amortised O(bytes). Takes string and binary arrays, also large ones and views.
        """
        offsets, data, valid = flat_values(values)
        return self._intern(offsets, data, valid)

    def lookup(self, values: pa.Array) -> Int64s:
        """Return the id of each value, UNKNOWN for values that are not in the dictionary. O(bytes)."""
        offsets, data, valid = flat_values(values)
        ids = np.empty(len(values), np.int64)
        look_up_rows(self._flat, offsets, data, valid, ids)
        return ids

    def decode(self, ids: npt.NDArray[np.int64], kind: pa.DataType) -> pa.Array:
        """Return the values of ids as an array of `kind`, string or binary. O(bytes)."""
        ids = np.ascontiguousarray(ids, np.int64).view()
        ids.flags.writeable = False
        offsets = np.empty(len(ids) + 1, np.int64)
        gather_offsets(self._flat, ids, offsets)
        if offsets[-1] > _MAX_ARROW_BYTES:
            raise RejectedError(f"{offsets[-1]} bytes of text do not fit one Arrow array: read fewer rows at a time")
        data = np.empty(offsets[-1], np.uint8)
        gather_bytes(self._flat, ids, offsets, data)
        buffers = [validity(ids != NULL), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
        return pa.Array.from_buffers(kind, len(ids), buffers)

    def since(self, count: int) -> tuple[Bytes, Int64s]:
        """Return the values with ids from `count` on: their bytes, and their offsets."""
        offsets = self._flat.offsets[count : self._count + 1]
        return self._flat.data[offsets[0] : offsets[-1]].copy(), offsets - offsets[0]

    def extend(self, data: Bytes, offsets: Int64s) -> None:
        """Append values that `since` returned; ValueError if they are inconsistent."""
        if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(data) or (np.diff(offsets) < 0).any():
            raise ValueError("the offsets of the new values do not fit their bytes")
        before = self._count
        data = data.view()
        data.flags.writeable = False
        self._intern(np.array(offsets, np.int64), data, _NO_FLAGS)
        if self._count - before != len(offsets) - 1:
            self.truncate(before)
            raise ValueError("a value that should be new is in the dictionary already")

    def truncate(self, count: int) -> None:
        """Remove the values with ids from `count` on. O(removed)."""
        if count < self._count:
            drop_largest(self._flat, self._count, count)
            self._count = count

    def reserve(self, count: int, size: int) -> None:
        """Make room for `count` values of `size` bytes in all."""
        if count > MAX_VALUES:
            raise RejectedError(f"a state holds at most {MAX_VALUES} different values of one text type")
        flat = self._flat
        if size > len(flat.data):
            flat = flat._replace(data=_with_room(flat.data, _more(flat.data, size)))
        if count > min(len(flat.hashes), len(flat.offsets) - 1):
            room = _more(flat.hashes, count)
            flat = flat._replace(hashes=_with_room(flat.hashes, room), offsets=_with_room(flat.offsets, room + 1))
        if 2 * count > len(flat.slots):
            slots = np.full(1 << (2 * count - 1).bit_length(), -1, np.int32)
            fill_slots(slots, flat.hashes, self._count)
            flat = flat._replace(slots=slots)
        self._flat = flat

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to store, with a quarter of free room, so that growth after opening is rare."""
        count = self._count + self._count // 4 + _SMALLEST
        size = int(self._flat.offsets[self._count]) * 5 // 4 + _SMALLEST * 8
        self.reserve(min(count, MAX_VALUES), size)
        flat = self._flat
        return {
            "count": np.array([self._count], np.int64),
            "data": flat.data[:size],
            "offsets": flat.offsets[: count + 1],
            "hashes": flat.hashes[:count],
            "slots": flat.slots,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Dictionary:
        """Build the dictionary from its arrays; read-only ones are copied."""
        made = cls()
        made._count = int(arrays["count"][0])
        made._flat = Flat(
            data=_writable(arrays["data"], np.uint8),
            offsets=_writable(arrays["offsets"], np.int64),
            hashes=_writable(arrays["hashes"], np.uint64),
            slots=_writable(arrays["slots"], np.int32),
        )
        return made

    def _intern(self, offsets: Int64s, data: Bytes, valid: Flags) -> Int64s:
        rows = len(offsets) - 1
        ids = np.empty(rows, np.int64)
        row = 0
        while True:
            row, self._count = intern_rows(self._flat, self._count, offsets, data, valid, row, ids)
            if row == rows:
                return ids
            used = int(self._flat.offsets[self._count])
            self.reserve(self._count + 1, used + int(offsets[row + 1] - offsets[row]))

    def _check(self) -> None:
        """Assert every invariant; O(bytes)."""
        data, offsets, hashes, slots = self._flat
        count = self._count
        assert len(slots) & (len(slots) - 1) == 0 and 2 * count <= len(slots), (count, len(slots))
        assert len(offsets) > count and len(hashes) >= count, (count, len(offsets), len(hashes))
        assert offsets[0] == 0 and offsets[count] <= len(data) and (np.diff(offsets[: count + 1]) >= 0).all()
        assert np.array_equal(np.sort(slots[slots >= 0]), np.arange(count)), "every id is in one slot"
        ids = np.empty(count, np.int64)
        readonly = data.view()
        readonly.flags.writeable = False
        look_up_rows(self._flat, offsets[: count + 1], readonly, _NO_FLAGS, ids)
        assert np.array_equal(ids, np.arange(count)), "every value leads to its own id"


class Dictionaries:
    """The dictionaries of a state, one per kind of value: joined columns share one.

    The ids of those named in `ordered` have labels: call `label` before new ids are compared.
    """

    def __init__(self, ordered: Iterable[str] = ()) -> None:
        self.labels = OrderLabels(ordered)
        self.remembered = ExpressionCache()
        self.strings = Dictionary()
        self.binaries = Dictionary()
        self.decimals = Dictionary()

    def of(self, kind: Type) -> Dictionary:
        """Return the dictionary of a type: strings, binary values, or decimals too wide for an int64."""
        return self.by_name()[kind.name]

    def labels_of(self, kind: Type) -> Int64s:
        """Return the labels of an ordered type's ids; valid until values are added."""
        return self.label().of(kind.name).labels

    @property
    def length(self) -> int:
        """Bytes in use, without labels. O(1)."""
        return sum(dictionary.length for dictionary in self.by_name().values())

    def counts(self) -> dict[str, int]:
        """Return the number of values of each dictionary, for `since` and `truncate`."""
        return {name: len(dictionary) for name, dictionary in self.by_name().items()}

    def since(self, counts: Mapping[str, int]) -> dict[str, tuple[Bytes, Int64s]]:
        """Return the values added after `counts`, by dictionary; without dictionaries that have none."""
        return {
            name: dictionary.since(counts[name])
            for name, dictionary in self.by_name().items()
            if len(dictionary) > counts[name]
        }

    def extend(self, values: Mapping[str, tuple[Bytes, Int64s]]) -> None:
        """Append the values that `since` returned."""
        for name, (data, offsets) in values.items():
            self.by_name()[name].extend(data, offsets)

    def truncate(self, counts: Mapping[str, int]) -> None:
        """Remove the values added after `counts`."""
        for name, dictionary in self.by_name().items():
            dictionary.truncate(counts[name])
        self.labels.truncate(counts)
        self.remembered.forget(counts)

    def label(self) -> OrderLabels:
        """Label all ids; return the labels."""
        self.labels.update(self.by_name())
        return self.labels

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of all dictionaries, named `string.data` and so on."""
        return {
            f"{name}.{part}": array
            for name, dictionary in self.by_name().items()
            for part, array in dictionary.arrays().items()
        } | self.labels.arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], ordered: Iterable[str] = ()) -> Dictionaries:
        made = cls(ordered)
        made.labels.restore(arrays)
        for attribute, name in (("strings", "string"), ("binaries", "binary"), ("decimals", "decimal")):
            parts = {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}
            setattr(made, attribute, Dictionary.from_arrays(parts))
        return made

    def by_name(self) -> dict[str, Dictionary]:
        return {"string": self.strings, "binary": self.binaries, "decimal": self.decimals}

    def _check(self) -> None:
        for dictionary in self.by_name().values():
            dictionary._check()


_NO_FLAGS: Flags = np.empty(0, np.bool_)


def _writable(array: npt.NDArray[Any], dtype: type[Item]) -> npt.NDArray[Item]:
    """Return the array itself if kernels can write to it, else a copy."""
    return np.require(np.asarray(array), dtype, ["C", "A", "W"])


def _with_room(old: npt.NDArray[Item], room: int) -> npt.NDArray[Item]:
    new = np.zeros(room, old.dtype)
    new[: len(old)] = old
    return new


def _more(old: npt.NDArray[Item], needed: int) -> int:
    """Return the new capacity: twice the old one, 1.5 times for large arrays. Amortised O(1) per item."""
    return max(needed, len(old) * 2 if old.nbytes < _LARGE else len(old) * 3 // 2)


def flat_values(values: pa.Array) -> tuple[Int64s, Bytes, Flags]:
    """Return offsets, bytes, and the non-null rows (empty if all are), without copying the bytes."""
    if pt.is_string_view(values.type) or pt.is_binary_view(values.type):
        values = values.cast(pa.large_string() if pt.is_string_view(values.type) else pa.large_binary())
    wide = pt.is_large_string(values.type) or pt.is_large_binary(values.type)
    _, places, content = values.buffers()
    if len(values) == 0:
        offsets = np.zeros(1, np.int64)
    else:
        kind = np.dtype(np.int64 if wide else np.int32)
        offsets = np.frombuffer(places, kind, len(values) + 1, values.offset * kind.itemsize).astype(np.int64)
    data = np.frombuffer(content or b"", np.uint8)
    data.flags.writeable = False
    return offsets, data, valid_rows(values)


def valid_rows(values: pa.Array) -> Flags:
    """Return which rows are not null; empty if all are."""
    if values.null_count == 0:
        return _NO_FLAGS
    bitmap = values.buffers()[0]
    if bitmap is None:
        return np.array(values.is_valid().to_numpy(zero_copy_only=False))
    # Not by Arrow's `is_valid`: for a small column, the array that it makes takes longer than everything else.
    byte, bit = divmod(values.offset, 8)
    content = np.frombuffer(bitmap, np.uint8, (bit + len(values) + 7) // 8, byte)
    return np.unpackbits(content, count=bit + len(values), bitorder="little")[bit:].view(np.bool_)


def validity(valid: Flags) -> pa.Buffer | None:
    """Return Arrow's validity bitmap; None if no row is null."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
