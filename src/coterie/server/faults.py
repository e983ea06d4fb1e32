"""Faults on demand: make one API of a broker slow, wrong, silent or broken, for tests of clients."""

from __future__ import annotations

from dataclasses import dataclass, field

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


@dataclass(slots=True)
class Faults:
    """The faults of one broker, by API."""

    _by_api: dict[ApiKey, list[Fault]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._by_api)

    def add(self, api: ApiKey, fault: Fault) -> None:
        self._by_api.setdefault(api, []).append(fault)

    def clear(self) -> None:
        self._by_api.clear()

    def take(self, api: ApiKey, request: object) -> Fault | None:
        """The fault that strikes this request, if any; used up where it is counted."""
        for fault in self._by_api.get(api, ()):
            if fault.match and fault.match not in repr(request):
                continue
            if fault.times is not None:
                fault.times -= 1
                if fault.times <= 0:
                    self._remove(api, fault)
            return fault
        return None

    def _remove(self, api: ApiKey, fault: Fault) -> None:
        rest = [each for each in self._by_api[api] if each is not fault]
        if rest:
            self._by_api[api] = rest
        else:
            del self._by_api[api]
