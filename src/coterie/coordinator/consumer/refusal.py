"""A request of a member that cannot be served, on its way to being an answer."""

from __future__ import annotations

from coterie.error_codes import ErrorCode

__all__ = ["Refused"]


class Refused(Exception):
    """Raised by the parts of this package, and turned into an answer by whoever handles the request."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
