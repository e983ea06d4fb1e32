"""One request before the authorizer: what of it is let through, and what its answer may show.

`admit` runs the rules of the API (coterie.server.security.access) before the handler. What is refused is
taken out of the request and answered for; the rest goes on. On the way back `finish` puts the refusals in and
leaves out what the caller may not see. Without an authorizer only changes are noted, for the audit log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import msgspec

from coterie.error_codes import ErrorCode
from coterie.protocol.schema import Response, Struct
from coterie.protocol.types import Uuid
from coterie.security.acls import CLUSTER_NAME, Operation, ResourceType
from coterie.server.requests.refusals import refusal

if TYPE_CHECKING:
    from coterie.security.authorizer import Authorizer
    from coterie.server.broker import Broker
    from coterie.server.requests.calls import Call
    from coterie.server.security.access_rules import Access

__all__ = ["ERRORS", "Guard", "admit"]

#: How a refusal reads, by what was asked for.
ERRORS = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def admit(broker: Broker, call: Call, access: Access) -> bool:
    """Let a call go to its handler, as far as it may; False if it is answered already."""
    security = broker.cluster.security
    changes = access.changes(call.request)
    if security.authorizer is None and not changes:
        return True
    guard = Guard(broker, call, access)
    call.guard = guard
    if security.authorizer is not None:
        for rule in access.rules:
            rule.apply(guard)
            if guard.answered:
                return False
    if changes:
        guard.changes = access.names(call.request)
    return True


class Guard:
    """A call, who makes it, and what was refused of it."""

    __slots__ = (
        "_access",
        "_authorizer",
        "_broker",
        "answered",
        "call",
        "changes",
        "denied",
        "host",
        "notes",
        "principal",
    )

    def __init__(self, broker: Broker, call: Call, access: Access) -> None:
        self.call = call
        self.principal = call.connection.principal
        self.host = call.connection.address
        #: Answers for those parts of the request that were taken out of it.
        self.denied: list[Response] = []
        #: What a rule wants to remember until the answer comes.
        self.notes: dict[str, Any] = {}
        self.answered = False
        #: Kind and names of what a request changes; None if it changes nothing.
        self.changes: tuple[str, Iterable[str]] | None = None
        self._broker = broker
        self._access = access
        self._authorizer: Authorizer | None = broker.cluster.security.authorizer

    # -- questions of the rules -----------------------------------------------------------------------

    def allows(
        self, operation: Operation, resource: ResourceType, name: str = CLUSTER_NAME
    ) -> bool:
        return self._authorizer is None or self._authorizer.allows(
            self.principal, self.host, operation, resource, name
        )

    def allowed(
        self, operation: Operation, resource: ResourceType, names: Iterable[str]
    ) -> set[str]:
        if self._authorizer is None:
            return set(names)
        return self._authorizer.allowed(self.principal, self.host, operation, resource, names)

    def allows_any(self, operation: Operation, resource: ResourceType) -> bool:
        return self._authorizer is None or self._authorizer.allows_any(
            self.principal, self.host, operation, resource
        )

    def operations(self, resource: ResourceType, name: str, *, all_of_them: int) -> int:
        """What the caller may do to something, as answers tell it."""
        if self._authorizer is None:
            return all_of_them
        return self._authorizer.operations(self.principal, self.host, resource, name)

    def topic_name(self, topic_id: Uuid) -> str | None:
        found = self._broker.cluster.metadata.topic_with_id(topic_id)
        return None if found is None else found.name

    def has_topic(self, name: str) -> bool:
        return name in self._broker.cluster.metadata

    def creates_topic(self, name: str) -> bool:
        """Whether a look at this topic would make it."""
        return self._broker.config.auto_create_topics and not self.has_topic(name)

    # -- refusals -------------------------------------------------------------------------------------

    def refuse_all(
        self,
        operation: Operation,
        resource: ResourceType,
        names: Iterable[str],
        *,
        bare: bool = False,
    ) -> None:
        """Answer the whole request with an error."""
        self.refused(operation, resource, names)
        error = ERRORS[resource]
        response = self.call.api.response
        self.answer(cast("Any", response)(error_code=error) if bare else self.refusal(error))

    def refusal(self, error: ErrorCode) -> Response:
        call = self.call
        return refusal(call.request, call.api.response, call.version, error)

    def answer(self, response: Response) -> None:
        self.answered = True
        self.call.answer(response)

    def deny(self, part: Any, error: ErrorCode) -> None:
        """Note the answer for a part of the request: the request itself, with that part alone."""
        call = self.call
        response = refusal(part, call.api.response, call.version, error)
        if getattr(response, "error_code", 0):
            # The error is the part's, and not of the whole answer.
            response = msgspec.structs.replace(response, error_code=0)
        self.denied.append(response)

    def refused(self, operation: Operation, resource: ResourceType, names: Iterable[str]) -> None:
        """Write a refusal into the audit log."""
        audit = self._broker.cluster.security.audit
        if audit is not None:
            audit.refused(self._who(), operation.title, resource.title, names)

    def close(self, reason: str) -> None:
        self.answered = True
        self.call.connection.close(reason)

    # -- the way back ---------------------------------------------------------------------------------

    def finish(self, response: Response) -> Response:
        """The answer as the caller may see it."""
        if self._authorizer is not None and not self.answered:
            for rule in self._access.rules:
                response = rule.finish(self, response)
        for denied in self.denied:
            response = _joined(denied, response)
        return response

    def record(self, response: Response) -> None:
        """Write a change into the audit log, with what became of it."""
        audit = self._broker.cluster.security.audit
        if audit is None or self.changes is None:
            return
        resource, names = self.changes
        errors = {ErrorCode.of(code).name for code in _codes(response) if code}
        audit.changed(self._who(), resource, names, errors)

    def _who(self) -> dict[str, Any]:
        call = self.call
        return {
            "principal": self.principal,
            "host": self.host,
            "client": call.client_id,
            "api": call.api.api_name,
        }


def _joined(left: Response, right: Response) -> Response:
    """The right one, with the lists of the left one before its own."""
    changes = {}
    for name in left.__struct_fields__:
        mine, other = getattr(left, name), getattr(right, name)
        if isinstance(mine, tuple) and mine:
            changes[name] = mine + (other or ())
    return msgspec.structs.replace(right, **changes)


def _codes(value: object) -> Iterable[int]:
    """Every error code in an answer."""
    if isinstance(value, Struct):
        for name in value.__struct_fields__:
            item = getattr(value, name)
            if name in ("error_code", "partition_error_code"):
                yield item
            else:
                yield from _codes(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from _codes(item)
