# The public names: see `retrograd/__init__.pyi`.

from retrograd.testing.gradients import GradientComparison as GradientComparison
from retrograd.testing.gradients import GradientElement as GradientElement
from retrograd.testing.gradients import check_gradient as check_gradient
from retrograd.testing.laws import ErasureReport as ErasureReport
from retrograd.testing.laws import InverseReport as InverseReport
from retrograd.testing.laws import LawBroken as LawBroken
from retrograd.testing.laws import assert_erased_bits_below as assert_erased_bits_below
from retrograd.testing.laws import assert_no_garbage as assert_no_garbage
from retrograd.testing.laws import check_inverse as check_inverse
from retrograd.testing.strategies import LawsReport as LawsReport
from retrograd.testing.strategies import arguments as arguments
from retrograd.testing.strategies import check_laws as check_laws
from retrograd.testing.strategies import fixed_numbers as fixed_numbers
from retrograd.testing.strategies import words as words

__all__: list[str]
