"""`--reset-offsets`: where the offsets of inactive groups would go; with `--execute` they go there."""

from __future__ import annotations

from coterie.cli.consumer_groups import plans
from coterie.cli.consumer_groups.checks import SCENARIOS, Usage, parse_partitions
from coterie.cli.consumer_groups.describing import descriptions
from coterie.cli.consumer_groups.java import Throwable, api_exception, class_of, execution, runtime
from coterie.cli.consumer_groups.options import Options
from coterie.cli.consumer_groups.output import Column, table
from coterie.cli.consumer_groups.scenarios import Lookups, Scenarios
from coterie.cli.consumer_groups.session import NotCreated, Session, code_in
from coterie.client import GroupState, TopicPartition
from coterie.error_codes import ErrorCode
from coterie.errors import CoterieError

__all__ = ["reset_offsets"]

_INACTIVE = frozenset({GroupState.EMPTY, GroupState.DEAD})
_NOT_FOUND = class_of(ErrorCode.GROUP_ID_NOT_FOUND.name)
_COLUMNS: tuple[Column, ...] = (
    ("GROUP", 15), ("TOPIC", 15), ("PARTITION", 10), ("NEW-OFFSET", None),
)  # fmt: skip


async def reset_offsets(session: Session, options: Options) -> tuple[int, int]:
    """Plan, execute if told to, and print; returns how many groups were done and how many not."""
    resetter = _Resetter(session, options)
    plan = await resetter.run()
    out = session.out
    if options.has("export"):
        single = len(options.values("group")) == 1
        out.line(plans.export(plan, with_group=not single))
    elif plan:
        rows = [
            (out.name(group), out.name(each.topic), str(each.partition), str(offset))
            for group, offsets in plan.items()
            for each, offset in offsets.items()
        ]
        out.write(table(_COLUMNS, rows, fit=(0, 1)) + "\n")
    else:
        out.line("")
    return len(plan) - resetter.refused, resetter.refused


class _Resetter:
    def __init__(self, session: Session, options: Options) -> None:
        self._session = session
        self._options = options
        self._lookups = Lookups(session)
        self._scenarios = Scenarios(session, options, self._lookups)
        #: Groups that stay as they are.
        self.refused = 0

    async def run(self) -> plans.Plan:
        session, options = self._session, self._options
        if not options.has("all-groups"):
            try:
                await session.open("describeConsumerGroups(api=FIND_COORDINATOR)")
            except NotCreated:
                raise
            except Throwable as error:
                raise runtime(execution(error)) from None
        names = await session.selected(options)
        known, errors = await descriptions(session, names)
        self._lookups.expect(
            name for name in names if name not in known or known[name].state in _INACTIVE
        )
        plan: plans.Plan = {}
        for name in names:
            thrown = errors.get(name)
            if thrown is not None and thrown.class_name != _NOT_FOUND:
                raise runtime(execution(thrown))
            group = known.get(name)
            if group is None or group.state in _INACTIVE:
                plan[name] = await self._inactive(name)
                continue
            session.out.error(
                f"Assignments can only be reset if the group '{name}' is inactive, but the current "
                f"state is {group.state}."
            )
            self.refused += 1
            plan[name] = {}
        self.refused += self._scenarios.without_plan
        return plan

    async def _inactive(self, group: str) -> dict[TopicPartition, int]:
        partitions = await self._partitions(group)
        await self._check(partitions)
        targets = await self._scenarios.targets(group, partitions)
        if targets is None:
            names = ", ".join(f"[{name}]" for name in SCENARIOS)
            raise Usage(
                f"Option '[reset-offsets]' requires one of the following scenarios: [{names}]"
            )
        if self._options.has("execute") and not self._options.has("dry-run") and targets:
            await self._commit(group, targets)
        return targets

    async def _partitions(self, group: str) -> list[TopicPartition]:
        session, options = self._session, self._options
        if options.has("all-topics"):
            return list(await self._scenarios.committed(group))
        if not options.has("topic"):
            if not options.has("from-file"):
                raise Usage("One of the reset scopes should be defined: --all-topics, --topic.")
            return []
        arguments = options.values("topic")
        found = [each for one in arguments if ":" in one for each in parse_partitions(one)]
        topics = list(dict.fromkeys(each for each in arguments if ":" not in each))
        if topics:
            described = await self._lookups.topics(topics)
            for error in described.errors.values():
                raise session.translate(error)
            for topic in described:
                found += [TopicPartition(topic.name, each.partition) for each in topic.partitions]
        return list(dict.fromkeys(found))

    async def _check(self, partitions: list[TopicPartition]) -> None:
        """Partitions that are not there, or have no leader, are an error before anything is planned."""
        if not partitions:
            return
        session = self._session
        topics = list(dict.fromkeys(each.topic for each in partitions))
        described = await self._lookups.topics(topics)
        for error in described.errors.values():
            raise runtime(execution(session.translate(error)))
        leaders = {
            TopicPartition(topic.name, each.partition): each.leader
            for topic in described
            for each in topic.partitions
        }
        for code, problem, bad in (
            (
                "UNKNOWN_TOPIC_OR_PARTITION",
                "do not exist",
                [p for p in partitions if p not in leaders],
            ),
            (
                "LEADER_NOT_AVAILABLE",
                "have no leader",
                [p for p in partitions if leaders.get(p) is None],
            ),
        ):
            if bad:
                raise api_exception(code, f'The partitions "{",".join(map(str, bad))}" {problem}')

    async def _commit(self, group: str, targets: dict[TopicPartition, int]) -> None:
        session = self._session
        try:
            result = await session.admin.alter_offsets({group: targets}, timeout=session.seconds)
        except CoterieError as error:
            raise session.translate(error) from None
        for trouble in result.errors.values():
            thrown = session.translate(trouble)
            if thrown.class_name == class_of(ErrorCode.GROUP_AUTHORIZATION_FAILED.name):
                raise _not_altered(thrown.class_name, list(targets))
            raise thrown
        failed = result[group].errors
        for text in failed.values():
            raise _not_altered(class_of(code_in(text).name), list(failed))


def _not_altered(class_name: str, partitions: list[TopicPartition]) -> Throwable:
    names = ", ".join(map(str, partitions))
    return Throwable(
        class_name, f"Failed altering group offsets for the following partitions: [{names}]"
    )
