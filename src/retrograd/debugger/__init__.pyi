# The public names: see `retrograd/__init__.pyi`.

from retrograd.debugger.breakpoints import Breakpoint as Breakpoint
from retrograd.debugger.breakpoints import Watch as Watch
from retrograd.debugger.calls import Frame as Frame
from retrograd.debugger.causes import Cause as Cause
from retrograd.debugger.causes import Write as Write
from retrograd.debugger.expressions import Expression as Expression
from retrograd.debugger.places import Place as Place
from retrograd.debugger.session import Event as Event
from retrograd.debugger.session import Session as Session
from retrograd.debugger.variables import Variable as Variable
