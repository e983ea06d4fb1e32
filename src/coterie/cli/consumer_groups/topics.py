"""What `--topic` says: a topic, or a topic and some of its partitions, as in `orders:0,1`."""

from __future__ import annotations

from coterie.cli.consumer_groups.checks import Usage
from coterie.client import TopicPartition

__all__ = ["parse_partitions"]

_INT = 1 << 31


def parse_partitions(argument: str) -> list[TopicPartition]:
    """The partitions in `orders:0,1`; Java's split drops empty parts at the end."""
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
