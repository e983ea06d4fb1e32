"""`kafka-consumer-groups`: from the command line to an action, and from what happened to an exit code.

Kafka's tool exits with 0 whatever happened, unless the command line was wrong. So do we, unless
`--strict-exit` or COTERIE_STRICT_EXIT=1 asks for honest codes: 0 done, 1 failed, 2 wrong usage, 3 partly.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from coterie.cli.consumer_groups.checks import DESCRIPTION, Usage, check, check_one_action
from coterie.cli.consumer_groups.java import Throwable, runtime
from coterie.cli.consumer_groups.options import Options, parse
from coterie.cli.consumer_groups.output import Output
from coterie.console.terminal import ExitCode, buffer_stdout

if TYPE_CHECKING:
    from coterie.cli.consumer_groups.session import Session

__all__ = [
    "KAFKA_VERSION",
    "main",
    "run",
    "verdict",
]

#: RE2's words, which begin its message, and those of RE2/J for the same mistake.
_WORDS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "regexp/syntax: internal error",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
#: RE2 takes a name twice and RE2/J does not. A backslash takes the next character out of play.
_NAMED: Final = re.compile(r"\\.|\(\?P?<(\w+)>", re.DOTALL)
_TWICE: Final = "duplicate capture group name"


def verdict(pattern: str) -> tuple[bool, str]:
    """Whether the pattern is valid, and the sentence that says so."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0]
        text = said.decode() if isinstance(said, bytes) else str(said)
        reason = next((_WORDS[each] for each in _WORDS if text.startswith(each)), None)
        reason = reason or text.rpartition(": ")[0] or text
        return False, f"The regular expression `{pattern}` is invalid: {reason}."
    names = [found[1] for found in _NAMED.finditer(pattern) if found[1]]
    if len(names) > len(set(names)):
        return False, f"The regular expression `{pattern}` is invalid: {_TWICE}."
    return True, f"The regular expression `{pattern}` is valid."


#: The tool that this one stands in for.
KAFKA_VERSION: Final = "4.3.0"

_DEFAULT_TIMEOUT_MS: Final = 30_000


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of the script, whose process has nothing else to do."""
    # It lives too short to look for garbage, and what it holds is gone with it: no need to tidy up.
    gc.disable()
    buffer_stdout()
    os._exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run the tool; returns its exit code."""
    out = Output()
    try:
        code, strict = _run([_as_java_reads(each) for each in arguments], out)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    finally:
        out.close()
    if strict and code == ExitCode.DONE and out.lost:
        return ExitCode.NO_READER if out.no_reader else ExitCode.FAILED
    return code


def _as_java_reads(argument: str) -> str:
    """Bytes of the command line that are no text become replacement characters."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _run(arguments: list[str], out: Output) -> tuple[int, bool]:
    """The exit code, and whether it has to be honest."""
    strict = os.environ.get("COTERIE_STRICT_EXIT") == "1"
    try:
        options = parse(arguments)
        strict = strict or options.has("strict-exit")
        if not arguments or options.has("help"):
            _print_usage(out, DESCRIPTION)
            return (ExitCode.DONE if strict else ExitCode.FAILED), strict
        if options.has("version"):
            out.line(KAFKA_VERSION)
            return ExitCode.DONE, strict
        warning = check(options)
        if warning is not None:
            out.note(warning)
        check_one_action(options)
    except Usage as error:
        return _wrong_usage(out, str(error), strict=strict), strict
    except Throwable as error:
        for index, line in enumerate(error.lines()):
            out.note(line if index else f'Exception in thread "main" {line}')
        return (ExitCode.WRONG_USAGE if strict else ExitCode.FAILED), strict
    return _act(options, out, strict=strict), strict


def _wrong_usage(out: Output, message: str, *, strict: bool) -> int:
    _print_usage(out, message)
    return ExitCode.WRONG_USAGE if strict else ExitCode.FAILED


def _print_usage(out: Output, message: str) -> None:
    with open(os.path.join(os.path.dirname(__file__), "usage.txt"), encoding="utf-8") as file:  # noqa: PTH118, PTH120, PTH123 - pathlib would cost its import
        usage = file.read()
    out.note(f"{message}\n{usage.removesuffix(chr(10))}")


def _act(options: Options, out: Output, *, strict: bool) -> int:
    if options.has("validate-regex"):
        return _validate(options, out, strict=strict)
    try:
        done, failed = _with_client(options, out)
    except Usage as error:
        return _wrong_usage(out, str(error), strict=strict)
    except Throwable as error:
        out.error(f"Executing consumer group command failed due to {error.message}", error)
        done, failed = 0, 1
    if not strict or not failed:
        return ExitCode.DONE
    return ExitCode.PARTIAL if done else ExitCode.FAILED


def _validate(options: Options, out: Output, *, strict: bool) -> int:
    from coterie.cli.consumer_groups.main import verdict

    try:
        pattern = options.value("validate-regex") or ""
    except Throwable as error:
        return _wrong_usage(out, error.message or "", strict=strict)
    valid, sentence = verdict(pattern)
    out.line(out.name(sentence))
    return ExitCode.FAILED if strict and not valid else ExitCode.DONE


def _with_client(options: Options, out: Output) -> tuple[int, int]:
    """Act with the admin client; returns how much was done and how much was not."""
    from coterie.cli.consumer_groups.session import Session, create_admin

    admin = create_admin(options.value("bootstrap-server") or "", _properties(options))
    # Read now, because here is where Kafka's tool finds out that they are no numbers.
    options.numbers("to-offset")
    options.value("by-duration")
    options.number("shift-by")
    timeout_ms = options.number("timeout", _DEFAULT_TIMEOUT_MS) or 0
    import asyncio

    # Java makes an int of it.
    timeout_ms = (timeout_ms + (1 << 31)) % (1 << 32) - (1 << 31)
    return asyncio.run(_dispatch(Session(admin, out, timeout_ms), options))


def _properties(options: Options) -> dict[str, str]:
    path = options.value("command-config")
    if path is None:
        return {}
    from coterie.client.properties import parse_properties

    try:
        with open(path, "rb") as file:  # noqa: PTH123 - likewise
            data = file.read()
    except FileNotFoundError:
        raise runtime(Throwable("java.nio.file.NoSuchFileException", path)) from None
    except PermissionError:
        raise runtime(Throwable("java.nio.file.AccessDeniedException", path)) from None
    except OSError as error:
        raise runtime(Throwable("java.io.IOException", error.strerror)) from None
    try:
        return parse_properties(data.decode())
    except UnicodeDecodeError:
        # Java reads such files in Latin-1, and Unicode by escapes only.
        return parse_properties(data.decode("latin-1"))


async def _dispatch(session: Session, options: Options) -> tuple[int, int]:
    from coterie.errors import CoterieError

    try:
        return await _action(session, options)
    except CoterieError as error:
        raise session.translate(error) from None
    finally:
        await session.admin.close()


async def _action(session: Session, options: Options) -> tuple[int, int]:
    if options.has("list"):
        from coterie.cli.consumer_groups.listing import list_groups

        await list_groups(session, options)
        return 1, 0
    if options.has("describe"):
        from coterie.cli.consumer_groups.describing import describe

        return 1, 0 if await describe(session, options) else 1
    if options.has("reset-offsets"):
        from coterie.cli.consumer_groups.resetting import reset_offsets

        return await reset_offsets(session, options)
    from coterie.cli.consumer_groups.deleting import delete_groups, delete_offsets

    return await (delete_groups if options.has("delete") else delete_offsets)(session, options)
