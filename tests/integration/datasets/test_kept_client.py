"""A client that stays open between readings: who gets it, and when it is closed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.client import AdminClient
from coterie.client.blocking import BlockingAdminClient
from coterie.datasets import cluster as cluster_module
from coterie.datasets.cluster import ClusterSource, KeptClient
from coterie.datasets.log import LogQuery, LogRange, read_log
from coterie.errors import BrokerUnreachable
from coterie.testing import EmbeddedCluster


@pytest.fixture
def kept() -> Iterator[KeptClient]:
    kept = KeptClient()
    yield kept
    kept.close()


def settings(port: int) -> dict[str, str]:
    return {"bootstrap.servers": f"127.0.0.1:{port}"}


def is_open(client: BlockingAdminClient) -> bool:
    try:
        client._thread.run(_nothing())
    except BrokerUnreachable as error:
        assert "closed" in str(error)  # noqa: PT017 - either is fine
        return False
    return True


async def _nothing() -> None:
    pass


def test_the_next_reading_has_the_client_of_the_last(kept: KeptClient) -> None:
    with kept.lend(settings(1)) as one:
        pass
    with kept.lend(settings(1)) as again:
        assert again is one
    assert is_open(one)
    kept.close()
    assert not is_open(one)
    kept.close()


def test_one_with_other_settings_is_another(kept: KeptClient) -> None:
    with kept.lend(settings(1)) as one:
        pass
    with kept.lend(settings(2)) as other:
        assert other is not one
        assert not is_open(one)


def test_nobody_gets_one_that_is_in_use(kept: KeptClient) -> None:
    with kept.lend(settings(1)) as outer:
        with kept.lend(settings(1)) as inner:
            assert inner is not outer
        assert is_open(outer)
    # One of them is kept.
    assert is_open(outer)
    assert not is_open(inner)


def test_one_that_failed_or_was_left_early_is_not_kept(kept: KeptClient) -> None:
    with pytest.raises(ZeroDivisionError), kept.lend(settings(1)) as failed:
        raise ZeroDivisionError

    def reading() -> Iterator[BlockingAdminClient]:
        with kept.lend(settings(1)) as client:
            yield client
            yield client

    begun = reading()
    left = next(begun)
    begun.close()  # type: ignore[attr-defined]
    assert (is_open(failed), is_open(left)) == (False, False)
    with kept.lend(settings(1)) as fresh:
        assert fresh not in (failed, left)


def test_a_log_that_is_read_twice_is_connected_to_once(
    kept: KeptClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "kept", kept)
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", partitions=2)
        cluster.scene("empty_group", "billing", topic="orders", offset=7)
        source = ClusterSource({"bootstrap.servers": cluster.bootstrap_servers}, keep_client=True)
        slices = source.slices(LogRange())
        made: list[BlockingAdminClient] = []
        connect = AdminClient.connect

        def counted(*arguments: object) -> BlockingAdminClient:
            made.append(connect(*arguments))  # type: ignore[arg-type]
            return made[-1]

        monkeypatch.setattr(AdminClient, "connect", counted)
        readings = [
            [
                row
                for batch in read_log(source, LogQuery("commits"), slices)
                for row in batch.to_pylist()
            ]
            for _ in range(3)
        ]
        assert len(made) == 1
        assert readings[0]
        assert readings == [readings[0]] * 3
        kept.close()
