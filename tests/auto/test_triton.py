"""The loops of Triton do what PyTorch does, on a GPU where there is one and in Triton's interpreter otherwise."""

import os
import subprocess
import sys

import pytest

INTERPRETED = """
import numpy as np
import torch

from bomkl.auto.gpu import kernels, pivots, products, recursion
from bomkl.auto.task import Task

torch.set_num_threads(1)
rng = torch.Generator().manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
ROWS = 64 if device == "cuda" else 7  # an interpreter takes its time
without = lambda x: False


if device == "cpu":  # the interpreter counts on arrays of one entry being numbers, which NumPy 2.4 does not take
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor, *scope):
        patch(tensor, *scope)
        tensor.__index__ = lambda self: int(self.handle.data.reshape(()))

    interpreter._patch_lang_tensor = patched


def both(work):
    by_triton = work()
    modules, runs = (kernels, pivots, products, recursion), kernels.runs_triton
    for module in modules:
        module.runs_triton = without
    by_pytorch = work()
    for module in modules:
        module.runs_triton = runs
    return by_triton, by_pytorch


x, z = torch.randn((70, 35), generator=rng).to(device), torch.randn((35, 90), generator=rng).to(device)
norms = (z * z).sum(dim=0)
assert kernels.runs_triton(x)
for name in ("gaussian", "polynomial", "laplacian"):
    seen, expected = both(lambda: kernels.kernel_values(name, x, z, norms, 0.03))
    np.testing.assert_allclose(seen.cpu(), expected.cpu(), rtol=2e-5)

values, whiten = torch.rand((160, 128), generator=rng), torch.randn((192, 128), generator=rng).tril()
whiten[130:] = 0
values, whiten = values.to(device), whiten.to(device)
seen, expected = both(lambda: products.whitened(values, whiten, 130))
np.testing.assert_allclose(seen.cpu(), expected.cpu(), atol=1e-4)
assert torch.equal(products.whitened(values[40:], whiten, 130), seen[:, 40:])

F, w = seen, torch.randn((192, 2), generator=rng, dtype=torch.float64).to(device)
seen, expected = both(lambda: products.scores_and_lengths(F, w))
np.testing.assert_allclose(seen[0].cpu(), expected[0].cpu(), rtol=1e-10)
np.testing.assert_allclose(seen[1].cpu(), expected[1].cpu(), rtol=1e-5)
assert torch.equal(products.scores_and_lengths(F[:, 16:].contiguous(), w)[0], seen[0][16:])

pulls, h = torch.randn((2, 160), generator=rng).to(device), torch.rand(160, generator=rng).to(device)
unit = torch.tensor([2.0**20], dtype=torch.float64, device=device)


def pulled():
    out = torch.zeros((5, 2 * 131 + 1), dtype=torch.float64, device=device)
    products.pull_sums(F, pulls, 131, 32, out[:, 1:])
    return out


def added(*parts):
    sums = torch.zeros((192, 192), dtype=torch.int64, device=device)
    for part in parts:
        products.add_information(F[:, part].contiguous(), h[part], unit, 32, sums)
    return sums.tril()


seen, expected = both(pulled)
np.testing.assert_allclose(seen.cpu(), expected.cpu(), rtol=1e-10, atol=1e-10)
seen, expected = both(lambda: added(slice(None)))
np.testing.assert_allclose(seen.cpu() / 2**20, expected.cpu() / 2**20, rtol=1e-5, atol=1e-3)
assert torch.equal(added(slice(96, None), slice(96)), seen)
points = torch.randn((50, 2), generator=rng, dtype=torch.float64).to(device)
seen, expected = both(lambda: pivots.pivoted_cholesky(torch.exp(-torch.cdist(points, points) ** 2), 1e-6))
assert 32 < len(seen[0]) < 50, len(seen[0])
assert torch.equal(seen[0], expected[0])
np.testing.assert_allclose(seen[1].cpu(), expected[1].cpu(), atol=1e-9)

F = torch.randn((2, 64, 8), generator=rng).to(device)
U = F * torch.rand(8, generator=rng).to(device)


def block(task, outputs):
    rng = torch.Generator().manual_seed(1)
    made = recursion.Block.zeros(2, outputs, device)
    made.G.copy_(U @ F.transpose(1, 2))
    made.lengths.copy_(U.double() @ U.double().transpose(1, 2))
    made.f.copy_(torch.randn((2, 64, outputs), generator=rng))
    y = 3 * torch.randn((64, outputs), generator=rng)
    if not task.is_regression:
        y = (y == y.amax(dim=1, keepdim=True)) if outputs > 1 else y > 0
    made.y.copy_(y)
    made.weight.copy_(torch.rand(64, generator=rng) + 0.5)
    made.loosen.fill_(0.02)
    made.trace[:, 1] = U[:, 0].sum()
    made.trace[:, 0] = made.trace[:, 1] * 1.01
    return made


def learned(task, outputs, forgets, spans):
    made = block(task, outputs)
    start = made.f.clone()
    for first, last in spans:
        made.f[:, first:] = start[:, first:]
        made.span.copy_(torch.tensor([first, last]))
        recursion.learn_block(made, task, forgets)
    return made


for task, outputs, forgets in (
    (Task.BINARY, 1, True), (Task.MULTICLASS, 3, False), (Task.SQUARED, 1, False), (Task.HUBER, 1, True)
):
    seen, expected = both(lambda: learned(task, outputs, forgets, [(0, ROWS)]))
    parts = learned(task, outputs, forgets, [(0, ROWS // 2), (ROWS // 2, ROWS)])
    for name in ("f", "M", "c", "a", "trace", "E", "D"):
        mine, other, again = (getattr(each, name).cpu() for each in (seen, expected, parts))
        np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-5, err_msg=f"{task} {name}")
        assert torch.equal(mine, again), (task, name)
print("the same")
"""


def test_the_loops_of_triton_do_what_pytorch_does():
    """In a process of its own: without a GPU, Triton has to know from the start that it interprets."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton", reason="Triton is not installed")
    environment = os.environ | ({} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"})
    done = subprocess.run([sys.executable, "-c", INTERPRETED], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "the same", done.stderr
