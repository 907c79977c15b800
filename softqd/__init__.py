"""Quality-diversity optimization without a grid."""
__version__ = "0.1.0"
from softqd import problems
from softqd.algorithms import squad
from softqd.objective import squad_objective
from softqd.types import Algorithm, Evaluation, Population, Problem
