"""JSON documents on disk: written whole and synced before they have a name; checked when they are read."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from coterie.errors import CoterieError

__all__ = ["decode_document", "document_bytes", "read_bytes", "save_bytes", "save_document"]

T = TypeVar("T")


def save_document(path: Path, document: msgspec.Struct) -> None:
    """Replace the file, atomically and durably."""
    save_bytes(path, document_bytes(document))


def document_bytes(document: msgspec.Struct) -> bytes:
    """As it is written: indented, for people read plans."""
    return msgspec.json.format(msgspec.json.encode(document)) + b"\n"


def save_bytes(path: Path, content: bytes, *, private: bool = False) -> None:
    from coterie.storage.small_files import save_among_others  # noqa: PLC0415 - only to write

    try:
        save_among_others(path, content, private=private)
    except OSError as error:
        raise CoterieError(f"{path} cannot be written: {error.strerror}") from None


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CoterieError(f"{path} cannot be read: {error.strerror}") from None


def decode_document(path: Path, kind: type[T], name: str) -> T:
    """What the file says, if it is of this kind; else one sentence with the place of the trouble."""
    try:
        return msgspec.json.decode(read_bytes(path), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CoterieError(f"{path} is not {name}: {error}") from None
