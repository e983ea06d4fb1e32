"""`coterie wire`: decode bytes of the protocol, and check files of them."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from coterie.errors import CoterieError, ProtocolError
from coterie.protocol.api import ApiKey
from coterie.protocol.catalog import find_api, find_message
from coterie.protocol.codec import decode_prefix, encode
from coterie.protocol.frames import decode_request_header, decode_response
from coterie.protocol.kafka_json import from_json, to_json
from coterie.protocol.schema import Message, fields_of
from coterie.protocol.versioned import leading_number
from coterie.protocol.wire import write_uvarint

__all__ = [
    "Verdict",
    "check_files",
    "check_vector",
    "command",
    "read_vectors",
]


class Verdict(NamedTuple):
    """The result of one vector; an empty failure is a pass."""

    title: str
    failure: str


def check_files(paths: Iterable[Path]) -> Iterator[Verdict]:
    """Every vector of the files, in order."""
    for path in paths:
        for vector in read_vectors(path):
            yield check_vector(vector)


def read_vectors(path: Path) -> Iterator[dict[str, Any]]:
    """The vectors of a file, which may be compressed with gzip."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _parse(line, f"{path}:{number}")
    except (OSError, UnicodeDecodeError) as error:
        raise CoterieError(f"{path} cannot be read: {error}") from None


def _parse(line: str, place: str) -> dict[str, Any]:
    try:
        vector = json.loads(line)
        missing = {"api", "kind", "version", "hex", "json"} - set(vector)
    except (ValueError, TypeError):
        raise CoterieError(f"{place} is not a line of JSON; is this a file of vectors?") from None
    if missing:
        raise CoterieError(
            f"{place} has no {', '.join(sorted(missing))}; is this a file of vectors?"
        )
    return dict(vector)


def check_vector(vector: dict[str, Any]) -> Verdict:
    """Both directions of one vector."""
    title = " ".join(str(vector.get(key, "")) for key in ("api", "kind", "version", "case")).strip()
    try:
        return Verdict(title, _compare(vector))
    except (CoterieError, ValueError, KeyError, TypeError, StopIteration) as error:
        return Verdict(title, f"{type(error).__name__}: {error}")


def _compare(vector: dict[str, Any]) -> str:
    cls = _message_of(vector["api"], vector["kind"])
    version = int(vector["version"])
    data = bytes.fromhex(vector["hex"])
    prefix = _prefix(cls, version)
    message, end = decode_prefix(cls, data, version, offset=len(prefix))
    if end != len(data):
        return f"{len(data) - end} bytes are left over"
    if to_json(message, version) != vector["json"]:
        return f"decoded to {json.dumps(to_json(message, version), ensure_ascii=False)}"
    records = iter([raw and bytes.fromhex(raw) for raw in vector.get("records", [])])
    described = from_json(cls, vector["json"], version, records)
    unknown = {int(tag): bytes.fromhex(raw) for tag, raw in vector.get("unknownTags", {}).items()}
    encoded = prefix + _with_tags(described, version, unknown)
    return "" if encoded == data else f"encoded to {encoded.hex()}"


def _message_of(api: str, kind: str) -> type[Message]:
    suffix = {
        "request": "Request",
        "response": "Response",
        "record-key": "Key",
        "record-value": "Value",
    }.get(kind, "")
    return find_message(api if api.endswith(suffix) else api + suffix)


def _prefix(cls: type[Message], version: int) -> bytes:
    """The number that precedes blobs and records: the type of the record, or the version."""
    if cls.__kind__ == "record-key":
        return cls.__key__.to_bytes(2, "big")
    return version.to_bytes(2, "big") if cls.__kind__ in ("data", "record-value") else b""


def _with_tags(message: Message, version: int, unknown: dict[int, bytes]) -> bytes:
    """The message's bytes with tagged fields that we do not know, as a newer Kafka would add them.

    The outermost tag section is at the very end, and empty (one zero byte) when all tagged fields are
    at their defaults: the section begins one byte before the end of such a twin.
    """
    encoded = encode(message, version)
    if not unknown:
        return encoded
    known = [f for f in fields_of(type(message)) if f.tag is not None and version in f.versions]
    twin = {f.name: getattr(message, f.name) for f in fields_of(type(message)) if f not in known}
    start = len(encode(type(message)(**twin), version)) - 1
    section = encoded[start:]
    count = section[0] + len(unknown)
    extra = b"".join(
        write_uvarint(tag) + write_uvarint(len(raw)) + raw for tag, raw in sorted(unknown.items())
    )
    return encoded[:start] + write_uvarint(count) + section[1:] + extra


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
    """Drop the size of the frame if the first four bytes are the number of the bytes that follow."""
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
