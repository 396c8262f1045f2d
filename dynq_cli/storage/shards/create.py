"""Make a state of shards: a spec for each group, and an ordinary state for each shard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dynq_cli.atomic import atomic_directory
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError
from dynq_cli.plan.shards import Group, ShardPlan, plan_shards
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.clock import system_time
from dynq_cli.spec.model import HIDDEN, Spec
from dynq_cli.spec.part import part_of
from dynq_cli.spec.source import read_source
from dynq_cli.storage.clock import clock_changes
from dynq_cli.storage.layout import LOCK, SPEC, checksum_of, write_new
from dynq_cli.storage.ledger import AppliedLog
from dynq_cli.storage.plans import Planned, plan_new_spec
from dynq_cli.storage.shards.lanes import Lanes
from dynq_cli.storage.shards.manifest import MEMBERS, ShardsManifest, member_directory, write_shards
from dynq_cli.storage.shards.routing import Member, Router
from dynq_cli.storage.shards.state import ShardedState
from dynq_cli.storage.state import StrPath, refuse_existing, write_first

if TYPE_CHECKING:
    from typing import TypeAlias

Load: TypeAlias = "Callable[[Spec, Mapping[Member, Views], Router, Lanes], Sequence[AppliedLog]]"


def create_sharded(
    spec: StrPath,
    state: StrPath,
    shards: int,
    load: Load = lambda spec, views, router, lanes: (),
    marks: Callable[[Spec], Sequence[str]] = lambda spec: (),
    now: int | None = None,
) -> ShardedState:
    """Create a state of shards at version 0, with the rows that `load` puts into the shards. All or nothing."""
    directory = Path(state)
    refuse_existing(directory, spec)
    source = read_source(spec)
    whole = plan_new_spec(source.text, source.file)  # which tells all that is wrong with the spec
    mirror = next((output for output in whole.spec.outputs if output.kind == "mirror"), None)
    if mirror is not None:
        raise RejectedError(
            f"{mirror.place}: a state of shards keeps no mirrors; nothing was made\n"
            "  hint: leave --shards out, or write the changes with an output of `kind: diff`"
        )
    plan = plan_shards(whole.spec, compile_spec(whole.spec), shards)
    clock = system_time() if now is None else now
    texts = {group.name: part_text(source.text, whole.spec, group) for group in plan.groups}
    planned = {name: plan_new_spec(text, SPEC) for name, text in texts.items()}
    views = {
        (group.name, i): Views(planned[group.name].spec, planned[group.name].kept)
        for group in plan.groups
        for i in range(group.size)
    }
    lanes = Lanes()
    try:
        logs = load(whole.spec, views, Router(whole.spec, plan), lanes)
        with atomic_directory(directory) as made:
            (made / MEMBERS).mkdir()

            def write(member: Member) -> None:
                text, shard = texts[member[0]], member_directory(made, *member)
                shard.mkdir()
                views[member].take(clock_changes(views[member], clock))
                write_first(shard, planned[member[0]], text, views[member], logs)

            lanes.map(write, views)
            write_new(made / SPEC, source.text.encode())
            write_new(made / LOCK, b"")
            named = dict.fromkeys(marks(whole.spec), 0)
            write_shards(made, _first(whole, source.text, plan, clock, named))
            for member in views:
                _keep_marked(member_directory(made, *member), named)
    finally:
        lanes.close()
    return ShardedState(directory)


def _first(whole: Planned, text: str, plan: ShardPlan, clock: int, marks: Mapping[str, int]) -> ShardsManifest:
    shown = tuple(name for name in whole.plans if not name.startswith(HIDDEN))
    return ShardsManifest(0, 0, checksum_of(text.encode()), shown, plan, system_time(), clock, marks=marks)


def _keep_marked(shard: Path, marks: Mapping[str, int]) -> None:
    from dynq_cli.storage.shards.state import keep_versions

    if marks:
        keep_versions(shard, set(marks.values()))


def part_text(text: str, spec: Spec, group: Group) -> str:
    """Return the spec of a group: its queries, their relations, and the models over them."""
    queries = [*(placed.query for placed in group.queries), *group.extra]
    models = [model.name for model in spec.models if model.over in queries]
    return part_of(text, group.relations, queries, models)
