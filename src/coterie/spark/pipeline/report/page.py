"""From answers to a page: which tiles, charts and tables there are, and what the sentences say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Final

from coterie.spark.pipeline.report import charts
from coterie.spark.pipeline.report.figures import Answer
from coterie.spark.pipeline.report.parts import Block, Column, Legend, Page, Section, Tile, table
from coterie.spark.pipeline.report.scales import ValueAxis, counts, durations, times
from coterie.spark.pipeline.report.words import behind, count, duration, moment, short_count

__all__ = ["make_page"]

Answers = Mapping[str, Answer]
Axis = Callable[[float], ValueAxis]
Words = Callable[[float], str]
Row = Mapping[str, Any]

_WIDE: Final = 1040
_NARROW: Final = 350
_HOUR: Final = 3600
_FURTHEST: Final = "Of six groups at most: those that were furthest behind."
#: The same cause has the same colour in every report.
_CAUSES: Final = {
    "member_churn": 0,
    "subscription_change": 3,
    "partition_count_change": 2,
    "static_restart": 5,
    "coordinator_move": 1,
    "unknown": 7,
}
_STATES: Final = {
    "Stable": 2,
    "Empty": 7,
    "PreparingRebalance": 1,
    "CompletingRebalance": 4,
    "Assigning": 6,
    "Reconciling": 5,
    "NotReady": 4,
    "Dead": 3,
}


def make_page(answers: Answers, *, source: str, generated_at: datetime) -> Page:
    """The whole report."""
    overview = answers["overview"].first()
    as_of = overview.get("as_of")
    sections = [
        _fleet(answers),
        _lag(answers),
        _rebalances(answers),
        _stale(answers),
        _findings(answers),
        *_resets(answers),
        *_trouble(answers),
    ]
    return Page(
        title="Consumer groups",
        subtitle=f"{source}, as of {moment(as_of)} UTC",
        tiles=_tiles(answers),
        sections=sections,
        tiles_sql=answers["overview"].figure.sql,
        footer=f"Written by coterie pipeline report at {moment(generated_at)} UTC. All times are UTC.",
    )


def _tiles(answers: Answers) -> list[Tile]:
    overview = answers["overview"].first()
    worst = answers["lag_now"].first()
    rebalances = sum(row["rebalances"] for row in answers["rebalances_by_hour"].rows)
    stale = _total(answers["stale_groups"])
    severe = _severe(answers)
    return [
        Tile(
            "Groups",
            count(overview.get("groups") or 0),
            f"{count(overview.get('members') or 0)} members",
        ),
        Tile(
            "5 min+ behind",
            count(overview.get("groups_behind") or 0),
            f"{short_count(overview.get('total_lag') or 0)} records wait",
        ),
        Tile(
            "Worst lag",
            _behind(worst) if worst else duration(0),
            str(worst.get("group_id", "nobody is behind")),
            "warn" if worst.get("lag_seconds") else "good",
        ),
        Tile("Rebalances", count(rebalances), "in 24 hours"),
        Tile("Stale groups", count(stale), "without members", "warn" if stale else "good"),
        Tile(
            "Findings",
            count(_findings_total(answers)),
            f"{count(severe)} critical",
            "bad" if severe else "good",
        ),
    ]


def _findings_total(answers: Answers) -> int:
    return sum(row["findings"] for row in answers["finding_counts"].rows)


def _severe(answers: Answers) -> int:
    rows = answers["finding_counts"].rows
    return sum(row["findings"] for row in rows if row["severity"] == "critical")


# -- the fleet --------------------------------------------------------------------------------------------


def _fleet(answers: Answers) -> Section:
    rows = answers["states"].rows
    by_state: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        by_state[row["state"]] += row["groups"]
    ordered = sorted(by_state.items(), key=lambda item: (-item[1], item[0]))
    parts = [charts.Part(state, size, _STATES.get(state, 6)) for state, size in ordered]
    total = sum(by_state.values())
    legend = [
        Legend(part.name, part.colour, f"{count(part.value)} ({part.value / total:.0%})")
        for part in parts
    ]
    label = "Groups by state: " + ", ".join(f"{part.name} {count(part.value)}" for part in parts)
    columns = (
        Column("State", "state", "pill"),
        Column("Type", "type"),
        Column("Groups", "groups", "count"),
    )
    return Section(
        "fleet",
        "State of the fleet",
        "Every group that the log or a snapshot knows of, by the state that it is in.",
        [
            Block(
                wide=charts.bar(_WIDE, parts, label),
                narrow=charts.bar(_NARROW, parts, label),
                legend=legend,
            ),
            Block(columns=columns, rows=table(columns, rows), sql=answers["states"].figure.sql),
        ],
    )


# -- lag --------------------------------------------------------------------------------------------------


def _lag(answers: Answers) -> Section:
    columns = (
        Column("Group", "group_id", "name"),
        Column("Behind by", "behind", "figure"),
        Column("Records", "lag", "count"),
        Column("Worst partition", "worst_partition", "name"),
        Column("Lagging", "lagging_partitions", "count"),
        Column("Partitions", "partitions", "count"),
        Column("Lost", "lost_records", "count"),
    )
    now = answers["lag_now"]
    blocks = _curves(
        answers["lag_curves"], "In time, of groups with members", "lag_seconds", durations, duration
    )
    blocks += _curves(
        answers["backlog_curves"], "In records, of all but stale groups", "lag", counts, short_count
    )
    if now.rows:
        rows = table(columns, [{**row, "behind": _behind(row)} for row in now.rows])
        blocks.append(
            Block("Behind now", columns=columns, rows=rows, more=_more(now), sql=now.figure.sql)
        )
    else:
        blocks.append(Block(text="Nobody is behind.", sql=now.figure.sql))
    return Section(
        "lag",
        "Worst lag",
        "How old the oldest record is that a group has not read yet, and how many wait. Stale groups"
        " have a section of their own.",
        blocks,
    )


def _curves(answer: Answer, heading: str, key: str, axis: Axis, words: Words) -> list[Block]:
    """Curves of one figure of lag, the highest first; no block without rows."""
    if not answer.rows:
        return []
    found = _by_group(answer)
    peaks = {name: max(row[key] or 0 for row in rows) for name, rows in found.items()}
    order = sorted(found, key=lambda name: -peaks[name])
    moments = [row["at"].timestamp() for row in answer.rows]
    lines = [
        charts.Line(name, [_point(row, key) for row in found[name]], colour)
        for colour, name in enumerate(order)
    ]
    drawn = []
    for width, ticks, height in ((_WIDE, 8, 300), (_NARROW, 3, 230)):
        time = times(min(moments), max(moments), ticks)
        frame = charts.Frame(width, height, left=76)
        label = f"{heading}: {len(order)} curves"
        drawn.append(charts.lines(frame, time, axis(max(peaks.values())), lines, label))
    legend = [
        Legend(name, colour, _peak(found[name], key, words(peaks[name])))
        for colour, name in enumerate(order)
    ]
    return [
        Block(
            heading,
            wide=drawn[0],
            narrow=drawn[1],
            legend=legend,
            more=_FURTHEST,
            sql=answer.figure.sql,
        )
    ]


def _peak(rows: list[Row], key: str, peak: str) -> str:
    """The highest point of a curve. How many records wait is always known, how old they are is not."""
    unsure = key == "lag_seconds" and any(row["at_least"] for row in rows)
    return f"{peak} or more" if unsure else f"up to {peak}"


def _by_group(answer: Answer) -> dict[str, list[Row]]:
    """The rows of each group; they come in the order of groups."""
    return {
        name: list(rows)
        for name, rows in groupby(answer.rows, key=lambda row: str(row["group_id"]))
    }


def _point(row: Row, key: str) -> tuple[float, float | None, str]:
    words = f"{_behind(row)} behind, {count(row['lag'])} records"
    return row["at"].timestamp(), row[key], f"{row['group_id']}\n{moment(row['at'])}: {words}"


def _behind(row: Row) -> str:
    return behind(row["lag_seconds"], at_least=bool(row["at_least"]))


# -- rebalances -------------------------------------------------------------------------------------------


def _rebalances(answers: Answers) -> Section:
    hours, lanes, groups = (
        answers[name] for name in ("rebalances_by_hour", "rebalance_timeline", "rebalance_groups")
    )
    lead = (
        "Every rebalance of the last 24 hours that the log shows, with the cause that its records tell."
        " Generations that left no record count with the next one that did."
    )
    if not hours.rows:
        empty = Block(text="There was none.", sql=hours.figure.sql)
        return Section("rebalances", "Rebalances", lead, [empty])
    columns = (
        Column("Group", "group_id", "name"),
        Column("Rebalances", "rebalances", "count"),
        Column("In storms", "in_storms", "count"),
        Column("Mostly", "most_frequent_cause", "pill"),
        Column("Partitions moved", "moved", "count"),
        Column("Stickiness", "stickiness", "percent"),
        Column("Last", "last", "time"),
    )
    blocks = [
        _hours_chart(hours),
        _timeline(lanes, hours),
        Block(
            "Busiest groups",
            columns=columns,
            rows=table(columns, groups.rows),
            more=_more(groups),
            sql=groups.figure.sql,
        ),
    ]
    return Section("rebalances", "Rebalances", lead, blocks)


def _hour_span(hours: Answer) -> tuple[float, float]:
    starts = [row["hour"].timestamp() for row in hours.rows]
    return min(starts), max(starts) + _HOUR


def _hours_chart(hours: Answer) -> Block:
    totals: defaultdict[str, int] = defaultdict(int)
    for row in hours.rows:
        totals[row["cause"]] += row["rebalances"]
    order = sorted(totals, key=lambda cause: -totals[cause])
    bars, highest = [], 0
    for hour, of_hour in groupby(hours.rows, key=lambda row: row["hour"]):
        rows = sorted(of_hour, key=lambda row: order.index(row["cause"]))
        parts = [
            (_CAUSES.get(row["cause"], 7), row["rebalances"], f"{moment(hour)}: {_hint(row)}")
            for row in rows
        ]
        highest = max(highest, sum(row["rebalances"] for row in rows))
        bars.append(charts.Column(hour.timestamp(), hour.timestamp() + _HOUR, parts))
    drawn = []
    for width, ticks, height in ((_WIDE, 8, 220), (_NARROW, 3, 200)):
        time = times(*_hour_span(hours), ticks)
        frame = charts.Frame(width, height, left=52)
        drawn.append(
            charts.columns(frame, time, counts(highest), bars, "Rebalances per hour by cause")
        )
    return Block(
        "Per hour",
        wide=drawn[0],
        narrow=drawn[1],
        legend=[Legend(_said(c), _CAUSES.get(c, 7), count(totals[c])) for c in order],
        sql=hours.figure.sql,
    )


def _hint(row: Row) -> str:
    return f"{count(row['rebalances'])} by {_said(row['cause'])}"


def _said(cause: str) -> str:
    return cause.replace("_", " ")


def _timeline(lanes: Answer, hours: Answer) -> Block:
    found = _by_group(lanes)
    marks = {name: rows[0]["marks"] for name, rows in found.items()}
    order = sorted(found, key=lambda name: (-found[name][0]["rebalances"], name))
    drawn = []
    for width, ticks, left in ((_WIDE, 7, 220), (_NARROW, 2, 120)):
        time = times(*_hour_span(hours), ticks)
        frame = charts.Frame(width, 26 * len(order) + 40, left=left)
        made = [
            charts.Lane(
                name,
                [
                    charts.Event(
                        r["completed_at"].timestamp(), _CAUSES.get(r["cause"], 7), _event(r)
                    )
                    for r in found[name]
                ],
            )
            for name in order
        ]
        drawn.append(
            charts.timeline(frame, time, made, "Rebalances of the busiest groups over time")
        )
    return Block(
        "Timeline of the busiest groups",
        text="A mark per rebalance with a record, in the colour of its cause; point at one for its details.",
        wide=drawn[0],
        narrow=drawn[1],
        more=_cut_lanes({name: (len(found[name]), marks[name]) for name in order}),
        sql=lanes.figure.sql,
    )


def _cut_lanes(lanes: Mapping[str, tuple[int, int]]) -> str:
    """Which groups have more rebalances than marks: the newest are shown."""
    cut = [
        f"{name} ({count(shown)} of {count(total)})"
        for name, (shown, total) in lanes.items()
        if total > shown
    ]
    return f"Only the newest are shown of {', '.join(cut)}." if cut else ""


def _event(row: Row) -> str:
    said = [
        f"{row['group_id']}, generation {row['generation']}",
        f"{moment(row['completed_at'])}: {_said(row['cause'])}",
    ]
    changes = [
        f"{row[key]} {words}"
        for key, words in (
            ("joined", "joined"),
            ("left", "left"),
            ("partitions_moved", "partitions moved"),
        )
        if row[key] is not None and row[key] > 0
    ]
    if row["duration_seconds"] is not None:
        changes.append(f"took {duration(row['duration_seconds'])}")
    if row["storm"]:
        changes.append("part of a storm")
    return "\n".join([*said, ", ".join(changes)]).strip()


# -- stale groups, findings and the rest ------------------------------------------------------------------


def _total(answer: Answer) -> int:
    """How many rows there would be if the SQL had no limit."""
    found: int = answer.first().get("all_of_them", 0)
    return found


def _more(answer: Answer) -> str:
    shown, total = len(answer.rows), _total(answer)
    said = f"{count(shown)} of {count(total)} are shown; without its LIMIT the SQL gives them all."
    return said if total > shown else ""


def _stale(answers: Answers) -> Section:
    stale, families = answers["stale_groups"], answers["stale_families"]
    columns = (
        Column("Group", "group_id", "name"),
        Column("Idle for", "idle_seconds", "duration"),
        Column("Last commit", "last_commit", "time"),
        Column("Last member", "last_member", "time"),
        Column("Offsets", "offsets", "count"),
        Column("Lag", "total_lag", "count"),
        Column("Expires", "expires_at", "time"),
    )
    of_families = (
        Column("Pattern", "family", "name"),
        Column("Groups", "groups", "count"),
        Column("Longest idle", "longest_idle", "duration"),
    )
    lead = "Groups that have neither members nor commits: dead weight, until their offsets expire."
    command = (
        "coterie pipeline plan --out DIR --to stale.json && coterie groups delete --plan stale.json"
    )
    if not stale.rows:
        return Section(
            "stale", "Stale groups", lead, [Block(text="There are none.", sql=stale.figure.sql)]
        )
    blocks = [
        Block(
            columns=columns,
            rows=table(columns, stale.rows),
            more=_more(stale),
            sql=stale.figure.sql,
        )
    ]
    if families.rows:
        block = Block(
            "Families of random ids",
            columns=of_families,
            rows=table(of_families, families.rows),
            more=_more(families),
            sql=families.figure.sql,
        )
        blocks.insert(0, block)
    return Section("stale", "Stale groups", lead, blocks, count(_total(stale)), command)


def _findings(answers: Answers) -> Section:
    found, by_rule = answers["findings"], answers["finding_counts"]
    lead = "What needs a look, worst first: the evidence, and what to do next."
    if not found.rows:
        return Section(
            "findings", "Findings", lead, [Block(text="All is well.", sql=found.figure.sql)]
        )
    columns = (
        Column("Severity", "severity", "pill"),
        Column("Rule", "rule", "pill"),
        Column("Group", "group_id", "name"),
        Column("Lag", "total_lag", "count"),
        Column("Found in", "extent"),
        Column("Worst", "place", "name"),
        Column("Evidence", "evidence", "words"),
        Column("Next step", "next_step", "words"),
    )
    of_rules = (
        Column("Severity", "severity", "pill"),
        Column("Rule", "rule", "pill"),
        Column("Findings", "findings", "count"),
        Column("Groups", "groups", "count"),
    )
    rows = [{**row, "place": _place(row), "extent": _extent(row)} for row in found.rows]
    return Section(
        "findings",
        "Findings",
        lead,
        [
            Block(
                "By rule",
                columns=of_rules,
                rows=table(of_rules, by_rule.rows),
                sql=by_rule.figure.sql,
            ),
            Block(
                "Worst first",
                text="A row per group and rule, with its worst partition. Lost data comes first, then the"
                " largest lag; stale groups come last.",
                columns=columns,
                rows=table(columns, rows),
                more=_more(found),
                sql=found.figure.sql,
            ),
        ],
        count(_findings_total(answers)),
    )


def _extent(row: Row) -> str | None:
    """Where a rule found something: a rule that is about a group as a whole says nothing."""
    for key in ("partitions", "topics"):
        if row[key]:
            return f"{count(row[key])} {key if row[key] > 1 else key[:-1]}"
    return None


def _place(row: Row) -> str | None:
    if row.get("topic") is None:
        return None
    return row["topic"] if row.get("partition") is None else f"{row['topic']}-{row['partition']}"


def _resets(answers: Answers) -> Sequence[Section]:
    answer = answers["offset_resets"]
    if not answer.rows:
        return []
    columns = (
        Column("Time", "time", "time"),
        Column("Group", "group_id", "name"),
        Column("Partition", "place", "name"),
        Column("From", "from_offset", "count"),
        Column("To", "to_offset", "count"),
        Column("Back by", "moved_back", "count"),
        Column("By", "by", "pill"),
        Column("Client", "client_id", "name"),
    )
    rows = [{**row, "place": _place(row)} for row in answer.rows]
    block = Block(
        columns=columns, rows=table(columns, rows), more=_more(answer), sql=answer.figure.sql
    )
    return [
        Section(
            "resets",
            "Offsets set back",
            "Commits that moved a group backwards, newest first.",
            [block],
            count(_total(answer)),
        )
    ]


def _trouble(answers: Answers) -> Sequence[Section]:
    answer = answers["trouble"]
    if not answer.rows:
        return []
    columns = (
        Column("What", "what"),
        Column("Where", "place", "name"),
        Column("Why", "reason", "words"),
        Column("Read up to", "read_until", "time"),
        Column("When", "at", "time"),
    )
    block = Block(
        columns=columns,
        rows=table(columns, answer.rows),
        more=_more(answer),
        sql=answer.figure.sql,
    )
    lead = (
        "What could not be asked or read. It is missing from everything above: groups of a partition that was"
        " read up to some time may look idle since then."
    )
    return [Section("missing", "Missing", lead, [block], count(_total(answer)))]
