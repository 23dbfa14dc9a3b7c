"""A time-travel debugger: sessions on a machine that step and run in both directions.

It imports `isa` and `simulator`. Start with `session.py`; `timeline.py` holds the search at the speed of an engine.
"""

from retrograd.debugger import errors as errors
from retrograd.debugger.expressions import Expression as Expression
from retrograd.debugger.places import Place as Place
from retrograd.debugger.session import Breakpoint as Breakpoint
from retrograd.debugger.session import Cause as Cause
from retrograd.debugger.session import Counts as Counts
from retrograd.debugger.session import Event as Event
from retrograd.debugger.session import Frame as Frame
from retrograd.debugger.session import Session as Session
from retrograd.debugger.session import Write as Write
