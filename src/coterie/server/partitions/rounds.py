"""Waiting for several rounds of group commit at once.

One request may append to logs of several data directories, and each has rounds of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from coterie.server.partitions.committer import CommitRound
from coterie.storage.errors import StorageError

__all__ = ["when_all_end"]


def when_all_end(
    rounds: Iterable[CommitRound | None], done: Callable[[set[CommitRound]], None]
) -> None:
    """Call `done` with the rounds that failed, once all have ended: now, if none is under way."""
    pending = {each for each in rounds if each is not None and not each.done}
    failed: set[CommitRound] = set()
    if not pending:
        done(failed)
        return

    def ended(round_: CommitRound, error: StorageError | None) -> None:
        if error is not None:
            failed.add(round_)
        pending.discard(round_)
        if not pending:
            done(failed)

    for each in tuple(pending):
        each.when_durable(lambda error, each=each: ended(each, error))  # type: ignore[misc]
