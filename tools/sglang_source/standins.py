"""What stands in for tensors, torch and settings: shapes and small lists of integers, no bytes."""

import functools
import importlib
from math import prod

from checkout import Unknown


class Settings:
    """Fields that are given; any other is Unknown, so a decision on it says which one is missing."""

    def __init__(self, _name, **fields):
        object.__setattr__(self, "_name", _name)
        self.__dict__.update(fields)

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Unknown(f"{self._name}.{name}")


class Shape:
    """A tensor without bytes."""

    __slots__ = ("shape", "dtype", "device")

    def __init__(self, shape, dtype=None):
        self.shape, self.dtype, self.device = shape, dtype, "cuda"

    def new_zeros(self, *shape, **_):
        return Shape(_as_shape(shape), self.dtype)

    new_empty = new_zeros

    def new_full(self, shape, value=None, **_):
        return Shape(tuple(shape), self.dtype)

    def to(self, dtype=None, **_):
        return Shape(self.shape, dtype or self.dtype)

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def numel(self):
        return prod(self.shape)

    def contiguous(self):
        return self

    def view(self, *shape):
        extents = self.shape
        if len(shape) == 2 and shape[0] == -1 and shape[1] == extents[-1]:  # what dispatch() asks most
            return Shape((extents[0] * extents[1] if len(extents) == 3 else extents[0], shape[1]), self.dtype)
        shape = _as_shape(shape)
        count = self.numel()
        if -1 in shape:
            known = -prod(shape)
            shape = tuple(count // known if extent == -1 and known else max(extent, 0) for extent in shape)
        if prod(shape) != count:
            raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {count}")
        return Shape(shape, self.dtype)

    reshape = view

    def __getitem__(self, key):
        first = key[0] if isinstance(key, tuple) else key
        if isinstance(first, slice):
            rows = len(range(*first.indices(self.shape[0])))
            return Shape((rows, *self.shape[1:]), self.dtype)
        return Shape(self.shape[1:], self.dtype)


def _as_shape(shape):
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else tuple(shape)


class Ints:
    """A small tensor of integers, with its values: what the scheduler gathers."""

    device, dtype = "cpu", None

    def __init__(self, values, shape=None, store=None, places=None):
        self.store = list(values) if store is None else store
        self.places = list(range(len(self.store))) if places is None else places
        self.shape = tuple(shape) if shape is not None else (len(self.places),)

    def _values(self):
        return [self.store[place] for place in self.places]

    def _of(self, places, shape):
        return Ints(None, shape, self.store, places)

    def flatten(self):
        return self._of(self.places, (len(self.places),))

    def view(self, *shape):
        shape = list(_as_shape(shape))
        if -1 in shape:
            rest = 1
            for extent in shape:
                rest *= extent if extent != -1 else 1
            shape[shape.index(-1)] = len(self.places) // rest
        return self._of(self.places, shape)

    def cpu(self):
        return self

    cuda = contiguous = detach = cpu

    def numel(self):
        return len(self.places)

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def __len__(self):
        return self.shape[0]

    def tolist(self):
        return _nested(self._values(), self.shape)

    def item(self):
        (value,) = self._values()
        return value

    def min(self):
        return Ints([min(self._values())], ())

    def max(self):
        return Ints([max(self._values())], ())

    def sum(self, **_):
        return Ints([sum(self._values())], ())

    def repeat(self, *times):
        count = 1
        for extent in times:
            count *= extent
        return Ints(self._values() * count, (*times[:-1], times[-1] * self.shape[-1]))

    def expand(self, *shape):
        """A copy: what is expanded is read, or made contiguous before it is written."""
        shape = _as_shape(shape)
        if shape[len(shape) - len(self.shape) :] != self.shape:
            raise NotImplementedError(f"expand of {self.shape} to {shape}")
        return Ints(self._values() * (prod(shape) // max(self.numel(), 1)), shape)

    def zero_(self):
        return self.fill_(0)

    def fill_(self, value):
        for place in self.places:
            self.store[place] = value
        return self

    def copy_(self, other, **_):
        for place, value in zip(self.places, other._values()):
            self.store[place] = value
        return self

    def __bool__(self):
        return bool(self.item())

    def __int__(self):
        return int(self.item())

    __index__ = __int__

    def __sub__(self, other):
        return Ints([value - other for value in self._values()], self.shape)

    def __eq__(self, other):
        return Ints([int(value == other) for value in self._values()], self.shape)

    __hash__ = None

    def _select(self, key):
        keys = list(key) if isinstance(key, tuple) else [key]
        places, shape = self.places, list(self.shape)
        kept = []
        for index in keys:  # rows of `places`, one dimension after the other
            extent = shape.pop(0)
            outer = 1
            for size in kept:
                outer *= size
            inner = len(places) // (outer * extent) if outer * extent else 0
            if isinstance(index, Ints):
                chosen = [i for i, hit in enumerate(index._values()) if hit]
            elif isinstance(index, slice):
                chosen = list(range(*index.indices(extent)))
            else:
                chosen = [index.__index__() % extent if extent else index]
            places = [
                places[(o * extent + i) * inner + n] for o in range(outer) for i in chosen for n in range(inner)
            ]
            if not isinstance(index, int):
                kept.append(len(chosen))
        return self._of(places, (*kept, *shape))

    def __getitem__(self, key):
        return self._select(key)

    def __setitem__(self, key, value):
        chosen = self._select(key)
        values = value._values() if isinstance(value, Ints) else [value]
        for number, place in enumerate(chosen.places):
            self.store[place] = values[number % len(values)]


def _nested(values, shape):
    if len(shape) == 0:
        return values[0]
    if len(shape) == 1:
        return values
    step = len(values) // shape[0] if shape[0] else 0
    return [_nested(values[row * step : (row + 1) * step], shape[1:]) for row in range(shape[0])]


class DataType:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"torch.{self.name}"


@functools.lru_cache(maxsize=None)
def _real_torch():
    try:
        return importlib.import_module("torch")
    except Exception:  # missing, or not usable on this machine
        return None


class Torch:
    """The few names of torch that the functions under test use; any other is torch's own where it can be imported, else Unknown."""

    int32, int64, uint8, bfloat16 = DataType("int32"), DataType("int64"), DataType("uint8"), DataType("bfloat16")
    float16, float32, bool = DataType("float16"), DataType("float32"), DataType("bool")

    def __init__(self, shapes):
        """shapes: tensors without values; else tensors of integers with their values."""
        self._shapes = shapes
        self.cuda = Settings(
            "torch.cuda", device_count=lambda: 8, is_available=lambda: False, current_device=lambda: 0
        )
        self.version = Settings("torch.version", cuda=None, hip=None, xpu=None, musa=None)
        self.distributed = Settings("torch.distributed", ProcessGroup=object)
        self.__version__ = "2.9.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_real_torch(), name, Unknown(f"torch.{name}"))

    def _filled(self, shape, value, dtype):
        if self._shapes:
            return Shape(shape, dtype)
        count = 1
        for extent in shape:
            count *= extent
        return Ints([value] * count, shape)

    def full(self, shape, value, dtype=None, **_):
        return self._filled(tuple(shape), value, dtype)

    def zeros(self, *shape, dtype=None, **_):
        return self._filled(_as_shape(shape), 0, dtype)

    empty = zeros

    def ones(self, *shape, dtype=None, **_):
        return self._filled(_as_shape(shape), 1, dtype)

    def full_like(self, like, value, **_):
        return self._filled(tuple(like.shape), value, None)

    def zeros_like(self, like, **_):
        return self.full_like(like, 0)

    def arange(self, count, **_):
        return Ints(range(count))

    def tensor(self, values, **_):
        return Ints(list(values)) if isinstance(values, (list, tuple)) else Ints([values], ())

    def all(self, values):
        return all(values._values())
