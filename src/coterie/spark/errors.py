"""From Spark's errors to one sentence: what Coterie raised in some Python process, told without the rest.

Spark turns an exception of a data source into text, inside an exception of its own. `sentence` finds ours in
it again; `told_in_one_line` keeps that text short in the first place.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from coterie import errors as all_errors
from coterie.errors import CoterieError

__all__ = ["sentence", "told_in_one_line"]

F = TypeVar("F", bound=Callable[..., Any])

_OURS: Final = re.compile(r"^(?:Caused by: )?coterie\.(?:\w+\.)*(\w+): (.*)$", re.MULTILINE)


def told_in_one_line(call: F) -> F:
    """Let errors of ours leave a call without the frames that they passed: the sentence says it all."""

    @functools.wraps(call)
    def told(*arguments: Any, **options: Any) -> Any:
        try:
            return call(*arguments, **options)
        except CoterieError as error:
            raise error.with_traceback(None) from None

    return told  # type: ignore[return-value]


def sentence(error: BaseException) -> str | None:
    """What Coterie said in an exception of Spark's; None if it was not Coterie that failed."""
    if isinstance(error, CoterieError):
        return str(error)
    found = _OURS.findall(str(error))
    known = [text for name, text in found if name in all_errors.__all__]
    return known[-1].strip() if known else None
