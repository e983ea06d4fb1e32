"""The arithmetic of client quotas is that of Kafka's own classes, to the millisecond."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from coterie.server.quotas import Rate, TokenBucket
from coterie.server.settings.config import QuotaWindow
from tests.kit import kafka_jars, processes
from tests.kit.plugin import require_kafka

pytestmark = pytest.mark.kafka

_SOURCE = Path(__file__).parent / "clients" / "QuotaRates.java"
_TIMEOUT_S = 120.0
#: Time 0 is not special for us, and is when Kafka's bucket begins to fill.
_START_MS = 1_700_000_000_000
_LARGEST = 2**31 - 1


class History(NamedTuple):
    """The use of one client."""

    kind: str
    window: QuotaWindow
    limit: float
    usage: tuple[tuple[int, float], ...]

    def lines(self) -> Iterator[str]:
        yield f"{self.kind} {self.window.samples} {self.window.sample_ms} {self.limit!r}"
        for now_ms, amount in self.usage:
            yield f"{now_ms} {amount!r}"

    def throttle_times(self) -> Iterator[int]:
        rate, bucket = Rate(self.window), TokenBucket(self.window)
        for now_ms, amount in self.usage:
            if self.kind == "rate":
                rate.record(amount, now_ms)
                yield rate.throttle_ms(self.limit, now_ms)
            else:
                wait_ms = bucket.throttle_ms(self.limit, now_ms)
                if not wait_ms:
                    bucket.record(amount, self.limit, now_ms)
                yield wait_ms


def histories(seed: int) -> Iterator[History]:
    """Clients of every pace, near their limits and far beyond them."""
    dice = random.Random(seed)
    for number in range(400):
        window = dice.choice(
            [
                QuotaWindow(),
                QuotaWindow(),
                QuotaWindow(2, 1_000),
                QuotaWindow(4, 250),
                QuotaWindow(1, 1_000),
            ]
        )
        limit = dice.choice([0.5, 1.0, 1_000.0, 10_240.0, 3e6])
        longest_pause_ms = dice.choice([5, 300, 1_500, 6_000, 30_000])
        now_ms, usage = _START_MS + dice.randrange(2_000), []
        for _ in range(dice.randrange(1, 60)):
            usage.append((now_ms, round(limit * dice.expovariate(0.5), 3)))
            if dice.random() < 0.1:
                usage.append((now_ms, -usage[-1][1]))
            now_ms += dice.choice([0, 1, window.sample_ms, dice.randrange(longest_pause_ms)])
        yield History("bucket" if number % 4 == 0 else "rate", window, limit, tuple(usage))


def test_every_throttle_time_is_kafkas() -> None:
    require_kafka()
    jars = kafka_jars.resolve()
    played = list(histories(seed=20))
    run = subprocess.run(
        processes.tethered([*jars.command("-Xmx128m", "-XX:TieredStopAtLevel=1"), str(_SOURCE)]),
        check=False,
        input="".join(f"{line}\n" for each in played for line in each.lines()),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    assert run.returncode == 0, run.stderr
    theirs = [min(int(line), _LARGEST) for line in run.stdout.split()]
    assert max(theirs) > 1_000
    begin = 0
    for each in played:
        end = begin + len(each.usage)
        ours = list(each.throttle_times())
        # Sums of floating point numbers depend on their order, and samples are added in another one.
        assert ours == pytest.approx(theirs[begin:end], abs=1), each
        begin = end
    assert begin == len(theirs)
