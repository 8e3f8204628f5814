"""The methods by name."""

from lrbtl.data.battles import Battles
from lrbtl.data.observations import Data
from lrbtl.errors import check_choice
from lrbtl.methods.base import Method
from lrbtl.methods.efficient import Efficient
from lrbtl.methods.hierarchical import Hierarchical
from lrbtl.methods.mle import Mle
from lrbtl.methods.naive import Naive
from lrbtl.methods.whitened import Whitened

METHODS: dict[str, Method] = {
    method.name: method for method in (Hierarchical(), Efficient(), Whitened(), Mle(), Naive())
}
DEFAULT_METHOD = "hierarchical"
LARGEST = 1 << 25  # contexts times squared models up to which its covariances fit into memory


def find_method(name: str | None, data: Data) -> Method:
    """Return the method of a name, by default the one for these data; raise where there is none.

    Observed entries have no hierarchical method, and very many contexts or models are too large for it: there the
    default is the efficient one.

    >>> import lrbtl
    >>> find_method(None, lrbtl.Battles.from_arrays(["x"], ["y"], [1])).name
    'hierarchical'
    """
    if name is None:
        fits = isinstance(data, Battles) and data.n_contexts * data.shape[0] ** 2 <= LARGEST
        name = DEFAULT_METHOD if fits else "efficient"
    check_choice(name, tuple(METHODS), "method")
    return METHODS[name]
