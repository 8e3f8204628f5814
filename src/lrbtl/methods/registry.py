"""The methods by name."""

from lrbtl.fitting.options import check_choice
from lrbtl.methods.base import Method
from lrbtl.methods.efficient import Efficient
from lrbtl.methods.hierarchical import Hierarchical
from lrbtl.methods.mle import Mle
from lrbtl.methods.naive import Naive
from lrbtl.methods.whitened import Whitened

METHODS: dict[str, Method] = {
    method.name: method for method in (Hierarchical(), Efficient(), Whitened(), Mle(), Naive())
}
DEFAULT_METHOD = "efficient"


def find_method(name: str) -> Method:
    """Return the method of a name; raise where there is none.

    Examples
    --------
    >>> find_method("mle").name
    'mle'
    """
    check_choice(name, tuple(METHODS), "method")
    return METHODS[name]
