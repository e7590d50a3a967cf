"""Structured log: one JSON object a line on the real stderr, never through pytest's capture."""

from __future__ import annotations

import datetime
import json
import logging
import sys

from pytest_benchrig.core.generation import JsonValue

# None of the loggers that others know of: pytest puts its handlers on every known one that does not
# propagate, and takes them off again, six times an item.
_LOGGER = logging.Logger("pytest_benchrig")


class _JsonLines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        line = {
            "time": datetime.datetime.fromtimestamp(
                record.created, datetime.timezone.utc
            ).isoformat(),
            "level": record.levelname,
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        stream = sys.__stderr__
        if stream is not None:
            stream.write(json.dumps(line, ensure_ascii=True) + "\n")
            stream.flush()


def configure(level: str) -> None:
    """Send events from this level up to stderr; one handler however often it is called."""
    _LOGGER.handlers[:] = [_JsonLines()]
    _LOGGER.setLevel(level)


def event(name: str, level: int = logging.INFO, **fields: JsonValue) -> None:
    """Log one event with its fields."""
    _LOGGER.log(level, name, extra={"fields": dict(fields)})


__all__ = ["configure", "event"]
