"""The languages that queries are written in, each under its own key of the spec.

To add one, write a module with `compile_text` and `duckdb_text` and name it in `_BUILT_IN`; from outside, call
`register`. The module is imported when a query of the language is compiled.
"""

from __future__ import annotations

from dynq_cli.records import record


@record(frozen=True)
class Language:
    """`key` is what stands in the spec, `hint` what to write below it, `noun` what one text of several is called.

    `module` has two functions:

        compile_text(text: str, spec: Spec, query: QuerySpec) -> Query     raises QueryProblems, with places in the text
        duckdb_text(text: str, spec: Spec) -> str | None      what DuckDB is asked for the same result; None: the normal
                                                              form as SQL

    A query `may_be_list` of texts with the same columns, which are united. `synonyms` are words that people write for
    the key.
    """

    key: str
    module: str
    hint: str
    noun: str = ""
    may_be_list: bool = False
    synonyms: tuple[str, ...] = ()


_BUILT_IN = (
    Language(
        "sql",
        "dynq_cli.query.sql",
        "write one SELECT, as in `sql: SELECT a FROM t`, or indented below `sql: >`",
        synonyms=("query", "select"),
    ),
    Language(
        "rule",
        "dynq_cli.query.rule",
        'write a rule, as in `rule: "Q(x) :- R(x, y)"`, or a list of rules with one head',
        noun="a rule",
        may_be_list=True,
        synonyms=("rules", "datalog"),
    ),
    Language(
        "formula",
        "dynq_cli.query.formula",
        'write a formula, as in `formula: "q(x) := R(x) and forall y: S(x, y) -> T(y)"`',
        synonyms=("logic", "fo"),
    ),
)

_BY_KEY: dict[str, Language] = {}


def register(language: Language) -> None:
    """Make a language known to specs and to messages. A key is given once."""
    if language.key in _BY_KEY:
        raise ValueError(f"there is a language {language.key} already")
    _BY_KEY[language.key] = language


def languages() -> tuple[Language, ...]:
    """All languages, in the order in which they are registered."""
    return tuple(_BY_KEY.values())


def language_of(key: str) -> Language:
    """The language that has a key."""
    return _BY_KEY[key]


def keys_shown() -> str:
    """The keys as a hint lists them.

    >>> keys_shown()
    '`sql:`, `rule:` or `formula:`'
    """
    *first, last = (f"`{each.key}:`" for each in languages())
    return f"{', '.join(first)} or {last}" if first else last


for _each in _BUILT_IN:
    register(_each)
