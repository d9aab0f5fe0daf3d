"""What was tried where a limit is not kept: text by section and row, written by hand, shown below the table."""

from __future__ import annotations

from collections.abc import Mapping

NOTES: Mapping[str, Mapping[str, str]] = {}
"""``{"implicit": {"ResNet-18 stage 4": "why, and what was tried"}}``; a row is named as in the table."""
