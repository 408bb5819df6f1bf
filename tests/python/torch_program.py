"""What a training program does with checkpoints, run by Debian's Python, whose torch it is.

    torch_program.py save ARCHIVE LEGACY             a state and its optimizer's, by torch alone, as a
                                                     zip archive and in the format from before those
    torch_program.py load ADDRESS (OBJECT FILE)…     each object loads as its file does
    torch_program.py one ADDRESS OBJECT FILE         one tensor out of an archive
"""

import json
import sys
import zipfile

import torch

import lake


def make():
    model = torch.nn.Sequential(torch.nn.Linear(1024, 2048), torch.nn.BatchNorm1d(2048),
                                torch.nn.Linear(2048, 1024), torch.nn.Linear(1024, 1024))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(4, 1024)).sum().backward()
    optimizer.step()
    views = torch.arange(1000, dtype=torch.int16)
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 11,
            "views": [views[::7], views.reshape(10, 100).t()], "half": torch.randn(33).half(),
            "flags": torch.tensor([True, False]), "none": torch.empty(0, 3)}


def assert_equal(one, other):
    """Types, shapes, strides and values; returns how many tensors there are."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        return sum(assert_equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        return sum(map(assert_equal, one, other))
    if isinstance(one, torch.Tensor):
        assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
        assert torch.equal(one, other)
        return 1
    assert one == other
    return 0


def open_object(client, text):
    return client.open(lake.File(*json.loads(text)))


def save(archive, legacy):
    state = make()
    torch.save(state, archive)
    torch.save(state, legacy, _use_new_zipfile_serialization=False)
    assert zipfile.is_zipfile(archive) and not zipfile.is_zipfile(legacy)


def load(address, *pairs):
    with lake.connect(address) as client:
        for text, path in zip(pairs[::2], pairs[1::2], strict=True):
            with open_object(client, text) as opened:
                assert assert_equal(torch.load(opened), torch.load(path)) > 30
                assert opened.raw.verified


def one(address, text, path):
    weight = torch.load(path)["model"]["2.weight"]
    with zipfile.ZipFile(path) as local:
        [name] = [name for name in local.namelist() if local.read(name) == weight.numpy().tobytes()]
    with lake.connect(address) as client, open_object(client, text) as opened, \
            zipfile.ZipFile(opened) as remote:
        data = torch.frombuffer(bytearray(remote.read(name)), dtype=torch.float32)
        assert torch.equal(data.reshape(weight.shape), weight)


if __name__ == "__main__":
    {"save": save, "load": load, "one": one}[sys.argv[1]](*sys.argv[2:])
