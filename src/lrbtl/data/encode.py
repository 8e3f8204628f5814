"""Columns of any kind to integer codes and labels, without a detour through strings."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrbtl._kernels.coding import code_characters, code_halves, code_objects, code_texts, mark_codes
from lrbtl.data.labels import is_missing, suggest_labels
from lrbtl.errors import (
    FileReadError,
    InputTypeError,
    LengthMismatchError,
    MissingColumnError,
    MissingValueError,
    spelled,
)
from lrbtl.typing import AnyInts, Bools, Floats, Ints, Longs

_CHUNK = 1 << 18
STREAMED_ROWS = 10_000  # of a data set at a time
_DENSE = 1 << 16  # integer ranges up to this size are used as codes directly
_OFFSETS = {"string": np.int32, "large_string": np.int64}  # of Arrow's texts


@dataclass(frozen=True, slots=True)
class Coded:
    """A column as codes: row i holds ``labels[codes[i]]``.

    Unless `all_used`, labels may contain values that no row holds (categories, gaps in a range of integers).
    """

    codes: AnyInts
    labels: Sequence[Any] | Floats
    is_integer: bool = False
    all_used: bool = False

    def __len__(self) -> int:
        return len(self.codes)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        """Values of all rows, for columns of numbers; numbers may be written as text."""
        return np.asarray(self.labels, dtype=dtype)[self.codes]

    def values(self, codes: Longs) -> list[Any]:
        """Labels of some codes."""
        if isinstance(self.labels, np.ndarray):
            return list(self.labels[codes].tolist())
        return [self.labels[code] for code in codes.tolist()]


class Log(ABC):
    """A log that is read in batches, such as a file or a stream; frames are read at once.

    Attributes
    ----------
    head : mapping of names to Coded
        Rows of the last reading in their order, as many as came first.
    """

    head: Mapping[str, Coded] = MappingProxyType({})

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Names of the columns."""

    @abstractmethod
    def read(self, names: Sequence[str], sets: Sequence[str] = ()) -> tuple[dict[str, Any], Longs]:
        """Return distinct rows of some columns, as something that `encode` takes, and how often each happened.

        Columns among `sets` may hold lists, and nothing.
        """


def encode(column: object, name: str) -> Coded:
    """Codes and labels of a column: a list, a NumPy array, or a series of any data frame library.

    >>> coded = encode(["x", "y", "x"], "model_a")
    >>> coded.codes.tolist(), list(coded.labels)
    ([0, 1, 0], ['x', 'y'])
    """
    if isinstance(column, Coded):
        return column
    if isinstance(column, np.ndarray):
        return _encode_array(column, name)
    if isinstance(column, list | tuple):
        return _encode_list(column, name)
    series = as_series(column)
    if series is not None:
        return _encode_series(series, name)
    if isinstance(column, str | bytes | Mapping) or not hasattr(column, "__len__"):
        raise InputTypeError(f"{name} is a {type(column).__name__}; give a list, an array or a series.")
    return _encode_array(np.asarray(column), name)


def encode_sets(values: Sequence[Any], name: str) -> Coded:
    """Codes and labels of a column of texts or lists, which may be missing: labels are None, texts and tuples.

    >>> encode_sets(["a", None, ["a", "b"]], "tags").labels
    ['a', None, ('a', 'b')]
    """
    keys = [
        tuple(value) if isinstance(value, list | np.ndarray) else None if value == "" else value for value in values
    ]
    codes = np.empty(len(keys), dtype=np.int32)
    try:
        return Coded(codes, code_objects(keys, codes), all_used=True)
    except TypeError as error:
        raise InputTypeError(f"{name} holds lists of values that cannot be labels: {error}.") from error


def as_columns(columns: Any) -> list[Any]:
    """Return a list of columns; one column given bare becomes a list of one."""
    if isinstance(columns, np.ndarray):
        return list(columns) if columns.ndim == 2 else [columns]
    if isinstance(columns, list | tuple):
        nested = all(hasattr(column, "__len__") and not isinstance(column, str | bytes) for column in columns)
        return list(columns) if nested else [columns]
    return [columns]


def as_names(names: Any, what: str) -> tuple[str, ...]:
    """Return names of columns given as one text, a list, or None for none.

    >>> as_names("category", "contexts"), as_names(None, "contexts")
    (('category',), ())
    """
    try:
        listed = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Iterable) else names
    except TypeError:  # an array without dimensions
        listed = (names,)
    if not (listed is None or (isinstance(listed, tuple) and all(isinstance(name, str) for name in listed))):
        raise InputTypeError(f"{what}={names!r}: give the name of a column, or a list of names.")
    return listed or ()


def as_series(column: object) -> Any:
    """Return the column as a narwhals series, or None when it is not a series."""
    import narwhals as nw

    return nw.from_native(column, series_only=True, pass_through=True) if _is_series(column, nw) else None


def _is_series(column: object, nw: Any) -> bool:
    return isinstance(nw.from_native(column, allow_series=True, pass_through=True), nw.Series)


def _encode_list(column: Sequence[Any], name: str) -> Coded:
    if column and isinstance(column[0], int | float | np.number | np.bool_):
        try:
            array = np.asarray(column)
        except ValueError:
            array = np.empty(0, dtype=object)
        if array.ndim == 1 and array.dtype.kind in "iufb":
            return _encode_array(array, name)
    return _encode_objects(list(column), name)


def _encode_objects(values: list[Any] | NDArray[np.object_], name: str) -> Coded:
    codes = np.empty(len(values), dtype=np.int32)
    try:
        labels = code_objects(values, codes)
    except Exception as error:  # a list has no hash, and a class of the caller's may raise anything
        raise InputTypeError(f"{name} holds values that cannot be labels: {error}.") from error
    for code, label in enumerate(labels):
        if is_missing(label):
            raise_missing(name, codes == code)
    labels = [label.item() if isinstance(label, np.generic) else label for label in labels]
    is_integer = bool(labels) and all(isinstance(label, int) and not isinstance(label, bool) for label in labels)
    return Coded(codes, labels, is_integer, all_used=True)


def raise_missing(name: str, missing: Bools) -> None:
    """Raise the error for missing values of a column, with their number and the first row."""
    total = int(missing.sum())
    row = int(np.argmax(missing))
    raise MissingValueError(
        f"{name} has {total} missing value{'s' * (total > 1)}, the first in row {row}; drop or fill these rows first."
    )


def _encode_array(values: NDArray[Any], name: str) -> Coded:
    if values.ndim != 1:
        raise InputTypeError(f"{name} has {values.ndim} dimensions; a column has one.")
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.is_masked(values):
            raise_missing(name, np.ma.getmaskarray(values))
        values = np.asarray(values)
    kind = values.dtype.kind
    if kind in "iu":
        return _encode_integers(values)
    if kind == "b":
        return Coded(values.view(np.int8), [False, True])
    if kind == "f":
        return _encode_floats(values, name)
    if kind == "U" and values.dtype.itemsize:
        return _encode_unicode(values)
    if kind in "mM":
        if np.isnat(values).any():
            raise_missing(name, np.isnat(values))
        labels, codes = np.unique(values, return_inverse=True)
        return Coded(codes, list(labels), all_used=True)
    if kind == "O":
        return _encode_objects(np.ascontiguousarray(values), name)
    if kind in "STU":
        return _encode_objects(values.tolist(), name)
    raise InputTypeError(f"{name} has dtype {values.dtype}; labels, codes or numbers are needed.")


def _encode_integers(values: NDArray[Any]) -> Coded:
    if not len(values):
        return Coded(values.astype(np.int32), range(0), is_integer=True)
    low, high = int(values.min()), int(values.max())
    if low >= 0 and high < max(_DENSE, len(values)):
        return Coded(values, range(high + 1), is_integer=True)
    if high - low < max(_DENSE, len(values)):
        wide = values.astype(np.uint64 if low >= 0 else np.int64)  # uint64 holds numbers that int64 does not
        return Coded((wide - wide.dtype.type(low)).astype(np.int64), range(low, high + 1), is_integer=True)
    labels, codes = np.unique(values, return_inverse=True)
    return Coded(codes, labels.tolist(), is_integer=True, all_used=True)


def _encode_floats(values: NDArray[Any], name: str) -> Coded:
    codes = np.empty(len(values), dtype=np.int8)
    if code_halves(np.ascontiguousarray(values, dtype=np.float64), codes):
        return Coded(codes, [0.0, 0.5, 1.0])
    if np.isnan(values).any():
        raise_missing(name, np.isnan(values))
    labels, inverse = np.unique(values, return_inverse=True)
    return Coded(inverse, labels, all_used=True)


def _encode_unicode(values: NDArray[np.str_]) -> Coded:
    values = np.ascontiguousarray(values)
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    codes = np.empty(len(values), dtype=np.int32)
    first = code_characters(values.view(np.uint32).reshape(len(values), -1), codes)
    return Coded(codes, values[first].tolist(), all_used=True)


def used_codes(coded: Coded) -> Longs:
    """Codes that occur in a column, in increasing order."""
    if coded.all_used:
        return np.arange(len(coded.labels))
    present = np.zeros(len(coded.labels), dtype=np.uint8)
    for lo in range(0, len(coded), _CHUNK):
        mark_codes(np.ascontiguousarray(coded.codes[lo : lo + _CHUNK], dtype=np.int32), present)
    return np.flatnonzero(present)


def _encode_series(series: Any, name: str) -> Coded:
    import narwhals as nw

    native, implementation = series.to_native(), series.implementation
    if implementation.is_pandas() and isinstance(native.dtype, np.dtype):
        return _encode_array(native.to_numpy(), name)
    if is_wide(series):
        return _encode_objects(series.to_list(), name)
    if series.dtype.is_numeric() or series.dtype == nw.Boolean:
        if series.null_count():
            raise_missing(name, series.is_null().to_numpy().astype(bool))
        return _encode_array(np.asarray(series.to_numpy()), name)
    if implementation.is_polars():
        return _encode_polars(series, name)
    if implementation.is_pandas() and hasattr(native, "cat"):
        return _encode_categories(native, name)
    if implementation.is_pandas() and not _is_arrow_backed(native.dtype):
        return _encode_objects(native.tolist(), name)
    return encode_arrow(native if implementation.is_pyarrow() else series.to_arrow(), name)


def is_wide(series: Any) -> bool:
    """Whether numbers are wider than what NumPy holds."""
    import narwhals as nw

    return series.dtype in (nw.Int128, nw.UInt128, nw.Decimal)


def _is_arrow_backed(dtype: Any) -> bool:
    return hasattr(dtype, "pyarrow_dtype") or getattr(dtype, "storage", "") == "pyarrow"


def _encode_categories(native: Any, name: str) -> Coded:
    codes, labels = native.cat.codes.to_numpy(), native.cat.categories
    if len(codes) and codes.min() < 0:
        raise_missing(name, codes < 0)
    return Coded(codes, labels.tolist(), is_integer=labels.dtype.kind in "iu")


def _encode_polars(series: Any, name: str) -> Coded:
    import narwhals as nw

    if series.null_count():
        raise_missing(name, series.is_null().to_numpy())
    native = series.to_native()
    if series.dtype == nw.String and find_spec("pyarrow"):
        return encode_arrow(series.to_arrow(), name)
    if series.dtype == nw.String:
        native = native.cast(series.implementation.to_native_namespace().Categorical)
    elif series.dtype not in (nw.Categorical, nw.Enum):
        return _encode_objects(_python_values(native.to_list, name), name)
    codes = native.to_physical().to_numpy()
    # Codes are shared with other columns of the process: look at one row of each code that occurs here.
    row_of_code = np.full(int(codes.max(initial=0)) + 1, -1, dtype=np.int64)
    for lo in range(0, len(codes), _CHUNK):
        part = codes[lo : lo + _CHUNK]
        row_of_code[part] = np.arange(lo, lo + len(part))
    used = np.flatnonzero(row_of_code >= 0)
    labels_by_code: list[Any] = [None] * len(row_of_code)
    for code, label in zip(used.tolist(), native.gather(row_of_code[used]).to_list(), strict=True):
        labels_by_code[code] = label
    return Coded(codes, labels_by_code)


def _python_values(make: Callable[[], list[Any]], name: str) -> list[Any]:
    """Return the values of a column as Python objects; raise where Python has none for them, such as far dates."""
    try:
        return make()
    except BaseException as error:
        if isinstance(error, OverflowError | ValueError) or type(error).__name__ == "PanicException":  # of polars
            raise InputTypeError(f"{name} holds values that Python cannot: {error}. Write them as texts.") from error
        raise


def encode_arrow(column: Any, name: str) -> Coded:
    """Codes and labels of an Arrow array of anything but numbers."""
    if column.null_count:
        raise_missing(name, np.asarray(column.is_null()).astype(bool))
    is_plain = not hasattr(column.type, "index_type")
    if is_plain:
        if coded := text_codes(column):
            return Coded(coded[0], _python_values(lambda: [text.decode() for text in coded[1]], name), all_used=True)
        try:
            column = column.dictionary_encode()
        except NotImplementedError:  # lists and the like
            return _encode_objects(_python_values(column.to_pylist, name), name)
    chunks = column.unify_dictionaries().chunks if hasattr(column, "chunks") else [column]
    if not chunks:
        return Coded(np.empty(0, dtype=np.int32), [])
    parts = [check_codes(arrow_codes(chunk), len(chunk.dictionary)) for chunk in chunks]
    codes = parts[0] if len(parts) == 1 else np.concatenate(parts)
    labels = _python_values(chunks[0].dictionary.to_pylist, name)
    if None in labels:
        missing = np.isin(codes, [code for code, label in enumerate(labels) if label is None])
        if missing.any():
            raise_missing(name, missing)
    is_integer = bool(labels) and all(isinstance(label, int) and not isinstance(label, bool) for label in labels)
    return Coded(codes, labels, is_integer, all_used=is_plain)


def text_codes(column: Any) -> tuple[Ints, list[bytes]] | None:
    """Return codes and distinct texts of an Arrow column without nulls; None where Arrow should do it.

    Arrow takes any type and any number of distinct texts. Where they are few, this takes less than half of its time.
    """
    dtype = _OFFSETS.get(str(column.type))
    if dtype is None:
        return None
    parts = []
    for chunk in column.chunks if hasattr(column, "chunks") else [column]:
        if len(chunk):
            _, offsets, data = chunk.buffers()
            texts = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, dtype=np.uint8)
            parts.append((texts, np.frombuffer(offsets, dtype)[chunk.offset : chunk.offset + len(chunk) + 1]))
    codes = np.empty(len(column), dtype=np.int32)
    found = code_texts(parts, codes)
    return None if found is None else (codes, found)


def arrow_codes(array: Any) -> AnyInts:
    """Codes of an Arrow array with a dictionary, as they are: those of damaged files may be outside of it."""
    indices = array.indices
    codes: AnyInts = indices.to_numpy(zero_copy_only=not indices.null_count)  # if False, also others are copied
    return codes


def check_codes(codes: AnyInts, n_labels: int) -> AnyInts:
    """Return codes of a column; raise where they are outside of its labels, as in damaged files."""
    if len(codes) and codes.view(f"u{codes.itemsize}").max() >= n_labels:  # negative ones are huge
        raise_outside()
    return codes


def raise_outside() -> None:
    """Raise the error for codes without a label."""
    raise FileReadError("codes of a column are outside of its dictionary; the data is damaged, write it again.")


def read_frame(
    frame: Any, names: Sequence[str], sets: Sequence[str] = (), *, grouped: bool = True
) -> tuple[dict[str, Any], Longs | None]:
    """Return the named columns of a frame, as something that `encode` takes, and how often each row happened.

    Rows of a log are counted as they are read, those of a lazy frame where they are: distinct rows come back, in any
    order, with their numbers; all rows unless `grouped`, as where hardly two of them are equal. Rows of other frames,
    and of a dict of columns, come as they are, without numbers. Columns among `sets` may hold lists, and nothing.
    """
    _check_names(names, column_names(frame))
    if isinstance(frame, Mapping):
        return {name: frame[name] for name in names}, None
    if isinstance(frame, Log):
        return frame.read(list(dict.fromkeys(names)), sets)
    import narwhals as nw

    table: Any = nw.from_native(frame)
    times = None
    if isinstance(table, nw.LazyFrame):
        table, times = _collect_rows(table, list(dict.fromkeys(names)), sets, grouped)
    return {name: table.get_column(name) for name in names}, times


def as_table(source: Any) -> Any:
    """Return rows, data sets and Arrow data as something with columns; anything else as it is.

    >>> as_table([{"model": "x", "won": 1}, {"model": "y"}])
    {'model': ['x', 'y'], 'won': [1, None]}
    """
    if isinstance(source, list | tuple) and source and all(isinstance(row, Mapping) for row in source):
        names = list(dict.fromkeys(name for row in source for name in row))
        return {name: [row.get(name) for row in source] for name in names}
    kind = type(source)  # whose attributes are declared: some frames have one for every name
    if hasattr(kind, "with_format") and hasattr(kind, "column_names"):  # of Hugging Face
        return _data_set(source)
    batches = source if isinstance(source, list | tuple) else [source]
    if batches and all(hasattr(type(part), "__arrow_c_array__") and hasattr(part, "schema") for part in batches):
        return import_module("pyarrow").Table.from_batches(batches)
    if hasattr(kind, "__arrow_c_stream__") and not hasattr(kind, "read_next_batch"):
        import narwhals as nw

        try:
            nw.from_native(source)
        except TypeError:  # no frame that narwhals knows
            return import_module("pyarrow").table(source)
        except nw.exceptions.DuplicateError:  # which `column_names` says
            return source
    return source


def _data_set(source: Any) -> Any:
    """Return a data set of Hugging Face as Arrow data; raise where it is a dict of several."""
    if isinstance(source, Mapping):
        if len(source) != 1:
            raise InputTypeError(
                f"these are {len(source)} data sets, {', '.join(map(spelled, source))}: give one of them, such as "
                "data['train']."
            )
        return _data_set(next(iter(source.values())))
    arrow = source.with_format("arrow")
    if hasattr(type(source), "__len__"):
        return arrow[:]
    return import_module("pyarrow").concat_tables(arrow.iter(batch_size=STREAMED_ROWS))  # which is streamed


def column_names(frame: Any) -> list[str]:
    """Return the names of the columns of a frame or of a dict of columns.

    >>> column_names({"model_a": ["x"], "model_b": ["y"]})
    ['model_a', 'model_b']
    """
    if isinstance(frame, Mapping):
        return list(frame)
    if isinstance(frame, Log):
        return frame.names
    import narwhals as nw

    try:
        return list(nw.from_native(frame).collect_schema().names())
    except TypeError as error:
        raise InputTypeError(
            f"cannot read battles from a {type(frame).__name__}; give a data frame or a dict of columns."
        ) from error
    except nw.exceptions.DuplicateError as error:
        names = [str(name) for name in frame.columns]
        repeated = next((name for name in names if names.count(name) > 1), "")
        raise MissingColumnError(
            f"column {repeated!r} occurs more than once; rename one of them.", argument="column", value=repeated
        ) from error


_TIMES = "lrbtl times"  # no column of a log is called so


def _collect_rows(table: Any, names: list[str], sets: Sequence[str], grouped: bool) -> tuple[Any, Longs]:
    """Distinct rows of a lazy frame, or all of them, and their numbers; missing values are an error."""
    import narwhals as nw

    chosen = table.select(*names)
    for name, kind in chosen.collect_schema().items():
        if kind == nw.Object:
            raise InputTypeError(f"{name} holds Python objects, which a lazy frame cannot count; make it text first.")
    counted = (
        chosen.group_by(*names).agg(nw.len().alias(_TIMES)) if grouped else chosen.with_columns(nw.lit(1).alias(_TIMES))
    )
    rows = counted.collect()
    times = np.asarray(rows.get_column(_TIMES).to_numpy()).astype(np.int64)
    for name in names:
        if name in sets:
            continue
        column = rows.get_column(name)
        missing = column.is_null()
        if column.dtype.is_float():
            missing = missing | column.is_nan()
        if total := int(times[np.asarray(missing.fill_null(True).to_numpy(), dtype=bool)].sum()):
            raise MissingValueError(
                f"{name} has {total} missing value{'s' * (total > 1)}; drop or fill such rows first."
            )
    return rows, times


def _check_names(names: Sequence[str], known: list[str]) -> None:
    for name in names:
        if isinstance(name, np.ndarray):
            raise InputTypeError(f"{spelled(name)} is not the name of a column.", argument="column", value=name)
        if name not in known:
            raise MissingColumnError(
                f"the frame has no column {name!r}; {suggest_labels(name, known)}", argument="column", value=name
            )


def check_lengths(columns: Mapping[str, Any]) -> int:
    """Return the common length of some columns, by name."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {n}" for name, n in lengths.items())
        raise LengthMismatchError(f"columns have different lengths ({shown}); every battle needs a value in each.")
    return next(iter(lengths.values()))
