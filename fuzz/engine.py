"""The process that fuzzes: atheris around the targets, with libFuzzer's own options.

Called by fuzz.run, which bounds its time and judges what it says; by hand, to see one input again:
`python -m fuzz.engine PATH`.
"""

from __future__ import annotations

import sys
from typing import Any
from unittest import mock

import atheris

with atheris.instrument_imports(include=["coterie"], enable_loader_override=False):
    from coterie.protocol.catalog import all_messages
    from coterie.protocol.source import Compiled, Source
    from fuzz import targets

__all__ = ["EVERY_VERSION", "main"]

#: Instrument the codecs of every version, not only of each message's last: takes half a minute.
EVERY_VERSION = "--every-version"


def main(argv: list[str]) -> None:
    options = [each for each in argv if each != EVERY_VERSION]
    watched = _titles(every_version=EVERY_VERSION in argv)
    compile_plainly = Source.compile

    def compile_watched(source: Source, title: str) -> Compiled:
        """Codecs are written when they are first needed: no import that atheris could see."""
        compiled = compile_plainly(source, title)
        if title in watched:
            atheris.instrument_func(compiled.call)
        return compiled

    with mock.patch.object(Source, "compile", compile_watched):
        atheris.Setup(options, _one_input)
        atheris.Fuzz()


def _titles(*, every_version: bool) -> set[str]:
    return {
        f"decode {cls.__name__} v{version}"
        for cls in all_messages().values()
        for version in cls.__versions__.each()
        if every_version or version == cls.__versions__.highest
    }


def _one_input(data: Any) -> None:
    targets.run(bytes(data))


if __name__ == "__main__":
    main(sys.argv)
