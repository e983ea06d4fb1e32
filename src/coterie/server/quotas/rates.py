"""How much a client used, and how long it is throttled for more than its quota.

Pure: the time is an argument, in milliseconds of any clock that does not go back. The arithmetic is that of
Kafka's Rate, TokenBucket and QuotaUtils.
"""

from __future__ import annotations

from collections import deque
from math import floor
from typing import Final

from coterie.server.settings.config import QuotaWindow

__all__ = ["Rate", "TokenBucket"]

#: throttle_time_ms is an int32.
_LONGEST_MS: Final = 2**31 - 1


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """An amount per second over a sliding window."""

    __slots__ = ("_samples", "_window")

    def __init__(self, window: QuotaWindow) -> None:
        self._window = window
        self._samples: deque[_Sample] = deque()

    def record(self, amount: float, now_ms: int) -> None:
        """Count an amount; a negative one takes back what was counted."""
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._window.sample_ms:
            samples.append(_Sample(now_ms))
        samples[-1].value += amount
        samples[-1].last_ms = now_ms

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """The time without usage after which the rate is the limit again; 0 if it is not above it."""
        elapsed_ms = self._elapsed_ms(now_ms)
        rate = sum(each.value for each in self._samples) / (elapsed_ms / 1_000)
        return _whole_ms((rate - limit) / limit * elapsed_ms) if rate > limit else 0

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing counts any more, so that a new object would measure the same."""
        return not self._samples or now_ms - self._samples[-1].last_ms >= self._window.length_ms

    def _elapsed_ms(self, now_ms: int) -> int:
        """The time since the oldest sample, as if all samples but the last were full at least.

        Without that, the first request of a client would exceed any limit.
        """
        window, samples = self._window, self._samples
        while samples and now_ms - samples[0].last_ms >= window.length_ms:
            samples.popleft()
        elapsed_ms = now_ms - samples[0].start_ms if samples else 0
        missing = window.samples - 1 - elapsed_ms // window.sample_ms
        return max(elapsed_ms + max(missing, 0) * window.sample_ms, 1)


class TokenBucket:
    """Tokens that come back at the rate of the limit; a full bucket lasts for the whole window.

    Usage can make their number negative once; further usage has to wait until it is not (KIP-599).
    """

    __slots__ = ("_full_ms", "_tokens", "_updated_ms", "_window")

    def __init__(self, window: QuotaWindow) -> None:
        self._window = window
        self._tokens = 0.0
        #: When `_tokens` was computed; None for a new, full bucket.
        self._updated_ms: int | None = None
        self._full_ms = 0.0

    def record(self, amount: float, limit: float, now_ms: int) -> None:
        """Use tokens, whether there are enough or not."""
        self._refill(limit, now_ms)
        self._tokens -= amount
        self._full_ms = now_ms + self._window.length_ms - self._tokens / limit * 1_000

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """The time until the number of tokens is 0; 0 if it is not negative."""
        self._refill(limit, now_ms)
        return _whole_ms(-self._tokens / limit * 1_000) if self._tokens < 0 else 0

    def is_idle(self, now_ms: int) -> bool:
        """Whether the bucket is full again, so that a new object would allow the same."""
        return now_ms >= self._full_ms

    def _refill(self, limit: float, now_ms: int) -> None:
        burst = self._window.length_ms / 1_000 * limit
        if self._updated_ms is None:
            self._tokens = burst
        else:
            gained = limit * (now_ms - self._updated_ms) / 1_000
            self._tokens = min(burst, self._tokens + gained)
        self._updated_ms = now_ms


def _whole_ms(time_ms: float) -> int:
    """Rounded as Java's Math.round does."""
    return min(floor(time_ms + 0.5), _LONGEST_MS)
