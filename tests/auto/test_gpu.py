"""Learning by PyTorch, on a GPU where there is one and on the processor otherwise: close to the core."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification

from bomkl import AutoMKLClassifier, AutoMKLRegressor, modelfile
from bomkl.auto import device as devices
from bomkl.auto import rounds, sum_engine

X, Y = make_classification(700, 6, n_informative=5, n_redundant=0, n_classes=4, random_state=0)
WEIGHT = np.random.default_rng(0).choice([0.3, 1.0, 2.0], len(Y))
CASES = {
    "two classes": (AutoMKLClassifier, {}, Y % 2),
    "several classes": (AutoMKLClassifier, {}, Y),
    "numbers": (AutoMKLRegressor, {}, X[:, 0] * X[:, 1] + Y),
    "numbers with outliers": (AutoMKLRegressor, {"loss": "huber"}, np.where(Y == 3, 50.0, X[:, 0] * X[:, 1])),
}


@pytest.fixture(autouse=True, scope="module")
def _small_blocks():
    """Blocks of 32 rows: a stream of 700 then has many of them."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from bomkl.auto.gpu import engine, errors, newton
    from bomkl.auto.gpu import rows as device_rows

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        for module in (rounds, sum_engine, engine):
            patch.setattr(module, "ROUND_BLOCK", 32)
        patch.setattr(errors, "CHUNK_BLOCKS", 4)
        for module in (newton, device_rows):
            patch.setattr(module, "ROWS", 128)
        patch.setattr(device_rows.TorchRows, "rows_at_once", 256)
        on_this_machine = engine.TorchEngine("cuda" if torch.cuda.is_available() else "cpu")
        patch.setattr(devices, "_has_gpu", lambda: True)
        patch.setattr(devices, "_gpu_engine", lambda: on_this_machine)
        yield
    torch.set_num_threads(threads)


def model(case, update="rounds", **settings):
    estimator, fixed, y = CASES[case]
    return estimator(60, update=update, random_state=0, **fixed, **settings), y


def scores(case, cuts=(), saved=None, **settings):
    learner, y = model(case, **settings)
    parts = []
    for begin, end in zip([0, *cuts], [*cuts, len(y)], strict=True):
        parts.append(learner.score_and_learn(X[begin:end], y[begin:end], sample_weight=WEIGHT[begin:end]))
        if saved is not None:
            learner = saved(learner)
    return parts, learner


@pytest.mark.parametrize("case", CASES)
def test_scores_along_the_stream_are_those_of_the_core(case):
    (expected,), core = scores(case)
    (seen,), device = scores(case, device="cuda")
    size = np.abs(expected).mean()
    assert_allclose(seen, expected, rtol=1e-3, atol=1e-3 * size)
    assert_allclose(device.predict(X[:50]) == core.predict(X[:50]) if "classes" in case else 1, 1)
    assert_allclose(device.kernel_weights_, core.kernel_weights_, atol=1e-3)
    assert device.n_support_.tolist() == core.n_support_.tolist()


ROW_MODES = {"without trees": {"trees": False}, "with trees": {}, "under drift": {"drift": "adapt", "trees": False}}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", ROW_MODES)
def test_row_by_row_scores_are_those_of_the_core(case, mode):
    (expected,), core = scores(case, update="rows", **ROW_MODES[mode])
    (seen,), device = scores(case, update="rows", device="cuda", **ROW_MODES[mode])
    size = np.abs(expected).mean()
    assert_allclose(seen, expected, rtol=1e-4, atol=1e-4 * size)
    assert_allclose(device.kernel_weights_, core.kernel_weights_, atol=1e-4)
    assert device.n_support_.tolist() == core.n_support_.tolist()
    here, there = (each.predict(X[:100]) for each in (core, device))
    assert_array_equal(there, here) if "classes" in case else assert_allclose(there, here, rtol=1e-4, atol=1e-4 * size)


@pytest.mark.parametrize("update", ["rows", "rounds"])
@pytest.mark.parametrize("case", ["two classes", "numbers with outliers"])
def test_any_split_and_a_save_in_between_give_the_same_bits(case, update, tmp_path):
    def reloaded(learner):
        modelfile.save(learner, tmp_path / "m.bomkl")
        return modelfile.load(tmp_path / "m.bomkl")

    (whole,), expected = scores(case, device="cuda", update=update)
    for saved in (None, reloaded, lambda learner: pickle.loads(pickle.dumps(learner))):
        parts, learner = scores(case, (1, 59, 64, 65, 200, 300, 433), saved, device="cuda", update=update)
        assert_array_equal(np.concatenate(parts), whole)
        assert_array_equal(learner.predict(X), expected.predict(X))


def test_row_by_row_under_drift_any_split_gives_the_same_bits():
    settings = {"device": "cuda", "update": "rows", "drift": "adapt", "trees": False}
    (whole,), _ = scores("two classes", **settings)
    parts, _ = scores("two classes", (270, 433), lambda learner: pickle.loads(pickle.dumps(learner)), **settings)
    assert_array_equal(np.concatenate(parts), whole)


def test_a_model_that_learns_row_by_row_goes_on_elsewhere():
    (whole,), core = scores("several classes", update="rows", trees=False)
    learner, y = model("several classes", update="rows", trees=False)
    parts = []
    for begin, end, device in ((0, 300, "cpu"), (300, 433, "cuda"), (433, 500, "cpu"), (500, 700, "cuda")):
        learner.set_params(device=device)
        rows = slice(begin, end)
        parts.append(learner.score_and_learn(X[rows], y[rows], sample_weight=WEIGHT[rows]))
    assert_allclose(np.concatenate(parts), whole, rtol=1e-4, atol=1e-4 * np.abs(whole).mean())
    assert_allclose(learner.learn_one(X[0], y[0]), core.learn_one(X[0], y[0]), rtol=1e-4)
    assert_allclose(learner.explain(X[0]).margin, core.explain(X[0]).margin, rtol=1e-3)
    assert learner.nbytes_ > core._learner.components[0].regression.P.nbytes


@pytest.mark.parametrize("at", [300, 320])
def test_row_by_row_a_new_class_in_the_midst_of_a_block(at):
    expected, seen = (
        AutoMKLClassifier(60, trees=False, device=device, random_state=0)
        .partial_fit(X[:at], Y[:at] % 2)
        .partial_fit(X[at:], Y[at:])
        .predict_log_proba(X)
        for device in ("cpu", "cuda")
    )
    assert_allclose(seen, expected, rtol=1e-4, atol=1e-4)


def test_row_by_row_an_error_leaves_the_model_as_it_was(monkeypatch):
    from bomkl.auto.gpu import newton

    learner, y = model("two classes", update="rows", device="cuda")
    learner.partial_fit(X[:400], y[:400])
    twin = pickle.loads(pickle.dumps(learner))
    with monkeypatch.context() as patch:

        def interrupted(*_):
            raise KeyboardInterrupt

        patch.setattr(newton.Workspace, "_repair", interrupted)
        with pytest.raises(KeyboardInterrupt):
            learner.partial_fit(X[400:], y[400:])
    assert learner.n_seen_ == 400
    again, expected = (each.score_and_learn(X[400:], y[400:]) for each in (learner, twin))
    assert_array_equal(again, expected)


def test_a_model_goes_on_elsewhere():
    parts, learner = scores("two classes", device="cuda")
    learner.set_params(device="cpu")
    here = learner.decision_function(X)
    learner.set_params(device="cuda")
    assert_allclose(learner.decision_function(X), here, rtol=1e-3, atol=1e-3)
    assert len(parts[0]) == learner.n_seen_


def test_single_precision_rows_and_sparse_rows():
    import scipy.sparse as sp

    learner, y = model("two classes", device="cuda")
    learner.fit(X.astype(np.float32), y)
    assert_allclose(learner.decision_function(sp.csr_matrix(X)), learner.decision_function(X), rtol=1e-6)


def test_a_new_class_in_the_midst_of_a_round():
    learner, _ = model("several classes", device="cuda")
    learner.partial_fit(X[:300], Y[:300] % 2).partial_fit(X[300:], Y[300:])
    assert learner.predict_proba(X).shape == (len(X), 4)
    assert np.isfinite(learner.predict_proba(X)).all()


def test_full_precision_whatever_the_program_has_set():
    import torch

    before = torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = True
        scores("two classes", device="cuda")
        assert torch.backends.cuda.matmul.allow_tf32 is True
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


INTERPRETED = """
import numpy as np
import torch

from bomkl.auto.gpu import kernels, recursion
from bomkl.auto.task import Task

torch.set_num_threads(1)
rng = torch.Generator().manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
without = lambda x: False


def both(work):
    by_triton = work()
    runs = kernels.runs_triton
    kernels.runs_triton = recursion.runs_triton = without
    by_pytorch = work()
    kernels.runs_triton = recursion.runs_triton = runs
    return by_triton, by_pytorch


x, z = torch.randn((70, 5), generator=rng).to(device), torch.randn((5, 90), generator=rng).to(device)
assert kernels.runs_triton(x)
seen, expected = both(lambda: kernels.laplacian_values(x, z, 0.3))
np.testing.assert_allclose(seen.cpu(), expected.cpu(), rtol=1e-5)
values = 100 * torch.randn((3, 40, 50), generator=rng).to(device)


def added():
    sums = torch.zeros((40, 50), dtype=torch.int64, device=device)
    kernels.add_fixed(values, 2.0**20, sums)
    return sums


seen, expected = both(added)
assert torch.equal(seen, expected)

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
    seen, expected = both(lambda: learned(task, outputs, forgets, [(0, 9)]))
    parts = learned(task, outputs, forgets, [(0, 4), (4, 9)])
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


def test_no_memory_on_the_device_leaves_the_model_as_it_was(monkeypatch):
    import torch

    from bomkl.auto.gpu import engine

    learner, y = model("two classes", device="cuda")
    learner.partial_fit(X[:400], y[:400])
    before = learner.decision_function(X)

    def full(*_):
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(engine.DeviceSums, "add_component", full)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (6 << 30, 8 << 30))
    with pytest.raises(MemoryError, match=r"budget=60: 6\.0 GiB are free\. A budget of \d+ would fit"):
        learner.partial_fit(X[400:], y[400:])
    assert learner.n_seen_ == 400
    assert_array_equal(learner.decision_function(X), before)


class TestWithout:
    """What users see who have no GPU, or no PyTorch."""

    def test_wide_rows_are_learned_by_the_processor(self):
        rule = "'device' parameter of AutoMKLClassifier must be 'cpu' or 'auto' for more than 512"
        with pytest.raises(ValueError, match=rule):
            AutoMKLClassifier(device="cuda").fit(np.random.default_rng(0).normal(size=(40, 600)), Y[:40])

    def test_no_gpu(self, monkeypatch):
        monkeypatch.setattr(devices, "_has_gpu", lambda: False)
        with pytest.raises(ValueError, match="needs a GPU, but PyTorch finds none"):
            AutoMKLClassifier(update="rounds", device="cuda").fit(X, Y)
        assert isinstance(devices.engine_for("auto"), sum_engine.CoreEngine)

    def test_no_pytorch(self, monkeypatch):
        monkeypatch.setattr(devices, "find_spec", lambda name: None)
        with pytest.raises(ImportError, match=r"pip install 'bomkl\[gpu\]'"):
            AutoMKLClassifier(update="rounds", device="cuda").fit(X, Y)

    def test_an_unknown_device(self):
        with pytest.raises(ValueError, match="'device' parameter of AutoMKLClassifier must be one of"):
            AutoMKLClassifier(device="tpu").fit(X, Y)

    def test_importing_the_package_does_not_import_pytorch(self):
        code = (
            "import sys; from bomkl import AutoMKLClassifier as A; "
            "A(20, update='rounds').fit([[i % 7] for i in range(40)], [i % 2 for i in range(40)]); "
            "print('torch' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "False"
