"""`coterie wire`: decode bytes of the protocol, and check files of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from coterie.cli.vectors import check_files
from coterie.errors import CoterieError, ProtocolError
from coterie.protocol.api import ApiKey
from coterie.protocol.catalog import find_api, find_message
from coterie.protocol.codec import decode_prefix
from coterie.protocol.frames import decode_request_header, decode_response
from coterie.protocol.kafka_json import to_json
from coterie.protocol.versioned import leading_number

__all__ = ["command"]


@click.group("wire")
def command() -> None:
    """Look at bytes of Kafka's protocol."""


@command.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
def check(files: tuple[str, ...]) -> None:
    """Run files of protocol vectors (JSON lines, plain or .gz) through both directions.

    Ends with `N passed, M failed`; the exit code is 1 when anything failed.
    """
    passed = failed = 0
    try:
        for verdict in check_files(map(Path, files)):
            if verdict.failure:
                failed += 1
                click.echo(f"FAILED {verdict.title}: {verdict.failure}")
            else:
                passed += 1
    except CoterieError as error:
        raise click.UsageError(str(error)) from None
    if not passed + failed:
        raise click.UsageError("there is no vector in these files")
    click.echo(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


@command.command("decode")
@click.argument("text", metavar="HEX", default="-")
@click.option(
    "--response", "api", metavar="API", help="Decode the bytes as a response of this API."
)
@click.option("--message", metavar="NAME", help="Decode the bytes as the body of this message.")
@click.option("--version", type=int, help="The version, for --response and --message.")
def decode(text: str, api: str | None, message: str | None, version: int | None) -> None:
    """Print one message, as JSON, from its bytes in hexadecimal (`-` reads standard input).

    Without options HEX is a request as a client sends it: size (or not), header, body. Blobs and
    records (`--message ConsumerProtocolSubscription`, `--message OffsetCommitValue`) begin with their
    version, so they need no --version.
    """
    data = _bytes(text)
    if api and message:
        raise click.UsageError("--response and --message exclude each other")
    if message:
        found = _decode_message(message, data, version)
    elif api:
        found = _decode_response(find_api(api), data, version)
    else:
        found = _decode_request(data)
    click.echo(json.dumps(found, indent=2, ensure_ascii=False))


def _bytes(text: str) -> bytes:
    if text == "-":
        text = sys.stdin.read()
    try:
        return bytes.fromhex(text.strip().removeprefix("0x").replace(":", " "))
    except ValueError as error:
        raise CoterieError(f"this is not hexadecimal: {error}") from None


def _without_size(data: bytes) -> bytes:
    """Drop the size in front, if it is one: it then counts exactly the bytes behind it."""
    return data[4:] if int.from_bytes(data[:4], "big") == len(data) - 4 else data


def _decode_request(data: bytes) -> dict[str, Any]:
    body = _without_size(data)
    api, header, at = decode_request_header(body)
    version = header.request_api_version
    request, end = decode_prefix(api.request, body, version, offset=at)
    return {
        "request": api.api_name,
        "version": version,
        "correlationId": header.correlation_id,
        "clientId": header.client_id,
        "body": to_json(request, version),
        **_left_over(body, end),
    }


def _decode_response(api: ApiKey, data: bytes, version: int | None) -> dict[str, Any]:
    if version is None:
        raise click.UsageError("a response does not say its version: add --version N")
    correlation_id, response = decode_response(api, version, _without_size(data))
    return {
        "response": api.api_name,
        "version": version,
        "correlationId": correlation_id,
        "body": to_json(response, version),
    }


def _decode_message(name: str, data: bytes, version: int | None) -> dict[str, Any]:
    cls = find_message(name)
    offset = 0
    if cls.__kind__ in ("data", "record-key", "record-value"):
        number, offset = leading_number(data), 2
        if number is None:
            raise ProtocolError("too few bytes for a version", message=cls.__name__, offset=0)
        version = 0 if cls.__kind__ == "record-key" else number
    elif version is None:
        raise click.UsageError(f"{cls.__name__} does not say its version: add --version N")
    message, end = decode_prefix(cls, data, version, offset=offset)
    return {
        "message": cls.__name__,
        "version": version,
        "body": to_json(message, version),
        **_left_over(data, end),
    }


def _left_over(data: bytes, end: int) -> dict[str, str]:
    return {"leftOver": data[end:].hex()} if end < len(data) else {}
