"""The capabilities of the adapter, as `initialize` answers them."""

from __future__ import annotations

from typing import Any

#: the filter of traps
TRAPS = "trap"

CAPABILITIES: dict[str, Any] = {
    **dict.fromkeys(
        (
            "supportsConfigurationDoneRequest", "supportsFunctionBreakpoints", "supportsConditionalBreakpoints",
            "supportsHitConditionalBreakpoints", "supportsEvaluateForHovers", "supportsStepBack", "supportsSetVariable",
            "supportsSetExpression", "supportsCompletionsRequest", "supportsExceptionInfoRequest",
            "supportsDelayedStackTraceLoading", "supportsLoadedSourcesRequest", "supportsLogPoints",
            "supportsTerminateRequest", "supportsDataBreakpoints", "supportsReadMemoryRequest",
            "supportsWriteMemoryRequest", "supportsDisassembleRequest", "supportsCancelRequest",
            "supportsBreakpointLocationsRequest", "supportsSteppingGranularity", "supportsInstructionBreakpoints",
            "supportsExceptionFilterOptions", "supportsClipboardContext",
        ),
        True,
    ),
    "exceptionBreakpointFilters": [
        {
            "filter": TRAPS,
            "label": "Traps",
            "description": "Stop where an instruction cannot execute; without it a trap ends the session",
            "default": True,
            "supportsCondition": True,
            "conditionDescription": "Codes of traps, such as RG0407, RG0402; all if empty",
        }
    ],
}  # fmt: skip
