"""`require:` holds a plan to its promises: what is promised less is refused with the witness, nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynq_cli.cli.app import main
from dynq_cli.errors import RejectedError, SpecError
from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.require import check_required, holds
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec
from dynq_cli.spec.queries import GUARANTEES
from tests.every_case import every_case
from tests.plan.planned import RELATIONS
from tests.plan.test_program_cost import bounds

PATH = "q(x, z) :- R(x, y), S(y, z)"
PLAIN = "q(x, y, z) :- R(x, y), S(y, z)"


def check(query: str, require: str) -> None:
    text = f'{RELATIONS}  q:\n    rule: "{query}"\n    require: {require}\n'
    spec = parse_spec(text, "spec.yaml")
    check_required([plan_query(q, spec) for q in compile_spec(spec).values()], spec)


def test_every_promise_can_be_required_as_it_is_made() -> None:
    for query in (PATH, PLAIN):
        promised = bounds(query)
        assert set(promised) == set(GUARANTEES)
        plain = {name: bound for name, bound in promised.items() if "q/" not in bound}
        check(query, str(plain).replace("'", ""))


@pytest.mark.parametrize(
    ("require", "said"),
    [
        ("{update: O(log n)}", "update in O(log n) is required, and O(n) promised: R: each row of S with the same y"),
        ("{space: O(n)}", "space in O(n) is required, and O(n + |q/2|) promised"),
        ("{jth: O(1)}", "jth in O(1) is required, and O(n) promised"),
    ],
)
def test_what_is_promised_less_is_refused_with_place_and_witness(require: str, said: str) -> None:
    with pytest.raises(RejectedError) as error:
        check(PATH, require)
    assert said in str(error.value)
    assert "linked only through y" in str(error.value)
    assert str(error.value).startswith("spec.yaml:")
    check(PLAIN, require.replace("jth: O(1)", "jth: O(n)"))


@every_case(
    ("promised", "required", "is_met"),
    [
        ("O(1)", "O(1)", True),
        ("O(1)", "O(n^2)", True),
        ("O(log n)", "O(1)", False),
        ("O(n log n)", "O(n)", False),
        ("O(n log n)", "O(n^1.5)", True),
        ("O(n^1.5)", "O(n log n)", False),
        ("O(n + |v|)", "O(n)", False),
        ("O(n + |v|)", "O(n + |v|)", True),
        ("O(|Δ|)", "O(n)", False),
        ("O(|a| + |b|)", "O(|b| + |a|)", True),
    ],
)
def test_bounds_compare_by_their_terms(promised: str, required: str, is_met: bool) -> None:
    assert holds(promised, required) is is_met


@pytest.mark.parametrize(
    "require", ["{updates: O(1)}", "{update: log n}", "{update: O(m)}", "O(1)", "[update]", "{}", "{update: O()}"]
)
def test_what_is_no_requirement_is_an_error_with_its_place(require: str) -> None:
    with pytest.raises(SpecError, match=r"spec\.yaml:[0-9]+:[0-9]+"):
        check(PLAIN, require)


def test_init_makes_no_state_and_explain_ends_with_exit_3_after_all_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(f'{RELATIONS}  q:\n    rule: "{PATH}"\n    require: {{update: O(1)}}\n')
    assert main(["init", "spec.yaml"]) == 3
    assert not Path(".dynq").exists()
    assert "query q: update in O(1) is required, and O(n) promised" in capsys.readouterr().err
    assert main(["explain", "spec.yaml"]) == 3
    captured = capsys.readouterr()
    assert "  theory" in captured.out and "  refused     update in O(1) is required" in captured.out
    assert main(["explain", "spec.yaml", "--json"]) == 3
    assert '"unmet": {' in capsys.readouterr().out
    Path("spec.yaml").write_text(f'{RELATIONS}  q:\n    rule: "{PLAIN}"\n    require: {{update: O(1)}}\n')
    assert main(["init", "spec.yaml"]) == 0
