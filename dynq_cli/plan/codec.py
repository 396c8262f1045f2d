"""Frozen values as JSON and back: dataclasses, tuples, mappings, numbers, text.

    decode(kind, encode(kind, value)) == value     for every value of the type `kind`

The type decides the form, so nothing in the text names a class to be made: a dataclass is the list of its fields,
a member of a union its number among them and its form. Every value is checked against its type on the way out and on
the way in; what does not fit is a CodecError, never another value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal, InvalidOperation
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

Value = TypeVar("Value")
Step = Callable[[Any], Any]


class CodecError(ValueError):
    """A value, or a JSON text, that is not of the type it should be."""


class _Codec(NamedTuple):
    encode: Step
    decode: Step


def encode(kind: type[Value], value: Value) -> object:
    """What `json.dumps` takes. O(size of the value)."""
    return _codec(kind).encode(value)


def decode(kind: type[Value], data: object) -> Value:
    """The value that `data`, from `json.loads`, stands for. CodecError if it stands for none."""
    return cast("Value", _codec(kind).decode(data))


def _made(kind: Any) -> _Codec:
    origin, inside = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _dataclass(cast("type", kind))
    if kind is Decimal:
        return _Codec(_decimal_to_text, _decimal_from_text)
    if kind in (str, int, bool, NoneType):
        return _Codec(_exactly(kind), _exactly(kind))
    if origin is Literal:
        return _Codec(_one_of(inside), _one_of(inside))
    if origin is tuple:
        return _sequence(inside[0]) if inside[1:] == (...,) else _tuple(inside)
    if origin is Mapping and inside[0] is str:
        return _mapping(inside[1])
    if origin in (Union, UnionType):
        return _union(inside)
    raise TypeError(f"{kind} has no form here")


_codec: Callable[[Any], _Codec] = cache(_made)


def _exactly(kind: type) -> Step:
    def same(value: Any) -> Any:
        # True is an int for isinstance.
        if type(value) is not kind:
            raise CodecError(f"{value!r} is no {kind.__name__}")
        return value

    return same


def _one_of(choices: tuple[Any, ...]) -> Step:
    def same(value: Any) -> Any:
        for choice in choices:
            if type(value) is type(choice) and value == choice:
                return choice
        raise CodecError(f"{value!r} is not one of {choices}")

    return same


def _decimal_to_text(value: Any) -> str:
    return str(_exactly(Decimal)(value))


def _decimal_from_text(data: Any) -> Decimal:
    try:
        return Decimal(_exactly(str)(data))
    except InvalidOperation:
        raise CodecError(f"{data!r} is no decimal") from None


def _sequence(kind: Any) -> _Codec:
    inner = _lazily(kind)
    return _Codec(
        lambda value: [*map(inner.encode, _exactly(tuple)(value))],
        lambda data: tuple(map(inner.decode, _exactly(list)(data))),
    )


def _tuple(kinds: tuple[Any, ...]) -> _Codec:
    inner = [_lazily(kind) for kind in kinds]
    return _Codec(
        lambda value: _each([c.encode for c in inner], _exactly(tuple)(value)),
        lambda data: tuple(_each([c.decode for c in inner], _exactly(list)(data))),
    )


def _dataclass(kind: type) -> _Codec:
    hints = get_type_hints(kind)
    names = [f.name for f in fields(kind)]
    inner = [_lazily(hints[name]) for name in names]
    encoders, decoders = [c.encode for c in inner], [c.decode for c in inner]
    of_kind = _exactly(kind)

    def to_list(value: Any) -> Any:
        of_kind(value)
        return _each(encoders, [getattr(value, name) for name in names])

    return _Codec(to_list, lambda data: kind(*_each(decoders, _exactly(list)(data))))


def _mapping(kind: Any) -> _Codec:
    inner, text = _lazily(kind), _exactly(str)

    def to_object(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise CodecError(f"{value!r} is no mapping")
        return {text(key): inner.encode(each) for key, each in value.items()}

    return _Codec(to_object, lambda data: {key: inner.decode(each) for key, each in _exactly(dict)(data).items()})


def _union(kinds: tuple[Any, ...]) -> _Codec:
    """`null` for None, the form itself where there is one other member, else the member's number and its form."""
    members = [kind for kind in kinds if kind is not NoneType]
    inner = [_lazily(kind) for kind in members]
    optional = len(members) < len(kinds)
    number = {kind: i for i, kind in enumerate(members)}

    def to_json(value: Any) -> Any:
        if value is None and optional:
            return None
        if len(members) == 1:
            return inner[0].encode(value)
        if type(value) not in number:
            raise CodecError(f"{value!r} is not one of {[kind.__name__ for kind in members]}")
        return [number[type(value)], inner[number[type(value)]].encode(value)]

    def from_json(data: Any) -> Any:
        if data is None and optional:
            return None
        if len(members) == 1:
            return inner[0].decode(data)
        which, form = _each([_exactly(int), lambda each: each], _exactly(list)(data))
        if not 0 <= which < len(inner):
            raise CodecError(f"there is no member {which} of {[kind.__name__ for kind in members]}")
        return inner[which].decode(form)

    if len(members) > 1 and not all(map(is_dataclass, members)):
        raise TypeError(f"{kinds} cannot be told apart")
    return _Codec(to_json, from_json)


def _each(steps: list[Step], values: Any) -> list[Any]:
    if len(steps) != len(values):
        raise CodecError(f"{len(values)} values where {len(steps)} are needed")
    return [step(value) for step, value in zip(steps, values, strict=True)]


def _lazily(kind: Any) -> _Codec:
    """The codec of a type that may contain the one that is being made."""
    if not _may_recurse(kind):
        return _codec(kind)
    return _Codec(lambda value: _codec(kind).encode(value), lambda data: _codec(kind).decode(data))


def _may_recurse(kind: Any) -> bool:
    return is_dataclass(kind) or any(map(_may_recurse, get_args(kind)))
