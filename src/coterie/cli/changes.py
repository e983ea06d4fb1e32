"""Changes: a plan is shown, perhaps saved, perhaps made. The way of every command that changes something."""

from __future__ import annotations

import functools
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from coterie.cli import listings
from coterie.cli.selection import Missing
from coterie.console.directories import state_directory
from coterie.console.options import listed
from coterie.console.output import Format, Listing
from coterie.console.progress import Progress
from coterie.console.target import Target
from coterie.console.terminal import ExitCode, flush, is_terminal, note, write
from coterie.safe_text import shown

if TYPE_CHECKING:
    from coterie.client.admin import AdminClient
    from coterie.plans.execution import Outcome
    from coterie.plans.model import Action, Plan

__all__ = ["Change", "changing"]

F = TypeVar("F", bound=Callable[..., Any])

_PATH: Final = click.Path(path_type=Path, dir_okay=False)


@dataclass(frozen=True)
class Change:
    """What the options of a change said, and its way from the plan to the result."""

    action: Action
    form: Format
    execute: bool = False
    plan_out: Path | None = None
    plan_in: Path | None = None
    undo_file: Path | None = None
    no_undo: bool = False

    def run(self, make: Callable[[AdminClient], Awaitable[tuple[Plan, Missing]]]) -> int:
        """Make the plan, or read it; show it; make the change if it is wanted. Returns the exit code."""
        if self.plan_in is not None:
            plan, missing = self._read(self.plan_in), Missing()
        else:
            plan, missing = Target.current().run(make)
        self._show(plan)
        code = missing.report(any_found=bool(plan.groups))
        if self.plan_out is not None:
            plan.save(self.plan_out)
            path = shown(shlex.quote(str(self.plan_out)))
            note(f"The plan is in {path}; apply it with --plan {path} --execute.")
        if not plan.groups:
            note("Nothing to change.")
            if self._silent:
                listings.RESULTS.write([], self.form)
            return code
        if not self._wanted(plan):
            if self.plan_out is None:
                note("Nothing was changed. Add --execute to apply the plan.")
            return code
        return self._execute(plan) or code

    @property
    def _silent(self) -> bool:
        """A program that executes reads results, and nothing before them."""
        return self.execute and self.form.name not in ("table", "wide")

    def _read(self, path: Path) -> Plan:
        from coterie.plans.model import load_plan

        plan = load_plan(path)
        if plan.action != self.action:
            raise click.UsageError(f"{path} is a plan to {plan.action.replace('_', ' ')}")
        return plan

    def _show(self, plan: Plan) -> None:
        if self._silent:
            return
        if plan.action == "delete_groups":
            listings.PLANNED_GROUPS.write(plan.groups, self._form(listings.PLANNED_GROUPS))
        else:
            rows = listings.planned_offset_rows(plan.groups)
            listings.PLANNED_OFFSETS.write(rows, self._form(listings.PLANNED_OFFSETS))

    def _form(self, listing: Listing[Any]) -> Format:
        """Columns and order are those of the results, if they are executed; of the plan, if not."""
        if self.execute and listing is not listings.RESULTS:
            return Format(self.form.name, self.form.headers)
        return self.form

    def _wanted(self, plan: Plan) -> bool:
        if self.execute:
            return True
        if self.plan_out is not None or not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
            return False
        from coterie.plans.model import ACTIONS

        flush()
        count = len(plan.groups)
        groups = "1 group" if count == 1 else f"{count} groups"
        # Python may miss a Ctrl-C just before it waits for a line. Nothing is open now that has to be
        # closed, so the process may end by the signal itself.
        before = signal.signal(signal.SIGINT, signal.SIG_DFL)
        try:
            return click.confirm(f"Now {ACTIONS[plan.action]} {groups}?", default=False, err=True)
        finally:
            signal.signal(signal.SIGINT, before)

    def _execute(self, plan: Plan) -> int:
        from coterie.plans.execution import Execution

        undo = None if self.no_undo else self.undo_file or _new_undo_path(plan.action)
        if undo is not None and undo.exists():
            raise click.UsageError(f"{undo} is there already; choose another --undo-file")

        async def work(admin: AdminClient) -> tuple[list[Outcome], bool]:
            execution = Execution(admin, plan, undo)
            with Progress("Changing", len(plan.groups)) as bar:
                try:
                    return await execution.run(bar.advance), execution.saved
                except BaseException:
                    if execution.saved:
                        note(f"Interrupted. The undo file is {undo}.")
                    raise

        outcomes, saved = Target.current().run(work)
        if self.form.name in ("table", "wide"):
            write("\n")
        listings.RESULTS.write(outcomes, self._form(listings.RESULTS))
        if saved:
            _tell_how_to_undo(str(undo))
        return _exit_code(outcomes)


def _tell_how_to_undo(undo: str) -> None:
    """The command is for the cluster that was changed, whatever context is the current one by then."""
    where, secrets = Target.current().spelled()
    command = shlex.join(["coterie", "groups", "import", undo, "--execute", *where])
    note(f"The undo file is {shown(undo)}; to restore the offsets:")
    note(f"  {shown(command)}")
    for name in secrets:
        variable = f"COTERIE_{name.upper().replace('.', '_')}"
        note(shown(f"  and {name} again, by -X or {variable}; it is a secret, and not shown"))


def _exit_code(outcomes: list[Outcome]) -> int:
    bad = [each for each in outcomes if each.result in ("refused", "failed")]
    if not bad:
        return ExitCode.DONE
    return ExitCode.FAILED if len(bad) == len(outcomes) else ExitCode.PARTIAL


def _new_undo_path(action: str) -> Path:
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    return state_directory("undo") / f"{moment}-{action.replace('_', '-')}.json"


def _listing_of(action: Action) -> Callable[[click.Context], Listing[Any]]:
    def choose(ctx: click.Context) -> Listing[Any]:
        if ctx.params.get("execute"):
            return listings.RESULTS
        return listings.PLANNED_GROUPS if action == "delete_groups" else listings.PLANNED_OFFSETS

    return choose


def changing(action: Action) -> Callable[[F], F]:
    """Adds the options of a change; the command gets them together, as `change`."""

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def with_change(*args: Any, **given: Any) -> Any:
            names = ("execute", "plan_out", "plan_in", "undo_file", "no_undo", "form")
            change = Change(action, **{name: given.pop(name) for name in names})
            return command(*args, change=change, **given)

        options = (
            click.option(
                "--execute",
                "-e",
                is_flag=True,
                is_eager=True,
                help="Make the change. Without it the plan is shown, and on a terminal you are asked.",
            ),
            click.option("--plan-out", type=_PATH, help="Write the plan to this file."),
            click.option("--plan", "plan_in", type=_PATH, help="Use the plan in this file."),
            click.option(
                "--undo-file", type=_PATH, help="Write an undo file here. The file must not exist."
            ),
            click.option("--no-undo", is_flag=True, help="Do not write an undo file."),
        )
        result: Any = listed(_listing_of(action))(with_change)
        for option in reversed(options):
            result = option(result)
        return result  # type: ignore[no-any-return]

    return decorate
