"""What records of groups say last: of a group as a whole, and of a member where members have their own.

Shared by groups_now.py and members_now.py.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

__all__ = ["about_members", "about_whole_groups", "latest", "latest_of_groups"]


def about_whole_groups() -> Column:
    """Whether a record is about a group as a whole."""
    return F.col("record").rlike("^(Consumer|Share|Streams|)GroupMetadata$")


def about_members() -> Column:
    """Whether a record says who a member is; classic groups have their members in the group's record."""
    return F.col("record").rlike("^(Consumer|Share|Streams)GroupMemberMetadata$")


def latest_of_groups(events: DataFrame) -> DataFrame:
    """The newest record of each group as a whole, of whichever protocol: groups may change theirs."""
    return latest(events.where(about_whole_groups()), ["group_id"])


def latest(rows: DataFrame, keys: list[str]) -> DataFrame:
    """The last row of each key, in the order of the log."""
    backwards = Window.partitionBy(*keys).orderBy(F.desc("partition"), F.desc("offset"))
    numbered = rows.withColumn("place_from_end", F.row_number().over(backwards))
    return numbered.where("place_from_end = 1").drop("place_from_end")
