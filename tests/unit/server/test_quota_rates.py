"""Rates and token buckets of client quotas: examples by hand, and properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.server.quotas import Rate, TokenBucket
from coterie.server.settings.config import QuotaWindow

WINDOW = QuotaWindow()
LIMITS = st.floats(0.1, 1e9)
USAGE = st.lists(st.tuples(st.integers(0, 3_000), st.floats(0, 1e6)), min_size=1, max_size=60)


def test_a_first_request_counts_as_if_ten_seconds_had_passed() -> None:
    rate = Rate(WINDOW)
    rate.record(10_000, 0)
    assert rate.throttle_ms(1_000, 0) == 0
    rate.record(1, 0)
    # 10,001 bytes in 10 s: 1000.1 bytes/s, a ten-thousandth too much of 10 s.
    assert rate.throttle_ms(1_000, 0) == 1
    rate.record(9_999, 0)
    assert rate.throttle_ms(1_000, 0) == 10_000


def test_an_amount_counts_for_eleven_seconds_after_the_last_use_of_its_sample() -> None:
    rate = Rate(WINDOW)
    rate.record(20_000, 0)
    rate.record(20_000, 999)
    assert rate.throttle_ms(1_000, 11_998) > 0
    assert not rate.is_idle(11_998)
    assert rate.throttle_ms(1_000, 11_999) == 0
    assert rate.is_idle(11_999)


def test_what_is_taken_back_does_not_count() -> None:
    rate = Rate(WINDOW)
    rate.record(20_000, 5)
    rate.record(-20_000, 5)
    assert rate.throttle_ms(1, 5) == 0


def test_a_bucket_allows_its_window_at_once_and_then_one_amount_more() -> None:
    bucket = TokenBucket(WINDOW)
    bucket.record(22, 2, 50)
    assert bucket.throttle_ms(2, 50) == 0
    bucket.record(5, 2, 50)
    assert bucket.throttle_ms(2, 50) == 2_500
    assert bucket.throttle_ms(2, 1_050) == 1_500
    assert bucket.throttle_ms(2, 2_550) == 0
    assert not bucket.is_idle(50 + 13_499)
    assert bucket.is_idle(50 + 13_500)


@pytest.mark.parametrize("window", [WINDOW, QuotaWindow(2, 100), QuotaWindow(1, 1_000)])
def test_a_throttle_time_is_an_int32(window: QuotaWindow) -> None:
    rate = Rate(window)
    rate.record(1e15, 0)
    assert rate.throttle_ms(0.001, 0) == 2**31 - 1


@given(USAGE, LIMITS)
def test_a_rate_is_the_limit_when_the_throttle_time_is_over(
    usage: list[tuple[int, float]], limit: float
) -> None:
    """X = (O - T) / T * W: what was used within W is at the limit within W + X."""
    rate, now_ms, total = Rate(QuotaWindow(1_000, 1_000)), 0, 0.0
    for pause_ms, amount in usage:
        now_ms += pause_ms
        total += amount
        rate.record(amount, now_ms)
    window_ms = 999_000 + now_ms - usage[0][0]
    window_ms -= (now_ms - usage[0][0]) // 1_000 * 1_000
    wait_ms = rate.throttle_ms(limit, now_ms)
    if total <= limit * window_ms / 1_000:
        assert wait_ms == 0
    elif wait_ms < 2**31 - 1:
        assert total / limit * 1_000 == pytest.approx(window_ms + wait_ms, abs=0.51)


@given(USAGE, LIMITS)
def test_an_idle_rate_is_like_a_new_one(usage: list[tuple[int, float]], limit: float) -> None:
    used, new, now_ms = Rate(WINDOW), Rate(WINDOW), 0
    for pause_ms, amount in usage:
        now_ms += pause_ms
        used.record(amount, now_ms)
    now_ms += WINDOW.length_ms
    assert used.is_idle(now_ms)
    for rate in (used, new):
        rate.record(5_000, now_ms)
    assert used.throttle_ms(limit, now_ms) == new.throttle_ms(limit, now_ms)


@given(USAGE, LIMITS)
def test_a_client_that_waits_as_told_keeps_to_the_limit(
    usage: list[tuple[int, float]], limit: float
) -> None:
    """Beyond the burst and the amount that made the bucket negative, no more than the limit is used."""
    bucket, now_ms, used, largest = TokenBucket(WINDOW), 0, 0.0, 0.0
    for pause_ms, amount in usage:
        now_ms += pause_ms
        wait_ms = bucket.throttle_ms(limit, now_ms)
        if wait_ms == 2**31 - 1:
            break
        now_ms += wait_ms
        bucket.record(amount, limit, now_ms)
        used, largest = used + amount, max(largest, amount)
    allowed = limit * (now_ms + WINDOW.length_ms + 0.5) / 1_000 + largest
    assert used <= allowed * (1 + 1e-9)


@given(USAGE, LIMITS)
def test_an_idle_bucket_is_like_a_new_one(usage: list[tuple[int, float]], limit: float) -> None:
    bucket, now_ms = TokenBucket(WINDOW), 0
    for pause_ms, amount in usage:
        now_ms += pause_ms
        bucket.record(amount, limit, now_ms)
    while not bucket.is_idle(now_ms):
        now_ms += WINDOW.length_ms + bucket.throttle_ms(limit, now_ms)
    new = TokenBucket(WINDOW)
    for each in (bucket, new):
        each.record(limit * 12, limit, now_ms)
    assert bucket.throttle_ms(limit, now_ms) == pytest.approx(new.throttle_ms(limit, now_ms), abs=1)
