# The public names: see `retrograd/__init__.pyi`.

from retrograd.hardware.runs import logic_loss as logic_loss
from retrograd.hardware.runs import run_batch_on_hardware as run_batch_on_hardware
from retrograd.hardware.runs import run_on_hardware as run_on_hardware
from retrograd.hardware.runs import state_entropies as state_entropies
