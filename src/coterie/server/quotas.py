"""Enforces client quotas: measures what clients use, and throttles those that use more than they may.

A throttled request is answered with its throttle time, and the connection reads nothing more for that time
(KIP-219). Byte rates, request time and connections are counted per broker, changes of partitions per cluster.
The arithmetic of `Rate` and `TokenBucket` is that of Kafka's Rate, TokenBucket and QuotaUtils.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from math import floor
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from coterie.protocol.api import ApiKey
from coterie.protocol.codec import encode
from coterie.protocol.messages.data import FetchRequest, FetchResponse, ProduceRequest
from coterie.protocol.schema import Response
from coterie.server.clock import Clock
from coterie.server.metadata.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotas,
    Limit,
)
from coterie.server.requests.calls import Call
from coterie.server.settings.config import QuotaWindow

__all__ = [
    "Meter",
    "MutationUsage",
    "Rate",
    "Throttling",
    "TokenBucket",
]

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


T = TypeVar("T", Rate, TokenBucket)
R = TypeVar("R", bound=Response)

#: Clients whose usage is kept before idle ones are looked for.
_KEPT: Final = 1_000
#: The size of a response, before the response.
_SIZE_BYTES: Final = 4
_PERCENT: Final = 100.0
#: Brokers send these to each other; Kafka does not throttle them.
_EXEMPT: Final = frozenset({ApiKey.WRITE_TXN_MARKERS})


class _Usage(Generic[T]):
    """What was used, by those who share a quota."""

    def __init__(self, new: Callable[[], T]) -> None:
        self._new: Callable[[], T] = new
        self._by_client: dict[Hashable, T] = {}
        self._prune_at = _KEPT

    def of(self, client: Hashable, now_ms: int) -> T:
        found = self._by_client.get(client)
        if found is None:
            if len(self._by_client) >= self._prune_at:
                self._prune(now_ms)
            found = self._by_client[client] = self._new()
        return found

    def _prune(self, now_ms: int) -> None:
        kept = {
            client: each for client, each in self._by_client.items() if not each.is_idle(now_ms)
        }
        self._by_client = kept
        self._prune_at = max(_KEPT, 2 * len(kept))


class MutationUsage(_Usage[TokenBucket]):
    """Partitions that clients created and deleted: one for all brokers, since there is one controller."""

    def __init__(self, window: QuotaWindow) -> None:
        super().__init__(lambda: TokenBucket(window))


class Throttling:
    """The quotas of one broker's clients, with what they used."""

    def __init__(
        self, quotas: ClientQuotas, window: QuotaWindow, mutations: MutationUsage, clock: Clock
    ) -> None:
        self.quotas = quotas
        self._window = window
        self._clock = clock
        self._mutations = mutations
        self._rates: _Usage[Rate] = _Usage(lambda: Rate(window))

    def seconds(self) -> float:
        return self._clock.monotonic()

    def now_ms(self) -> int:
        return int(self._clock.monotonic() * 1_000)

    def connection_wait_ms(self, address: str) -> int:
        """How long a new connection of an IP address must wait, and then end; 0 if it is accepted."""
        allowed = self.quotas.connection_rate(address)
        if allowed is None:
            return 0
        now_ms = self.now_ms()
        rate = self._rates.of(address, now_ms)
        rate.record(1, now_ms)
        wait_ms = rate.throttle_ms(allowed, now_ms)
        if wait_ms:
            rate.record(-1, now_ms)
        return min(wait_ms, self._window.sample_ms)

    def rate(self, key: str, limit: Limit, now_ms: int) -> Rate:
        return self._rates.of((key, limit.shared_by), now_ms)

    def bucket(self, limit: Limit, now_ms: int) -> TokenBucket:
        return self._mutations.of(limit.shared_by, now_ms)

    def request_wait_ms(self, wait_ms: int) -> int:
        """A throttle time for request time, which Kafka limits to one sample."""
        return min(wait_ms, self._window.sample_ms)

    def most_bytes(self, limit: Limit) -> int:
        """What can be used at once without being throttled for certain."""
        return int(limit.rate * (self._window.samples - 1) * self._window.sample_ms / 1_000)


class Meter:
    """What one call uses, compared with the quotas of its client when it is answered."""

    __slots__ = (
        "_begun",
        "_call",
        "_request_bytes",
        "_seconds",
        "_throttling",
        "_user",
        "_wait_ms",
    )

    def __init__(self, throttling: Throttling, call: Call, request_bytes: int) -> None:
        """`request_bytes` is the size of the request with its header."""
        self._throttling = throttling
        self._call = call
        self._request_bytes = request_bytes
        self._user = call.connection.principal.partition(":")[2]
        self._begun = throttling.seconds()
        self._seconds: float | None = None
        #: How long the call is throttled for changes of partitions.
        self._wait_ms = 0

    def parked(self) -> None:
        """The handler has returned and the answer comes later: waiting is not request time."""
        self._seconds = self._throttling.seconds() - self._begun

    def may_change(self, partitions: int, *, strict: bool, throttles: bool) -> bool:
        """Count partitions that are created or deleted; False if the quota refuses them.

        If `strict`, nothing is counted beyond the quota. The call is throttled if it `throttles`.
        """
        limit = self._limit(CONTROLLER_MUTATION_RATE)
        if limit is None:
            return True
        now_ms = self._throttling.now_ms()
        bucket = self._throttling.bucket(limit, now_ms)
        if not strict:
            bucket.record(partitions, limit.rate, now_ms)
        wait_ms = bucket.throttle_ms(limit.rate, now_ms)
        if throttles:
            self._wait_ms = max(self._wait_ms, wait_ms)
        if strict and not wait_ms:
            bucket.record(partitions, limit.rate, now_ms)
        return not (strict and wait_ms)

    def most_bytes(self, wanted: int) -> int:
        """The bytes that a Fetch may return: more than the quota has in a window would never be sent."""
        limit = self._limit(CONSUMER_BYTE_RATE)
        return wanted if limit is None else min(wanted, self._throttling.most_bytes(limit))

    def charge(self, response: R) -> R:
        """Count the call and its response; a throttled response has its throttle time.

        A throttled Fetch returns no records, and does not count them.
        """
        call, now_ms = self._call, self._throttling.now_ms()
        wait_ms = max(self._wait_ms, self._charge_time(now_ms))
        if isinstance(call.request, ProduceRequest):
            wait_ms = max(wait_ms, self._charge(PRODUCER_BYTE_RATE, self._request_bytes, now_ms))
        elif isinstance(call.request, FetchRequest) and self._limit(CONSUMER_BYTE_RATE):
            size = len(encode(response, call.version)) + _SIZE_BYTES
            wait_ms = max(wait_ms, self._charge(CONSUMER_BYTE_RATE, size, now_ms))
            if wait_ms:
                self._charge(CONSUMER_BYTE_RATE, -size, now_ms)
        if not wait_ms:
            return response
        call.connection.mute(wait_ms)
        if isinstance(call.request, FetchRequest):
            response = cast("R", FetchResponse())
        if "throttle_time_ms" not in response.__struct_fields__:
            return response
        changed: Any = {"throttle_time_ms": wait_ms}
        return msgspec.structs.replace(response, **changed)

    def charge_unanswered(self) -> None:
        """Count a Produce request with acks 0, whose request time is not limited."""
        wait_ms = self._charge(PRODUCER_BYTE_RATE, self._request_bytes, self._throttling.now_ms())
        if wait_ms:
            self._call.connection.mute(wait_ms)

    def _charge_time(self, now_ms: int) -> int:
        if self._call.api in _EXEMPT:
            return 0
        seconds = self._seconds
        if seconds is None:
            seconds = self._throttling.seconds() - self._begun
        wait_ms = self._charge(REQUEST_PERCENTAGE, seconds * _PERCENT, now_ms)
        return self._throttling.request_wait_ms(wait_ms)

    def _charge(self, key: str, amount: float, now_ms: int) -> int:
        limit = self._limit(key)
        if limit is None:
            return 0
        rate = self._throttling.rate(key, limit, now_ms)
        rate.record(amount, now_ms)
        return rate.throttle_ms(limit.rate, now_ms)

    def _limit(self, key: str) -> Limit | None:
        return self._throttling.quotas.limit(key, self._user, self._call.client_id)
