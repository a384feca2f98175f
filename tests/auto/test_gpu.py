"""Learning in rounds by PyTorch, on a GPU where there is one and on the processor otherwise: close to the core."""

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
    from bomkl.auto.gpu import engine

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        for module in (rounds, sum_engine, engine):
            patch.setattr(module, "ROUND_BLOCK", 32)
        patch.setattr(engine, "CHUNK_BLOCKS", 4)
        on_this_machine = engine.TorchEngine("cuda" if torch.cuda.is_available() else "cpu")
        patch.setattr(devices, "_has_gpu", lambda: True)
        patch.setattr(devices, "_gpu_engine", lambda: on_this_machine)
        yield
    torch.set_num_threads(threads)


def model(case, **settings):
    estimator, fixed, y = CASES[case]
    return estimator(60, update="rounds", random_state=0, **fixed, **settings), y


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


@pytest.mark.parametrize("case", ["two classes", "numbers with outliers"])
def test_any_split_and_a_save_in_between_give_the_same_bits(case, tmp_path):
    def reloaded(learner):
        modelfile.save(learner, tmp_path / "m.bomkl")
        return modelfile.load(tmp_path / "m.bomkl")

    (whole,), expected = scores(case, device="cuda")
    for saved in (None, reloaded, lambda learner: pickle.loads(pickle.dumps(learner))):
        parts, learner = scores(case, (1, 59, 64, 65, 200, 433), saved, device="cuda")
        assert_array_equal(np.concatenate(parts), whole)
        assert_array_equal(learner.predict(X), expected.predict(X))


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


def test_the_loops_of_triton_do_what_pytorch_does():
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    if not torch.cuda.is_available():
        pytest.skip("Triton needs a GPU")
    from bomkl.auto.gpu import kernels

    rng = torch.Generator().manual_seed(0)
    x, z = torch.randn((70, 5), generator=rng), torch.randn((5, 90), generator=rng)
    assert_allclose(
        kernels.laplacian_values(x.cuda(), z.cuda(), 0.3).cpu(), kernels.laplacian_values(x, z, 0.3), rtol=1e-6
    )
    values = 100 * torch.randn((3, 40, 50), generator=rng)
    here, there = torch.zeros((40, 50), dtype=torch.int64), torch.zeros((40, 50), dtype=torch.int64).cuda()
    kernels.add_fixed(values, 2.0**20, here)
    kernels.add_fixed(values.cuda(), 2.0**20, there)
    assert_array_equal(there.cpu(), here)


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

    def test_rows_are_learned_by_the_processor(self):
        with pytest.raises(
            ValueError, match="'device' parameter of AutoMKLClassifier must be 'cpu' or 'auto' with upd"
        ):
            AutoMKLClassifier(device="cuda").fit(X, Y)

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
