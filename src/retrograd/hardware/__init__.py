"""Functions of the language on the co-processor: simulated, or on a bus.

It imports `functions`, `differentiation`, `values` and `hdl`. Start with `runs.py`.
"""

from retrograd.hardware.batches import run_batch_on_hardware as run_batch_on_hardware
from retrograd.hardware.runs import logic_loss as logic_loss
from retrograd.hardware.runs import run_on_hardware as run_on_hardware
from retrograd.hardware.runs import state_entropies as state_entropies
