"""Commands that look at plain values by themselves.

Typer has pydantic look at every value but a flag that is given, even at a value that is not there, and importing
pydantic takes longer than all that `count` does. Most values need no look: text stays as it is, digits are a number,
nothing stays nothing. Every other value, and with it every message about a wrong one, is left to typer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typer._coercion import RuntimeParam, TypeDescriptor, build_runtime_param
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

_DIGITS = 18  # as many as surely fit into 64 bits


@dataclass(frozen=True)
class _Plain(RuntimeParam):
    """Returns what typer's own would return, which is asked only where the value is not plain."""

    described: TypeDescriptor

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
        if self.parameter_info.parser is None:
            if self.annotation is str and type(value) is str:
                return value
            if self.annotation == list[str] and all(type(item) is str for item in value):
                return list(value)
            if self.annotation is int and self._is_number(value):
                return int(value)
        return build_runtime_param(self.described).coerce(value, param=param, ctx=ctx)

    def _is_number(self, value: Any) -> bool:
        """Whether it is a number as people write it, or one that is given in code, within its bounds."""
        if type(value) is str and (len(value) > _DIGITS or not (value.isascii() and value.isdigit())):
            return False
        low, high = self.parameter_info.min, self.parameter_info.max
        return (low is None or low <= int(value)) and (high is None or int(value) <= high)


def _lighten(params: list[Any]) -> list[Any]:
    """The same parameters; those that have not looked at a value yet will do so by themselves."""
    for param in params:
        if isinstance(param, TyperArgument | TyperOption) and param._runtime_param is None:
            described = param.type_descriptor
            param._runtime_param = _Plain(described.parameter_info, described.annotation, described)
    return params


def _first_sentence(text: str | None) -> str:
    """The first sentence of a command's help, whole; the list of commands wraps it."""
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
