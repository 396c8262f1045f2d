"""Convert simple option values without pydantic, to start faster.

Typer passes every value except flags to pydantic, even missing ones, and importing pydantic takes longer than a whole
`count`. Most values need no pydantic: texts, digits, and missing values. All other values, and error messages about bad
ones, are left to typer.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

_DIGITS = 18  # as many as surely fit into 64 bits


class _Plain:
    """Converts simple values as typer's parameter would; creates that only for other values."""

    def __init__(self, param: TyperArgument | TyperOption) -> None:
        self._info = param.type_descriptor.parameter_info
        self._annotation = param.type_descriptor.annotation
        self._typers = param.get_runtime_param

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        is_multiple = param.multiple or param.nargs == -1
        if value is None:
            return () if is_multiple else None
        if self._info.parser is None:
            if self._annotation is str and type(value) is str and not is_multiple:
                return value
            if self._annotation == list[str] and type(value) in (list, tuple) and all(type(v) is str for v in value):
                return list(value)
            if isinstance(self._annotation, type) and issubclass(self._annotation, StrEnum) and not is_multiple:
                found = next((each for each in self._annotation if each == value), None)
                if found is not None:
                    return found
            if self._annotation is int and not is_multiple and self._is_number(value):
                return int(value)
        return self._typers().coerce(value, param=param, ctx=ctx)

    def _is_number(self, value: Any) -> bool:
        """Whether it is a number within its bounds, as digits or as an int."""
        if type(value) is str and (len(value) > _DIGITS or not (value.isascii() and value.isdigit())):
            return False
        if type(value) not in (str, int):
            return False
        low, high = self._info.min, self._info.max
        return (low is None or low <= int(value)) and (high is None or int(value) <= high)


def _lighten(params: list[Any]) -> list[Any]:
    """Make the parameters convert simple values themselves; return them."""
    for param in params:
        if isinstance(param, TyperArgument | TyperOption) and "get_runtime_param" not in vars(param):
            plain = _Plain(param)
            vars(param)["get_runtime_param"] = lambda plain=plain: plain
    return params


def _first_sentence(text: str | None) -> str:
    """Return the first sentence of a command's help, uncut; the list of commands wraps it."""
    paragraph = " ".join((text or "").split("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".")


class Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _lighten(super().get_params(ctx))

    def get_short_help_str(self, limit: int = 45) -> str:
        return _first_sentence(self.help)


class Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _lighten(super().get_params(ctx))

    def get_short_help_str(self, limit: int = 45) -> str:
        return _first_sentence(self.help)
