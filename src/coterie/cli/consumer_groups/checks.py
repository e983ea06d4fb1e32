"""The checks of Kafka's tool, in its order and wording: which options go together, what `--topic` names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from coterie.cli.consumer_groups.options import Options

if TYPE_CHECKING:
    from coterie.client import TopicPartition

__all__ = [
    "ACTIONS",
    "DESCRIPTION",
    "SCENARIOS",
    "Usage",
    "check",
    "check_one_action",
    "parse_partitions",
]

_INT: Final = 1 << 31

ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
#: In the order of Kafka's hash set, so far as one can speak of it.
SCENARIOS: Final = (
    "to-datetime", "from-file", "shift-by", "to-offset", "to-earliest", "to-current", "to-latest",
    "by-duration",
)  # fmt: skip
#: The order in which two scenarios at once are found out.
_SCENARIOS_CHECKED: Final = (
    "to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current", "shift-by",
    "from-file",
)  # fmt: skip

DESCRIPTION: Final = (
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer group "
    "info, or reset consumer group offsets."
)
_NOT_EXECUTED: Final = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this "
    "command will require either --dry-run or --execute to be specified. You should add the "
    "--dry-run option explicitly if you are scripting this command and want to keep the current "
    "default behavior without prompting."
)


class Usage(Exception):
    """A command line that cannot be run; the message goes before the usage text."""


def check(options: Options) -> str | None:
    """Raise Usage for options that do not fit together; returns a warning for stderr, if there is one.

    A warning that stands before a complaint travels in the complaint.
    """
    if not options.has("bootstrap-server", "validate-regex"):
        raise Usage('Missing required argument "[bootstrap-server]"')
    if options.has("describe"):
        _check_describe(options)
    if options.has("delete"):
        _check_groups(options, "delete")
        if options.has("topic"):
            raise Usage(
                "The consumer does not support topic-specific offset deletion from a consumer group."
            )
    if options.has("delete-offsets") and not (options.has("group") and options.has("topic")):
        raise Usage("Option [delete-offsets] takes the following options: [topic], [group]")
    warning = _check_reset(options) if options.has("reset-offsets") else None
    _exclude(options, "group", ("all-groups",), warning)
    _exclude(options, "group", ("list",), warning)
    by_topic = options.has("kip-181") and options.has("describe")
    _exclude(options, "topic", ("list", "state") if by_topic else ("list", "describe"), warning)
    return warning


def check_one_action(options: Options) -> None:
    if sum(options.has(action) for action in ACTIONS) != 1:
        actions = ", ".join(f"--{action}" for action in ACTIONS)
        raise Usage(f"Command must include exactly one action: {actions}")


def _check_describe(options: Options) -> None:
    _check_groups(options, "describe")
    if sum(options.has(view) for view in ("members", "offsets", "state")) > 1:
        raise Usage(
            "Option [describe] takes at most one of these options: [members], [offsets], [state]"
        )
    if options.value("state") is not None:
        raise Usage("Option [describe] does not take a value for [state]")


def _check_groups(options: Options, action: str, warning: str | None = None) -> None:
    if not options.has("group", "all-groups"):
        text = f"Option [{action}] takes one of these options: [all-groups], [group]"
        raise Usage(_after(warning, text))


def _check_reset(options: Options) -> str | None:
    if options.has("dry-run") and options.has("execute"):
        raise Usage("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    warning = None if options.has("dry-run", "execute") else _NOT_EXECUTED
    _check_groups(options, "reset-offsets", warning)
    for scenario in _SCENARIOS_CHECKED:
        _exclude(options, scenario, [each for each in SCENARIOS if each != scenario], warning)
    return warning


def _exclude(
    options: Options, name: str, others: tuple[str, ...] | list[str], warning: str | None
) -> None:
    if not options.has(name):
        return
    for other in others:
        if options.has(other):
            text = f'Option "[{name}]" can\'t be used with option "[{other}]"'
            raise Usage(_after(warning, text))


def _after(warning: str | None, text: str) -> str:
    return text if warning is None else f"{warning}\n{text}"


def parse_partitions(argument: str) -> list[TopicPartition]:
    """The partitions in `--topic orders:0,1`; Java's split drops empty parts at the end."""
    from coterie.client import TopicPartition

    parts = argument.rstrip(":").split(":")
    if len(parts) != 2:  # noqa: PLR2004 - a name and its partitions
        raise Usage(f"Invalid topic arg '{argument}', expected topic name and partitions")
    topic, numbers = parts
    return [
        TopicPartition(topic, _number(each, argument)) for each in numbers.rstrip(",").split(",")
    ]


def _number(text: str, argument: str) -> int:
    digits = text[1:] if text[:1] in {"-", "+"} else text
    if digits.isdecimal() and -_INT <= int(text) < _INT:
        return int(text)
    # The quote too many is Kafka's.
    raise Usage(f"Invalid partition '{text}' specified in topic arg '{argument}''")
