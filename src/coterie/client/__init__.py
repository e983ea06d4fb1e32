"""The admin client: all groups of a cluster in a handful of requests, and never a lie."""

from __future__ import annotations

from coterie.client.admin import AdminClient

__all__ = ["AdminClient"]
