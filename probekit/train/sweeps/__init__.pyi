from .run import fit as fit
from .run import sweep as sweep
