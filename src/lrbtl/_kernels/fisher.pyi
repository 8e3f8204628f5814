import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

def logistic_terms(eta: Floats, y: Floats, loss_out: Floats, score_out: Floats, fisher_out: Floats) -> None: ...
