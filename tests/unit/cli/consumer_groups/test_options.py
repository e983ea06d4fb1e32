"""The command line as joptsimple reads it. What is expected here was seen with Kafka's own tool."""

from __future__ import annotations

import pytest

from coterie.cli.consumer_groups.checks import Usage, check, check_one_action
from coterie.cli.consumer_groups.java import Throwable
from coterie.cli.consumer_groups.options import OPTIONS, ParseError, parse


def test_values_may_stand_behind_a_blank_or_an_equals_sign() -> None:
    options = parse(["--group", "a", "--group=b=c", "--describe"])
    assert options.values("group") == ["a", "b=c"]
    assert options.has("describe")
    assert not options.has("list")


def test_an_equals_sign_with_nothing_behind_it_is_an_empty_value() -> None:
    options = parse(["--group=", "--describe", "--state="])
    assert options.values("group") == [""]
    assert options.values("state") == [""]


def test_a_value_that_must_be_there_may_look_like_an_option() -> None:
    options = parse(["--describe", "--group", "--list"])
    assert options.values("group") == ["--list"]
    assert not options.has("list")


def test_a_value_that_may_be_there_may_not() -> None:
    options = parse(["--list", "--state", "--type", "classic"])
    assert (options.value("state"), options.value("type")) == (None, "classic")
    assert parse(["--list", "--state", "-"]).value("state") == "-"


def test_a_value_for_an_option_without_one_is_ignored() -> None:
    assert parse(["--list=yes"]).has("list")


def test_one_dash_is_as_good_as_two() -> None:
    options = parse(["-list", "-group=x"])
    assert options.has("list")
    assert options.values("group") == ["x"]


def test_words_and_what_follows_two_dashes_are_ignored() -> None:
    options = parse(["here", "--list", "there", "-", "--", "--describe"])
    assert options.has("list")
    assert not options.has("describe")


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (["--li"], "UnrecognizedOption", "li is not a recognized option"),
        (["--foo=bar"], "UnrecognizedOption", "foo is not a recognized option"),
        (["-xlist"], "UnrecognizedOption", "x is not a recognized option"),
        (["--group"], "OptionMissingRequiredArgument", "Option group requires an argument"),
        (
            ["--list", "--verbose", "--members"],
            "UnavailableOption",
            "Option(s) [members, verbose] are unavailable given other options on the command line",
        ),
    ],
)
def test_what_joptsimple_throws(arguments: list[str], kind: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(arguments)
    assert str(caught.value) == f"joptsimple.{kind}Exception: {message}"


def test_help_makes_every_option_available() -> None:
    assert parse(["--members", "--help"]).has("help")


def test_two_values_are_one_too_many() -> None:
    options = parse(["--list", "--state", "a", "--state", "b"])
    with pytest.raises(Throwable, match="Found multiple arguments for option state, but you asked"):
        options.value("state")


@pytest.mark.parametrize("text", ["0", "-5", "+7", str((1 << 63) - 1), str(-(1 << 63))])
def test_numbers_are_longs(text: str) -> None:
    assert parse(["--shift-by", text]).number("shift-by") == int(text)


@pytest.mark.parametrize("text", ["", "x", "1.5", " 1", "1_0", str(1 << 63)])
def test_what_is_no_long(text: str) -> None:
    with pytest.raises(Throwable) as caught:
        parse(["--timeout", text]).number("timeout")
    cause = f'java.lang.NumberFormatException: For input string: "{text}"'
    said = f"Cannot parse argument '{text}' of option timeout"
    assert list(caught.value.lines()) == [
        f"joptsimple.OptionArgumentConversionException: {said}",
        f"Caused by: joptsimple.internal.ReflectionException: {cause}",
        f"Caused by: {cause}",
    ]


SERVER = ["--bootstrap-server", "h:1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--list"], 'Missing required argument "[bootstrap-server]"'),
        (
            [*SERVER, "--delete"],
            "Option [delete] takes one of these options: [all-groups], [group]",
        ),
        (
            [*SERVER, "--list", "--group", "g"],
            'Option "[group]" can\'t be used with option "[list]"',
        ),
        (
            [*SERVER, "--list", "--topic", "t"],
            'Option "[topic]" can\'t be used with option "[list]"',
        ),
        (
            [*SERVER, "--describe", "--group", "g", "--state="],
            "Option [describe] does not take a value for [state]",
        ),
        (
            [*SERVER, "--reset-offsets", "--execute", "--dry-run"],
            "Option [reset-offsets] only accepts one of [execute] and [dry-run]",
        ),
        (
            [*SERVER, "--describe", "--kip-181", "--group", "g", "--state", "--topic", "t"],
            'Option "[topic]" can\'t be used with option "[state]"',
        ),
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], message: str) -> None:
    with pytest.raises(Usage) as caught:
        check(parse(arguments))
    assert str(caught.value) == message


def test_the_warning_stands_before_the_complaint() -> None:
    with pytest.raises(Usage) as caught:
        check(parse([*SERVER, "--reset-offsets", "--group", "g", "--all-groups"]))
    warning, complaint = str(caught.value).split("\n")
    assert warning.startswith(
        "WARN: No action will be performed as the --execute option is missing."
    )
    assert complaint == 'Option "[group]" can\'t be used with option "[all-groups]"'


def test_a_regex_needs_no_server() -> None:
    options = parse(["--validate-regex", "a"])
    assert check(options) is None
    check_one_action(options)


def test_kip_181_lets_a_description_be_narrowed_to_topics() -> None:
    assert (
        check(parse([*SERVER, "--describe", "--kip-181", "--group", "g", "--topic", "t"])) is None
    )


def test_every_option_of_kafka_is_there_and_two_of_ours() -> None:
    from pathlib import Path  # noqa: PLC0415

    import coterie.cli.consumer_groups as package  # noqa: PLC0415

    usage = (Path(package.__path__[0]) / "usage.txt").read_text(encoding="utf-8")
    shown = {line.split()[0][2:] for line in usage.splitlines() if line.startswith("--")}
    shown.discard("----")
    assert set(OPTIONS) - shown == {"strict-exit", "kip-181"}
    assert shown - {"-" * 4} <= set(OPTIONS)
