"""The kinds of tables that `kind: mirror` keeps equal to a result: the beginning of `to` says which.

To add one, write a module with `open_mirror` (`io/tables/mirror`) and name it in `_BUILT_IN`; from outside, call
`register`. The module, and the library that it needs, are imported when a table is written.
"""

from __future__ import annotations

import re

from dynq_cli.records import record


@record(frozen=True)
class MirrorKind:
    """`example` shows what `to` looks like.

    `module` has `open_mirror(to: str, table: str) -> Mirror`. A kind that is `one_table` has no name of a table.
    """

    name: str
    starts: tuple[str, ...]
    module: str
    example: str
    one_table: bool = False


_BUILT_IN = (
    MirrorKind(
        "PostgreSQL",
        ("postgresql://", "postgres://"),
        "dynq_cli.io.tables.postgresql",
        "postgresql://HOST/DATABASE",
    ),
    MirrorKind("DuckDB", ("duckdb:///",), "dynq_cli.io.tables.duckdb_file", "duckdb:///FILE"),
    MirrorKind("Delta", ("delta:",), "dynq_cli.io.tables.delta_mirror", "delta:DIRECTORY", one_table=True),
)
_KINDS: dict[str, MirrorKind] = {}
_PASSWORD = re.compile(r"(?<=://)([^/?#@]*?):[^/?#]*@")
_PARAMETER = re.compile(r"(?<=[?&])(password|sslpassword)=[^&]*", re.IGNORECASE)


def register(kind: MirrorKind) -> None:
    """Make a kind known to `outputs:` and to messages. A name is given once."""
    if kind.name in _KINDS:
        raise ValueError(f"there is a kind of mirror {kind.name} already")
    _KINDS[kind.name] = kind


def find(to: str) -> MirrorKind | None:
    """The kind of table that `to` names; None if there is none, or nothing behind its beginning.

    >>> find("duckdb:///shop.duckdb").name, find("duckdb:///"), find("mysql://db/shop")
    ('DuckDB', None, None)
    """
    return next(
        (k for k in _KINDS.values() for start in k.starts if to.startswith(start) and len(to) > len(start)), None
    )


def examples() -> tuple[str, ...]:
    """What `to` may look like."""
    return tuple(kind.example for kind in _KINDS.values())


def without_password(to: str) -> str:
    """`to` as it may be shown.

    >>> without_password("postgresql://ann:p%40ss@db:5432/shop?sslmode=require&password=x")
    'postgresql://ann:***@db:5432/shop?sslmode=require&password=***'
    """
    return _PARAMETER.sub(r"\1=***", _PASSWORD.sub(r"\1:***@", to))


for _each in _BUILT_IN:
    register(_each)
