"""Writes pickles of the structure of NVIDIA's, without torch."""

import io
import pickle
import struct
import sys
import types
from collections import OrderedDict

import numpy as np
import pytest

NAMES = {
    "torch_utils.persistence": ["_reconstruct_persistent_obj"],
    "torch._utils": ["_rebuild_parameter", "_rebuild_tensor_v2"],
    "torch.storage": ["_load_from_bytes"],
    "torch": ["FloatStorage", "HalfStorage"],
}
SOURCE = "raise SystemExit('the source was executed')"


def _module_of_stands(name, functions):
    module = types.ModuleType(name)
    for function in functions:
        stand = type(function, (), {"__module__": name})
        setattr(module, function, stand)
    return module


MODULES = {name: _module_of_stands(name, NAMES[name]) for name in NAMES}


class Call:
    """Pickles as a call of a function, which is not called here."""

    def __init__(self, function, *arguments):
        self.reduced = (function, arguments)

    def __reduce__(self):
        return self.reduced


def dumps(content):
    """Pickle a structure while the modules it names exist."""
    with pytest.MonkeyPatch.context() as patch:
        for name, module in MODULES.items():
            patch.setitem(sys.modules, name, module)
            patch.setitem(sys.modules, name.split(".")[0], MODULES["torch"])
        patch.setitem(sys.modules, "torch", MODULES["torch"])
        return pickle.dumps(content, 4)


def stand(module, name):
    return getattr(MODULES[module], name)


class _StoragePickler(pickle.Pickler):
    """Torch keeps a storage outside its pickle, by a reference of this form."""

    def persistent_id(self, obj):
        return obj if isinstance(obj, tuple) and obj[0] == "storage" else None


def storage_bytes(x, kind="FloatStorage", size=None):
    """A storage as `torch.save` writes it in its older format."""
    reference = ("storage", stand("torch", kind), "7", "cpu", size or x.size, None)
    file = io.BytesIO()
    for header in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
        pickle.dump(header, file, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "torch", MODULES["torch"])
        _StoragePickler(file, 2).dump(reference)
    pickle.dump(["7"], file, 2)
    return file.getvalue() + struct.pack("<q", size or x.size) + x.tobytes()


def tensor(x, kind="FloatStorage", *, data=None, offset=0, size=None, stride=None):
    x = np.ascontiguousarray(x).reshape(np.shape(x))
    strides = tuple(s // x.itemsize for s in x.strides)
    load = stand("torch.storage", "_load_from_bytes")
    return Call(
        stand("torch._utils", "_rebuild_tensor_v2"),
        Call(load, storage_bytes(x.ravel(), kind) if data is None else data),
        offset,
        x.shape if size is None else size,
        strides if stride is None else stride,
        False,
        OrderedDict(),
    )


def parameter(x):
    rebuild = stand("torch._utils", "_rebuild_parameter")
    return Call(rebuild, tensor(x), True, OrderedDict())


def module(parameters=(), buffers=(), modules=(), **attributes):
    state = {
        "training": False,
        "_parameters": OrderedDict(parameters),
        "_buffers": OrderedDict(buffers),
        "_non_persistent_buffers_set": set(),
        "_modules": OrderedDict(modules),
        "act_gain": np.sqrt(2),  # a scalar of NumPy
        **attributes,
    }
    meta = {"type": "class", "version": 6, "module_src": SOURCE, "state": state}
    rebuild = stand("torch_utils.persistence", "_reconstruct_persistent_obj")
    return Call(rebuild, {**meta, "class_name": "Generator"})


def network(arrays, conv_clamp=None):
    """Nested modules with the state dict given."""
    own, children = [], {}
    for name, x in arrays.items():
        head, _, rest = name.partition(".")
        if rest:
            children.setdefault(head, {})[rest] = x
        else:
            own.append((name, x))
    is_buffer = ("resample_filter", "noise_const", "w_avg")
    return module(
        [(n, parameter(x)) for n, x in own if n not in is_buffer],
        [(n, tensor(x)) for n, x in own if n in is_buffer],
        [(n, network(c, conv_clamp)) for n, c in children.items()],
        conv_clamp=conv_clamp,
    )


def official_pickle(arrays, conv_clamp=None):
    other = module([("weight", parameter(np.zeros(3, np.float32)))])
    content = {"G": other, "D": other, "G_ema": network(arrays, conv_clamp)}
    return dumps({**content, "training_set_kwargs": {}, "augment_pipe": None})
