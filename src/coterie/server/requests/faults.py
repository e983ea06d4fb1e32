"""Faults on demand: make one API of a broker slow, wrong, silent or broken, for tests of clients."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.protocol.api import ApiKey

__all__ = ["Fault", "Faults"]


@dataclass(slots=True)
class Fault:
    """What happens to a request instead of, or before, being served.

    `times` counts down; None lasts until the fault is removed. `match` narrows it to requests whose
    printed form contains the text (a group's id, a topic's name).
    """

    delay_ms: int = 0
    error_code: int | None = None
    drop: bool = False
    close: bool = False
    times: int | None = 1
    match: str = ""


class Faults(dict[ApiKey, list[Fault]]):
    """The faults of one broker, by API; most brokers have none, and each request asks."""

    __slots__ = ()

    def add(self, api: ApiKey, fault: Fault) -> None:
        self.setdefault(api, []).append(fault)

    def take(self, api: ApiKey, request: object) -> Fault | None:
        """The fault that strikes this request, if any; used up where it is counted."""
        for fault in self.get(api, ()):
            if fault.match and fault.match not in repr(request):
                continue
            if fault.times is not None:
                fault.times -= 1
                if fault.times <= 0:
                    self._remove(api, fault)
            return fault
        return None

    def _remove(self, api: ApiKey, fault: Fault) -> None:
        rest = [each for each in self[api] if each is not fault]
        if rest:
            self[api] = rest
        else:
            del self[api]
