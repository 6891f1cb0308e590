"""The events of a run, and the names of version 0.1 for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clearhead.jobs.events import NO_EVENTS, RunEvents
from clearhead.jobs.progress import OLD_NAMES, Told


def test_by_default_nothing_is_reported() -> None:
    NO_EVENTS.message("a line")
    NO_EVENTS.started(Path("run"))
    NO_EVENTS.seed_started(1, 0, 3)
    NO_EVENTS.progress("reading", 1, None)
    assert NO_EVENTS.download is None


def test_the_old_names_lead_to_the_new_ones() -> None:
    calls: dict[str, Any] = {name: object() for name in OLD_NAMES}
    events = Told(**calls)
    assert isinstance(events, RunEvents)
    assert {former: getattr(events, current) for former, current in OLD_NAMES.items()} == calls
    assert set(OLD_NAMES.values()) == set(vars(NO_EVENTS))
    assert Told(step=None) == NO_EVENTS
    with pytest.raises(TypeError, match="unexpected keyword argument 'says'"):
        Told(says=print)
