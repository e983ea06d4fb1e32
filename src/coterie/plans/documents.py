"""JSON documents on disk: replaced as a whole, and validated when they are read."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from coterie.errors import CoterieError
from coterie.files import replace_file

__all__ = ["decode_document", "document_bytes", "read_bytes", "save_bytes", "save_document"]

T = TypeVar("T")


def save_document(path: Path, document: msgspec.Struct) -> None:
    """Replace the file, atomically and durably."""
    save_bytes(path, document_bytes(document))


def document_bytes(document: msgspec.Struct) -> bytes:
    """The document as it is written: indented, because users read plans."""
    return msgspec.json.format(msgspec.json.encode(document)) + b"\n"


def save_bytes(path: Path, content: bytes, *, private: bool = False) -> None:
    """Replace the file, atomically and durably; only its owner may read a private one."""
    try:
        replace_file(path, content, mode=0o600 if private else 0o640)
    except OSError as error:
        raise CoterieError(f"{path} cannot be written: {error.strerror}") from None


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CoterieError(f"{path} cannot be read: {error.strerror}") from None


def decode_document(path: Path, kind: type[T], name: str) -> T:
    """The document in a file, if it is of this kind; else a one-line error with the position."""
    try:
        return msgspec.json.decode(read_bytes(path), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CoterieError(f"{path} is not {name}: {error}") from None
