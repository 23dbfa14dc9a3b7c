"""A server of the Debug Adapter Protocol over sessions of the debugger, for editors.

It imports `isa`, `simulator`, `debugger` and `values`. Start with `server.py`, which reads and answers requests; `adapter.py` carries them out.
"""
