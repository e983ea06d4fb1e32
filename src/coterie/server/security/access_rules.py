"""The kinds of rules that the access table is written in.

`Whole` refuses a request as a whole, `Each` refuses what it lists one by one, `Omit` leaves out of the answer
what the caller may not see. APIs that are none of these have a rule of their own, in
coterie.server.security.special_rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from coterie.protocol.schema import Request, Response
from coterie.protocol.types import Uuid
from coterie.security.acls import CLUSTER_NAME, Operation, ResourceType
from coterie.server.security.guard import ERRORS, Guard, Need, Needs, Rule

__all__ = ["Each", "Omit", "Whole"]


class Whole(Rule):
    """One resource for the whole request: the cluster, or the one that a field names.

    The refusal speaks of all that was listed, as far as the API has a place for it; with `bare` it is the
    error of the whole answer and nothing else.
    """

    def __init__(
        self,
        operation: Operation,
        resource: ResourceType,
        field: str = "",
        *,
        bare: bool = False,
        unless: Need | None = None,
    ) -> None:
        self._need = Need(operation, resource)
        self._unless = unless
        self._field = field
        self._bare = bare

    @property
    def needs(self) -> Needs:
        return (self._need,) if self._unless is None else (self._need, self._unless)

    def names(self, request: Request, /) -> tuple[str, Iterable[str]]:
        name = getattr(request, self._field) if self._field else CLUSTER_NAME
        return self._need.resource.title, () if name is None else (name,)

    def apply(self, guard: Guard, /) -> None:
        operation, resource, _ = self._need
        other = self._unless
        for name in self.names(guard.call.request)[1]:
            if other is not None and guard.allows(other.operation, other.resource, name):
                continue
            if not guard.allows(operation, resource, name):
                guard.refuse_all(operation, resource, (name,), bare=self._bare)


class Each(Rule):
    """Something for each thing that the request lists; what is refused is answered by its own error.

    Topics may be named by id; the handler answers for an unknown id. A request of
    which nothing is left is answered, unless there is more to it than its list (`goes_on_empty`).
    """

    def __init__(
        self,
        operation: Operation,
        resource: ResourceType,
        field: str,
        name: str = "",
        *,
        goes_on_empty: bool = False,
        unless: Need | None = None,
    ) -> None:
        self._need = Need(operation, resource)
        self._field = field
        self._name = name
        self._goes_on_empty = goes_on_empty
        self._unless = unless

    @property
    def needs(self) -> Needs:
        return (self._need,) if self._unless is None else (self._unless, self._need)

    def names(self, request: Request, /) -> tuple[str, Iterable[str]]:
        items = getattr(request, self._field) or ()
        found = (getattr(each, self._name) if self._name else each for each in items)
        return self._need.resource.title, tuple(name for name in found if name)

    def apply(self, guard: Guard, /) -> None:
        call = guard.call
        items = getattr(call.request, self._field)
        if not items or (self._unless is not None and guard.allows(*self._unless[:2])):
            return
        named = [(self._name_of(guard, each), each) for each in items]
        operation, resource, _ = self._need
        asked = {name for name, _ in named if name is not None}
        allowed = self.allowed(guard, asked)
        if len(allowed) == len(asked):
            return
        refused = tuple(each for name, each in named if name is not None and name not in allowed)
        rest = tuple(each for name, each in named if name is None or name in allowed)
        guard.refused(operation, resource, sorted(asked - allowed))
        guard.deny(
            msgspec.structs.replace(call.request, **{self._field: refused}), ERRORS[resource]
        )
        call.request = msgspec.structs.replace(call.request, **{self._field: rest})
        if not rest and not self._goes_on_empty:
            guard.answer(call.api.response())

    def allowed(self, guard: Guard, names: set[str]) -> set[str]:
        """Which of the names may be asked for."""
        return guard.allowed(*self._need[:2], names)

    def _name_of(self, guard: Guard, item: Any) -> str | None:
        if not self._name:
            return str(item)
        name = getattr(item, self._name)
        topic_id = getattr(item, "topic_id", Uuid.ZERO)
        if not name and topic_id != Uuid.ZERO:
            return guard.topic_name(topic_id)
        return None if name is None else str(name)


class Omit(Rule):
    """Something for each thing that the answer lists; what may not be seen is left out, with no error."""

    def __init__(
        self,
        operation: Operation,
        resource: ResourceType,
        field: str,
        name: str,
        unless: Need | None = None,
    ) -> None:
        self._need = Need(operation, resource, "others are left out")
        self._field = field
        self._name = name
        self._unless = unless

    @property
    def needs(self) -> Needs:
        return (self._need,) if self._unless is None else (self._unless, self._need)

    def finish(self, guard: Guard, response: Response, /) -> Response:
        if self._unless is not None and guard.allows(*self._unless[:2]):
            return response
        items = getattr(response, self._field)
        name = self._name
        operation, resource, _ = self._need
        allowed = guard.allowed(operation, resource, [getattr(each, name) for each in items])
        if len(allowed) == len(items):
            return response
        seen = tuple(each for each in items if getattr(each, name) in allowed)
        return msgspec.structs.replace(response, **{self._field: seen})
