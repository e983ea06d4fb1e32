"""The mart `lag`: how far each group is behind in each partition, in offsets and in time.

Time comes from the history of end offsets: the oldest record that the group has not read was written when
the log's end passed the committed offset, and between two samples the end is taken to have moved evenly.
Where the end went back, the topic was recreated: samples from before do not apply to the offsets after.
The result is never NaN and never negative; where the history does not reach back far enough it says so.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from coterie.spark.marts.committed import committed_now
from coterie.spark.marts.inputs import (
    Inputs,
    at_moment,
    conform,
    end_offset_history,
    lag_between,
    seconds,
)

__all__ = ["lag", "with_lives", "written_at"]

_PLACE = ["topic", "partition"]
_LIFE = [*_PLACE, "life"]


def lag(inputs: Inputs) -> DataFrame:
    """Lag of every group and partition."""
    history = with_lives(end_offset_history(inputs))
    newest = history.groupBy(*_PLACE).agg(
        F.max_by("log_start", "nth").alias("log_start"),
        F.max_by("log_end", "nth").alias("log_end"),
        F.max("taken_at").alias("sampled_at"),
        F.max("life").alias("life"),
    )
    points = committed_now(inputs).join(newest, _PLACE, "left")
    points = at_moment(points, inputs.now).withColumn(
        "lag", lag_between(F.col("committed_offset"), F.col("log_end"))
    )
    behind = points.where("lag > 0").select(*_LIFE, "committed_offset").distinct()
    timed = points.join(written_at(behind, history), [*_LIFE, "committed_offset"], "left")
    return conform(_judged(timed), "lag")


def _judged(points: DataFrame) -> DataFrame:
    lost = F.col("log_start") - F.col("committed_offset")
    age = seconds(F.col("as_of"), F.col("written_at"))
    return points.select(
        "*",
        F.when(F.col("lag") == 0, 0.0).otherwise(age).alias("lag_seconds"),
        F.coalesce(F.col("before_history") & (F.col("lag") > 0), F.lit(False)).alias("at_least"),
        F.coalesce(lost > 0, F.lit(False)).alias("data_loss"),
        F.when(lost > 0, lost).otherwise(0).alias("lost_records"),
        F.coalesce(F.col("committed_offset") > F.col("log_end"), F.lit(False)).alias(
            "ahead_of_end"
        ),
    )


def with_lives(history: DataFrame) -> DataFrame:
    """The samples, each with how often its log had started over by then: its end had gone back.

    `nth` counts the samples of a partition: of two of the same moment, the one with the higher end is later.
    """
    in_time = Window.partitionBy(*_PLACE).orderBy("taken_at", "log_end")
    fell = F.coalesce(F.col("log_end") < F.lag("log_end").over(in_time), F.lit(False))
    so_far = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        history.select(
            "*", fell.cast("int").alias("fell"), F.row_number().over(in_time).alias("nth")
        )
        .withColumn("life", F.sum("fell").over(so_far))
        .drop("fell")
    )


def written_at(points: DataFrame, history: DataFrame) -> DataFrame:
    """When the record at each (topic, partition, life, committed_offset) was written: `written_at`.

    The samples around an offset are found by sorting offsets and samples together, once upwards and once
    downwards: a running window each, where a join by range would compare everything with everything.
    Offsets below the first sample of a life get that sample's time, and `before_history` is true.
    """
    sample = F.struct(F.col("taken_at").alias("at"), F.col("log_end").alias("end"))
    samples = history.select(
        *_LIFE, F.col("log_end").alias("value"), F.lit(0).alias("asked"), sample.alias("sample")
    )
    asked = points.select(
        *_LIFE,
        F.col("committed_offset").alias("value"),
        F.lit(1).alias("asked"),
        F.lit(None).cast(samples.schema["sample"].dataType).alias("sample"),
    )
    both = samples.unionByName(asked)
    by_life = Window.partitionBy(*_LIFE)
    upwards = by_life.orderBy("value", "asked", "sample.at").rowsBetween(
        Window.unboundedPreceding, Window.currentRow
    )
    downwards = by_life.orderBy(F.desc("value"), F.desc("asked"), F.desc("sample.at")).rowsBetween(
        Window.unboundedPreceding, Window.currentRow
    )
    around = both.select(
        *_LIFE,
        F.col("value").alias("committed_offset"),
        "asked",
        F.last("sample", ignorenulls=True).over(upwards).alias("below"),
        F.last("sample", ignorenulls=True).over(downwards).alias("above"),
    ).where("asked = 1")
    return around.select(
        *_LIFE,
        "committed_offset",
        _between().alias("written_at"),
        F.col("below").isNull().alias("before_history"),
    )


def _between() -> Column:
    """The moment at which the end passed the offset; the sample above alone if there is none below."""
    start, end = F.unix_micros("below.at"), F.unix_micros("above.at")
    run = F.col("above.end") - F.col("below.end")
    share = (F.col("committed_offset") - F.col("below.end")) / run
    exact = F.timestamp_micros((start + share * (end - start)).cast("bigint"))
    return F.coalesce(exact, F.col("above.at"))
