"""Records are dataclasses that are cheaper to define: made, compared, hashed and shown alike."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import pytest

from dynq_cli.records import record


class Shape:
    """The body of both: defaults, a factory, a field that does not count, and one that is not shown."""

    x: int
    y: str = "a"
    many: tuple[int, ...] = field(default_factory=tuple)
    place: object = field(default=None, compare=False)
    hidden: int = field(default=0, repr=False)

    def doubled(self) -> int:
        return 2 * self.x


def both(frozen: bool) -> tuple[Any, Any]:
    made = [type("Shape", (), dict(Shape.__dict__)) for _ in range(2)]
    return record(frozen=frozen)(made[0]), dataclass(frozen=frozen)(made[1])


GIVEN = [(1,), (1, "b"), (1, "a", (2,)), (1, "a", (), "here"), (1, "a", (), None, 3), (2,)]


@pytest.mark.parametrize("frozen", [True, False])
def test_a_record_is_made_shown_and_compared_as_a_dataclass(frozen: bool) -> None:
    mine, theirs = both(frozen)
    for given in GIVEN:
        a, b = mine(*given), theirs(*given)
        assert repr(a) == repr(b) and asdict(a) == asdict(b) and a.doubled() == b.doubled()
        assert (a == b) is False and (a == 1) is False
        assert [f.name for f in fields(a)] == [f.name for f in fields(b)]
        assert replace(a, x=5) == mine(5, *given[1:])
        for other in GIVEN:
            assert (a == mine(*other)) == (b == theirs(*other))
            if frozen:
                assert (hash(a) == hash(mine(*other))) == (hash(b) == hash(theirs(*other)))
    if not frozen:
        with pytest.raises(TypeError, match="unhashable"):
            hash(mine(1))
    with pytest.raises(TypeError):
        mine()


def test_records_inherit_and_keep_what_they_define() -> None:
    @record(frozen=True)
    class Base:
        x: int

    @record(frozen=True)
    class Derived(Base):
        y: int = 2

        def __repr__(self) -> str:
            return "mine"

    @record(frozen=True)
    class Empty:
        pass

    assert Derived(1) == Derived(1, 2) != Derived(1, 3)
    assert Derived(1) != Base(1) and repr(Derived(1)) == "mine"
    assert Empty() == Empty() and hash(Empty()) == hash(Empty())
