# The public names: see `retrograd/__init__.pyi`.

from retrograd.observe._session import Event as Event
from retrograd.observe._session import Session as Session
from retrograd.observe._timeline import Cause as Cause
from retrograd.observe._timeline import Frame as Frame
from retrograd.observe._timeline import Write as Write
from retrograd.observe._variables import Breakpoint as Breakpoint
from retrograd.observe._variables import Expression as Expression
from retrograd.observe._variables import Place as Place
from retrograd.observe._variables import Variable as Variable
from retrograd.observe._variables import Watch as Watch
