"""One request before the authorizer: what of it is let through, and what its answer may show.

`admit` runs the rules of the API (coterie.server.security.access) before the handler. Refused parts are taken
out of the request and answered for; the handler gets the rest. Afterwards `finish` adds the refusals to the
response and removes what the caller may not see. Without an authorizer only changes are noted, for the audit
log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, cast

import msgspec

from coterie.error_codes import ErrorCode
from coterie.protocol.schema import Request, Response, Struct
from coterie.protocol.types import Uuid
from coterie.security.acls import CLUSTER_NAME, Operation, ResourceType
from coterie.security.authorizer import Authorizer
from coterie.server.metadata.topics import ClusterMetadata
from coterie.server.requests.calls import Call
from coterie.server.requests.refusals import refusal
from coterie.server.security.cluster_security import ClusterSecurity
from coterie.server.settings.brokers import BrokerSettings

__all__ = ["ERRORS", "Access", "AccessControl", "Guard", "Need", "Needs", "Rule"]

#: How a refusal reads, by what was asked for.
ERRORS = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Need(NamedTuple):
    """An operation on a kind of resource, and when it is needed: for the documentation."""

    operation: Operation
    resource: ResourceType
    when: str = ""

    def __str__(self) -> str:
        text = f"{self.operation.title} on {self.resource.title}"
        return f"{text} ({self.when})" if self.when else text


Needs = tuple[Need, ...]


class Rule(ABC):
    """What one API needs. A rule may look at the request before it is handled, and at the answer after."""

    @property
    @abstractmethod
    def needs(self) -> Needs:
        """Operations and resources; without them there is no rule."""

    def names(self, _request: Request, /) -> tuple[str, Iterable[str]]:
        """What a request is about, for the audit log: kind and names."""
        return self.needs[0].resource.title, ()

    def apply(self, guard: Guard, /) -> None:  # noqa: B027 - some rules leave requests as they are
        """Take out of the request what the caller may not ask for."""

    def finish(self, _guard: Guard, response: Response, /) -> Response:
        """Take out of the answer what the caller may not see."""
        return response


def _never(_request: Request) -> bool:
    return False


NOTHING: Final = ("", ())


class Access(NamedTuple):
    """The rules of one API, and whether a request of it changes something that an auditor asks about."""

    rules: tuple[Rule, ...] = ()
    changes: Callable[[Any], bool] = _never
    #: What a request changes, where that is not what its first rule is about.
    subjects: Callable[[Any], tuple[str, Iterable[str]]] | None = None

    def names(self, request: Request) -> tuple[str, Iterable[str]]:
        if self.subjects is not None:
            return self.subjects(request)
        return self.rules[0].names(request) if self.rules else NOTHING

    @property
    def needs(self) -> list[Need]:
        return [need for rule in self.rules for need in rule.needs]


class AccessControl:
    """Decides for the requests to one broker, by the ACLs of its cluster."""

    def __init__(
        self, security: ClusterSecurity, metadata: ClusterMetadata, settings: BrokerSettings
    ) -> None:
        self.security = security
        self.metadata = metadata
        self.settings = settings
        #: Whether any client is known or refused; looked at for every request, so it is looked up once.
        self.is_on = security.audit is not None

    def admit(self, call: Call, access: Access) -> bool:
        """Let a call go to its handler, as far as it may; False if it is answered already."""
        authorizer = self.security.authorizer
        changes = access.changes(call.request)
        if authorizer is None and not changes:
            return True
        guard = Guard(self, call, access)
        call.guard = guard
        if authorizer is not None:
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
        "_control",
        "answered",
        "call",
        "changes",
        "denied",
        "host",
        "notes",
        "principal",
    )

    def __init__(self, control: AccessControl, call: Call, access: Access) -> None:
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
        self._control = control
        self._access = access
        self._authorizer: Authorizer | None = control.security.authorizer

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
        found = self._control.metadata.topic_with_id(topic_id)
        return None if found is None else found.name

    def has_topic(self, name: str) -> bool:
        return name in self._control.metadata

    def creates_topic(self, name: str) -> bool:
        """Whether a look at this topic would make it."""
        return self._control.settings.config.auto_create_topics and not self.has_topic(name)

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
        self.answer(cast("Any", response)(error_code=error) if bare else self.call.refusal(error))

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
        audit = self._control.security.audit
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
        audit = self._control.security.audit
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
