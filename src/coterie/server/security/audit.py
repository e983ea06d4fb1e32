"""The audit log: one line of JSON for every refusal and every change, under the logger `coterie.audit`.

A line names who, from where, what and on what; never a value, so there is no secret in it. A user name that
was not authenticated is left out: people type passwords there.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Any, Final

__all__ = ["AUDIT_LOGGER", "Audit"]

AUDIT_LOGGER: Final = "coterie.audit"

#: Names that one line lists; a request may have a hundred thousand.
_MOST_NAMES: Final = 100

_log = logging.getLogger(AUDIT_LOGGER)


class Audit:
    """Writes the lines of one cluster."""

    def refused(
        self, who: dict[str, Any], operation: str, resource: str, names: Iterable[str]
    ) -> None:
        """Somebody may not do what was asked for."""
        self._write("refused", who, operation=operation, resource=resource, names=list(names))

    def changed(
        self, who: dict[str, Any], resource: str, names: Iterable[str], errors: Iterable[str]
    ) -> None:
        """Something was changed, or was to be: `errors` are the codes in the answer."""
        self._write("changed", who, resource=resource, names=list(names), errors=sorted(errors))

    def authentication(self, address: str, mechanism: str, why: str) -> None:
        """Somebody could not say who they are."""
        self._write("not authenticated", {"host": address}, mechanism=mechanism, why=why)

    def _write(self, event: str, who: dict[str, Any], **what: Any) -> None:
        names = what.get("names", [])
        if len(names) > _MOST_NAMES:
            what |= {"names": names[:_MOST_NAMES], "more": len(names) - _MOST_NAMES}
        # ASCII, so that nothing in a name can look like a second line or move a terminal's cursor.
        _log.info("%s", json.dumps({"event": event, **who, **what}))
