"""Options of many commands: the target cluster, paths to write to and the format of the output."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

import click

from coterie.console.durations import duration
from coterie.console.output import FORMATS, Format, Listing

__all__ = ["LocalPath", "complete_contexts", "connected", "listed"]

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:
    _StrType = click.ParamType[str]
else:
    # Generic only in later versions of click.
    _StrType = click.ParamType


#: A path with a scheme of two letters or more; one letter is a drive.
_URI: Final = re.compile(r"([a-z][a-z0-9+.-]+):(?=/)(?://([^/]*))?(.*)", re.IGNORECASE | re.DOTALL)


class LocalPath(click.Path):
    """A path on this machine, also as file:///PATH; other URIs would become local directories."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and (uri := _URI.fullmatch(value)):
            scheme, host, path = uri.groups()
            if scheme.lower() != "file" or host not in {None, "", "localhost"} or not path:
                self.fail(
                    f"{value} is not a local path. Pass a path on this machine, such as a mounted"
                    " directory, or file:///PATH; object stores are not supported.",
                    param,
                    ctx,
                )
            value = unquote(path)
        return super().convert(value, param, ctx)


# -- the target cluster -----------------------------------------------------------------------------------


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Options of the cluster may be given before or after the command; the last one wins."""

    def keep(ctx: click.Context, _: click.Parameter, value: Any) -> Any:
        if value not in (None, ()):
            target = ctx.meta.setdefault("coterie.target", {})
            target[name] = (*target.get(name, ()), *value) if name == "overrides" else value
        return value

    return keep


def connected(command: F) -> F:
    """Adds the options that name the cluster; `Target.current()` has their values."""
    options = (
        click.option(
            "--bootstrap-server",
            "-b",
            metavar="HOST:PORT,...",
            callback=_keep("bootstrap"),
            expose_value=False,
            help="Brokers to connect to first.",
        ),
        click.option(
            "--context",
            metavar="NAME",
            callback=_keep("context"),
            expose_value=False,
            shell_complete=complete_contexts,
            help="A cluster of the configuration file.",
        ),
        click.option(
            "--command-config",
            metavar="FILE",
            type=click.Path(),
            callback=_keep("file"),
            expose_value=False,
            help="Settings in a Java properties file.",
        ),
        click.option(
            "-X",
            "overrides",
            metavar="NAME=VALUE",
            multiple=True,
            callback=_keep("overrides"),
            expose_value=False,
            help="A setting of the client, in Java's or librdkafka's spelling.",
        ),
        click.option(
            "--timeout",
            metavar="DURATION",
            type=duration,
            callback=_keep("timeout"),
            expose_value=False,
            help="Timeout for each request to the cluster (default: 1m).",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def complete_contexts(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from coterie.console.configuration import context_names

    return context_names(incomplete)


# -- output -----------------------------------------------------------------------------------------------


#: A listing, or a function that finds it by an eager option.
Choice = Listing[Any] | Callable[[click.Context], Listing[Any]]
#: The columns are known only when the command has run.
_NO_COLUMNS: Final[Listing[Any]] = Listing("rows", "The columns depend on what is asked.", ())


def _of(choice: Choice, ctx: click.Context) -> Listing[Any]:
    return choice if isinstance(choice, Listing) else choice(ctx)


class _FormatName(_StrType):
    name = "format"

    def __init__(self, choice: Choice) -> None:
        self._choice = choice

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == "help" and ctx is not None:
            _of(self._choice, ctx).write_help()
            ctx.exit()
        if value == "schema" and self._choice is _NO_COLUMNS:
            self.fail("there is no schema: the columns depend on what is asked", param, ctx)
        if value == "schema" and ctx is not None:
            _of(self._choice, ctx).write_schema()
            ctx.exit()
        if value not in FORMATS:
            self.fail(f"{value!r} is not one of {', '.join(FORMATS)}, help, schema", param, ctx)
        return str(value)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        param: click.Parameter,  # noqa: ARG002 - click's signature
        incomplete: str,
    ) -> list[click.shell_completion.CompletionItem]:
        from click.shell_completion import CompletionItem

        names = (*FORMATS, "help", "schema")
        return [CompletionItem(each) for each in names if each.startswith(incomplete)]


def listed(choice: Choice = _NO_COLUMNS) -> Callable[[F], F]:
    """Adds the options of output; the command gets them together, as `form`.

    Without a listing the columns depend on what the command finds, and there is nothing to choose from.
    """

    def split(ctx: click.Context, _: click.Parameter, value: str | None) -> tuple[str, ...]:
        names = tuple(each.strip() for each in (value or "").split(",") if each.strip())
        for each in names:
            _of(choice, ctx).column(each.lstrip("-"))
        return names

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def with_form(*args: Any, **given: Any) -> Any:
            form = Format(
                given.pop("output"),
                not given.pop("no_headers"),
                given.pop("columns", ()),
                given.pop("sort", ()),
            )
            return command(*args, form=form, **given)

        options = [
            click.option(
                "--output",
                "--format",
                "-o",
                "output",
                default="table",
                show_default=True,
                type=_FormatName(choice),
                metavar="FORMAT",
                help=f"{', '.join(FORMATS)}; `help` explains the columns, `schema` is for programs.",
            ),
            click.option("--no-headers", is_flag=True, help="Omit the header line (table, csv)."),
        ]
        if choice is not _NO_COLUMNS:
            options += [
                click.option(
                    "--columns", callback=split, metavar="A,B", help="Show these columns."
                ),
                click.option(
                    "--sort", callback=split, metavar="A,-B", help="Order; - is descending."
                ),
            ]
        result: Any = with_form
        for option in reversed(options):
            result = option(result)
        return result  # type: ignore[no-any-return]

    return decorate
