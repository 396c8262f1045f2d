"""The allow-list: immutable functions mean what DuckDB means by them, all others are refused."""

from __future__ import annotations

import pytest

from dynq_cli.query.as_sql import as_sql
from dynq_cli.query.normal_form import ConjunctiveQuery
from dynq_cli.query.problems import QueryProblems
from dynq_cli.query.sql import compile_sql
from tests.every_case import every_case
from tests.query.meaning import database, make_query, make_spec, rows

SPEC = make_spec()

NUMBERS = """
abs(a) · ceil(f) · ceiling(f) · floor(f) · round(f, 1) · round(f) · sign(a) · mod(a, 3) · a % 3 · a // 2 · a / 2
pow(a, 2) · power(a, 2) · a ** 2 · a ^ 2 · sqrt(abs(f)) · cbrt(f) · exp(f) · ln(abs(f) + 1) · log(abs(f) + 1)
trunc(f) · greatest(a, 2) · least(a, b) · sin(f) · cos(f) · tan(f) · atan(f) · atan2(f, f)
degrees(f) · radians(f) · pi() · even(f) · gcd(a, 4) · lcm(a, 4) · a & 3 · a | 3 · xor(a, 3) · (a + 9) << 1
(a + 9) >> 1 · ~a · bit_count(a) · isnan(f) · isinf(f) · isfinite(f) · -a · a - -1 · (a + 1) * (a - 1) · 2 - (a - 1)
m * 3 - (a - m) · a - (a - (a - 1)) · 10 / (2 / 4.0) · fmod(f, 2) · @a
"""

STRINGS = """
lower(c) · upper(c) · lcase(c) · length(c) · len(c) · strlen(c) · trim(c) · ltrim(c) · rtrim(c) · trim(c, 'a')
trim(BOTH 'a' FROM c) · replace(c, 'a', 'b') · substring(c, 1, 2) · substr(c, 2) · substring(c FROM 1 FOR 2)
left(c, 2) · right(c, 2) · reverse(c) · repeat(c, 2) · lpad(c, 5, 'x') · rpad(c, 5, 'x') · concat(c, 'a', a, b)
concat_ws('-', c, a) · c || 'x' || c · starts_with(c, 'a') · c ^@ 'a' · ends_with(c, 'b') · suffix(c, 'a')
prefix(c, 'a') · contains(c, 'b') · instr(c, 'b') · strpos(c, 'b') · position('b' IN c) · split_part(c, 'b', 1)
regexp_matches(c, 'a.') · regexp_matches(c, 'A', 'i') · regexp_full_match(c, 'a.*') · regexp_replace(c, 'a', 'z')
regexp_replace(c, '[ab]', 'z', 'g') · regexp_extract(c, '(a)(b)', 1) · c LIKE 'a%' · c NOT LIKE 'a%' · c ILIKE 'A%'
c NOT ILIKE 'A%' · c SIMILAR TO 'a.*' · c GLOB 'a*' · c LIKE '100#%' ESCAPE '#' · ascii(c) · unicode(c) · chr(65)
md5(c) · sha256(c) · levenshtein(c, 'ab') · translate(c, 'a', 'b') · printf('%d', a) · hex(c) · c ~~ 'a%'
strip_accents(c) · nfc_normalize(c) · 'a''b' · c || '{0}' || '"' || chr(34)
"""

TIMES = """
year(d) · month(d) · day(d) · quarter(d) · week(d) · dayofweek(d) · isodow(d) · dayofyear(d) · weekofyear(d)
weekday(d) · yearweek(d) · isoyear(d) · decade(d) · century(d) · hour(t) · minute(t) · second(t) · millisecond(t)
microsecond(t) · epoch(t) · epoch_us(t) · extract(year FROM d) · extract(dow FROM t) · extract(epoch FROM t)
date_part('year', d) · datepart('month', t) · date_trunc('month', t) · date_trunc('month', d) · date_trunc('day', t)
date_diff('day', d, DATE '2020-01-01') · datediff('month', d, DATE '2019-12-31') · date_sub('month', d, d)
date_add(d, INTERVAL 1 DAY) · dayname(d) · monthname(d) · last_day(d) · make_date(2020, 1, 2)
make_timestamp(2020, 1, 2, 3, 4, 5.5) · make_time(1, 2, 3.5) · strftime(d, '%Y-%m') · strftime(t, '%H:%M')
strptime('2020-01-01', '%Y-%m-%d') · try_strptime(c, '%Y') · d + 1 · d - 1 · d - DATE '2020-01-01'
d + INTERVAL 1 DAY · d - INTERVAL '1 month' · t + INTERVAL '1h' · t + INTERVAL '1 hour 30 minutes'
t - INTERVAL (a) MINUTE · t + to_hours(3) · t + to_days(3) · t + to_months(1) · t::date · CAST(t AS TIME)
time_bucket(INTERVAL '1 day', t) · t + INTERVAL '1' WEEK · date(t) · d::TIMESTAMP
"""

OTHERS = """
CASE WHEN a > 1 THEN 'a' ELSE 'b' END · CASE a WHEN 1 THEN 2 END · coalesce(b, a) · ifnull(b, a) · nullif(a, 1)
if(a > 1, 2, 3) · TRY_CAST(c AS INT) · CAST(a AS VARCHAR) · a::double · a::decimal(10,2) · a::smallint · a::hugeint
b IS NULL · b IS NOT NULL · b ISNULL · a IS DISTINCT FROM 2 · b IS NOT DISTINCT FROM a · a BETWEEN 1 AND 2
a NOT BETWEEN 1 AND 2 · a IN (1, 2) · a NOT IN (1, 2, b) · c IN ('a', 'b') · NOT (a = 1) · a = 1 OR c = 'a'
a = 1 AND NOT k · a <> 1 · a == 1 · k IS TRUE · k IS NOT FALSE · k IS UNKNOWN · NOT k · (a, 2) IN ((1, 2), (3, 2))
(a = 1) = k · NOT a = 1 AND k · 1_000 · 1e3 · -(a + 1) · NULL::int · CAST('1' AS INT) + a
"""

ALLOWED = [
    e.strip() for block in (NUMBERS, STRINGS, TIMES, OTHERS) for line in block.splitlines() for e in line.split("·")
]
ALLOWED = [e for e in ALLOWED if e]

REFUSED = """
random() · uuid() · gen_random_uuid() · setseed(0.5)
nextval('a') · current_user · current_schema() · version() · current_setting('a') · getvariable('x') · hash(c)
typeof(a) · error(c) · txid_current() · list_value(a) · [a] · {'x': a} · unnest([a]) · range(a) · c[1] · c[1:2]
string_split(c, ',') · read_text('x') · c COLLATE nocase · t AT TIME ZONE 'UTC' · t::timestamptz · a::int[]
log2(a) · log10(a) · c ~ 'a' · c !~ 'a'
write_log(c) · a::uuid · c::json · to_timestamp(a) · getenv('HOME') · timezone(t)
COLUMNS('a') · MAP {'a': 1} · e'a' · row(a, b) · struct_pack(x := a) · current_time
""".replace("\n", " · ")


@every_case("expression", ALLOWED)
def test_an_allowed_expression_means_what_duckdb_means(expression: str) -> None:
    text = f"SELECT {expression} AS v FROM r"
    compiled = compile_sql(text, SPEC, make_query(text))
    for seed in (0, 1, 2, 5):
        assert rows(database(seed), as_sql(compiled)) == rows(database(seed), text)


@every_case("expression", ALLOWED)
def test_what_is_said_to_be_never_null_is_never_null(expression: str) -> None:
    text = f"SELECT {expression} AS v FROM r"
    if not compile_sql(text, SPEC, make_query(text)).columns[0].nullable:
        for seed in range(12):
            assert (None,) not in rows(database(seed), text)


@every_case("expression", ALLOWED)
def test_an_allowed_expression_stands_safely_inside_another(expression: str) -> None:
    text = f"SELECT a, q.sc FROM r, (SELECT c AS sc FROM s) q WHERE ({expression})::VARCHAR = q.sc"
    compiled = compile_sql(text, SPEC, make_query(text))
    assert isinstance(compiled, ConjunctiveQuery)
    for seed in (2, 5):
        assert rows(database(seed), as_sql(compiled)) == rows(database(seed), text)


@every_case("expression", [e.strip() for e in REFUSED.split("·") if e.strip()])
def test_what_is_not_immutable_or_not_scalar_is_refused_at_its_place(expression: str) -> None:
    text = f"SELECT a, {expression} AS v FROM r"
    with pytest.raises(QueryProblems) as raised:
        compile_sql(text, SPEC, make_query(text))
    for problem in raised.value.problems:
        assert problem.offset >= len("SELECT a, ")
        assert problem.hint
