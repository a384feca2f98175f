"""Learning by PyTorch, on a GPU where there is one and on the processor otherwise: close to the core."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification

from bomkl import AutoMKLClassifier, AutoMKLRegressor, modelfile
from bomkl.auto import device as devices
from bomkl.auto.rounds import engine as sum_engine
from bomkl.auto.rounds import round_learner as rounds

X, Y = make_classification(700, 6, n_informative=5, n_redundant=0, n_classes=4, random_state=0)
WEIGHT = np.random.default_rng(0).choice([0.3, 1.0, 2.0], len(Y))
CASES = {
    "two classes": (AutoMKLClassifier, {}, Y % 2),
    "several classes": (AutoMKLClassifier, {}, Y),
    "numbers": (AutoMKLRegressor, {}, X[:, 0] * X[:, 1] + Y),
    "prices": (AutoMKLRegressor, {}, np.exp(X[:, 0] + 0.5 * X[:, 1])),  # one component learns them on a curved scale
    "numbers with outliers": (AutoMKLRegressor, {"loss": "huber"}, np.where(Y == 3, 50.0, X[:, 0] * X[:, 1])),
}


@pytest.fixture(autouse=True, scope="module")
def _small_blocks():
    """Blocks of 32 rows: a stream of 700 then has many of them."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from bomkl.auto.gpu import engine, errors, newton, sums
    from bomkl.auto.gpu import rows as device_rows

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        for module in (rounds, sum_engine, engine, sums):
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


ROW_MODES = {  # on a device "auto" is None
    "without trees": {"drift": None, "trees": False},
    "with trees": {"drift": None},
    "under drift": {"drift": "adapt", "trees": False},
}


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


def test_row_by_row_the_processor_keeps_the_component_of_a_curved_scale():
    from bomkl.auto.components.curved import CurvedComponent
    from bomkl.auto.components.newton import NewtonRegression

    cuts = (64, 200, 433)
    (whole,), learner = scores("prices", update="rows", trees=False, device="cuda")
    (curved,) = (each for each in learner._learner.leader.components if isinstance(each, CurvedComponent))
    assert isinstance(curved.regression, NewtonRegression)
    assert sum(isinstance(each.regression, NewtonRegression) for each in learner._learner.leader.components) == 1
    parts, again = scores(
        "prices", cuts, lambda each: pickle.loads(pickle.dumps(each)), update="rows", trees=False, device="cuda"
    )
    assert_array_equal(np.concatenate(parts), whole)
    assert_array_equal(again.predict(X), learner.predict(X))


def test_row_by_row_with_features_of_several_widths(monkeypatch):
    from bomkl.auto.gpu import newton

    monkeypatch.setattr(newton, "_WIDE", 16)
    settings = {"update": "rows", "trees": False, "drift": None}  # on a device "auto" is None
    (expected,), _ = scores("two classes", **settings)
    (seen,), device = scores("two classes", device="cuda", **settings)
    assert len(device._learner.leader.components[0].regression.among.places) > 1
    assert_allclose(seen, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).mean())


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
    assert learner.nbytes_ > core._learner.leader.components[0].regression.P.nbytes


@pytest.mark.parametrize("at", [300, 320])
def test_row_by_row_a_new_class_in_the_midst_of_a_block(at):
    expected, seen = (
        AutoMKLClassifier(60, drift=None, trees=False, device=device, random_state=0)
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


class Foreign:
    """An array of a library that is not PyTorch, but speaks DLPack as CuPy and JAX do."""

    def __init__(self, tensor):
        self._tensor = tensor

    def __dlpack__(self, **arguments):
        return self._tensor.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()


class OnGPU(Foreign):
    def __dlpack_device__(self):
        return 2, 0


def itself(tensor):
    return tensor


def on_device(array, wrap=itself):
    import torch

    return wrap(torch.as_tensor(np.ascontiguousarray(array), device="cuda" if torch.cuda.is_available() else "cpu"))


class TestArraysOnTheDevice:
    @pytest.mark.parametrize("wrap", [itself, Foreign])
    @pytest.mark.parametrize("settings", [{"update": "rounds"}, {"update": "rows", "trees": False}], ids=str)
    def test_same_bits_as_rows_of_the_host(self, wrap, settings):
        rows, weights = on_device(X, wrap), on_device(WEIGHT)
        learner, expected = (AutoMKLClassifier(60, device="cuda", random_state=0, **settings) for _ in range(2))
        seen = learner.score_and_learn(rows, on_device(Y), sample_weight=weights)
        assert_array_equal(seen, expected.score_and_learn(X, Y, sample_weight=WEIGHT))
        assert_array_equal(learner.predict(rows), expected.predict(X))

    def test_with_trees_and_shuffled(self):
        learner, expected = (AutoMKLClassifier(60, device="cuda", random_state=0) for _ in range(2))
        learner.fit(on_device(X), on_device(Y), shuffle=True)
        assert_array_equal(learner.predict_proba(on_device(X)), expected.fit(X, Y, shuffle=True).predict_proba(X))

    @pytest.mark.parametrize("settings", [{"update": "rounds"}, {"trees": False}], ids=str)
    def test_numbers(self, settings):
        y = X[:, 0] * X[:, 1]
        learner, expected = (AutoMKLRegressor(60, device="cuda", random_state=0, **settings) for _ in range(2))
        learner.partial_fit(on_device(X), on_device(y))
        assert_array_equal(learner.predict(on_device(X)), expected.partial_fit(X, y).predict(X))
        assert learner.explain(on_device(X[0])).margin == expected.explain(X[0]).margin
        assert learner.predict_one(on_device(X[0])) == expected.predict_one(X[0])

    @pytest.mark.parametrize("update", ["rows", "rounds"])
    def test_rows_travel_once_for_what_grows_and_never_to_be_predicted(self, update, monkeypatch):
        from bomkl.auto.gpu.arrays import DeviceRows

        learner, y = model("two classes", update=update, device="cuda", trees=False)
        learner.partial_fit(X[:300], y[:300])
        fetched, toarray = [], DeviceRows.toarray
        monkeypatch.setattr(DeviceRows, "toarray", lambda rows: fetched.append(len(rows)) or toarray(rows))
        learner.partial_fit(on_device(X[300:684]), y[300:684])
        assert sum(fetched) <= 1 + 384 + 64 + 32  # to be looked at, to be coded, to be measured, of an open block
        fetched.clear()
        learner.predict(on_device(X))
        assert fetched == [1]  # the first row, to be looked at

    def test_nan_is_a_missing_value(self):
        learner, y = model("two classes", device="cuda")
        gaps = X.copy()
        gaps[150, 3] = np.nan
        assert np.isfinite(learner.partial_fit(on_device(gaps), y).decision_function(on_device(gaps))).all()

    def test_cells_and_shapes_are_checked(self):
        learner, y = model("two classes", device="cuda")
        learner.partial_fit(on_device(X), y)
        before, wrong = learner.decision_function(X), X.copy()
        wrong[150, 3] = np.inf
        with pytest.raises(ValueError, match=r"X must hold finite numbers. Got inf in row 150, column 3"):
            learner.partial_fit(on_device(wrong), y)
        with pytest.raises(ValueError, match="X has 5 features, but AutoMKLClassifier is expecting 6"):
            learner.predict(on_device(X[:, :5]))
        with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
            learner.predict(on_device(X[0]))
        with pytest.raises(ValueError, match="0 sample"):
            learner.predict(on_device(X[:0]))
        assert_array_equal(learner.decision_function(on_device(X)), before)

    def test_whole_numbers_and_names(self):
        from pandas import DataFrame

        whole = (10 * X).astype(np.int32)
        learner, y = model("two classes", device="cuda")
        learner.partial_fit(on_device(whole), y)
        assert_array_equal(learner.decision_function(on_device(whole)), learner.decision_function(whole))
        named, _ = model("two classes", device="cuda")
        named.fit(DataFrame(X, columns=list("abcdef")), y)
        with pytest.warns(UserWarning, match="X does not have valid feature names"):
            named.predict(on_device(X))

    def test_the_processor_does_not_take_rows_of_a_gpu(self):
        learner, y = model("two classes")
        with pytest.raises(ValueError, match="X is in the memory of a GPU, but device='cpu' learns on the processor"):
            learner.fit(OnGPU(on_device(X)), y)


def test_landmarks_are_those_of_the_processor(monkeypatch):
    from bomkl.auto.gpu import fit

    learner, y = model("two classes", device="cuda")
    expected = learner.fit(X[:200], y[:200])._learner
    monkeypatch.setattr(fit, "_MANY", 1)
    seen = model("two classes", device="cuda")[0].fit(X[:200], y[:200])._learner
    for mine, its in zip(seen.leader.components, expected.leader.components, strict=True):
        if its.support is not None:
            assert_array_equal(np.sort(mine.support), np.sort(its.support))  # rounding decides the order of alike ones
    # rounding may end the search along a step one round sooner, which moves scores by hundredths
    assert_allclose(seen.scores(X[200:]), expected.scores(X[200:]), rtol=1e-3, atol=0.02)


def test_workers_of_a_cluster_add_up_on_their_devices(monkeypatch):
    from bomkl import partitions
    from bomkl.auto.gpu import engine

    added, sums = [], engine.TorchEngine.sums
    monkeypatch.setattr(engine.TorchEngine, "sums", lambda *given: added.append(1) or sums(*given))
    rows = [(X[part::2], Y[part::2]) for part in (0, 1)]

    def learned(device):
        learner = AutoMKLClassifier(60, update="rounds", device=device, random_state=0)
        job = partitions.Job(learner, [partitions.summary(*each) for each in rows])
        job.learn_head([partitions.drawn_rows(each, *rows[each.partition]) for each in job.head_pieces()])
        while pieces := job.next_round():
            static = pickle.loads(pickle.dumps(job.static()))
            for each in pieces:
                job.add(partitions.piece_sums(static, job.means(), each, *rows[each.partition]))
            job.end_round()
        return learner.decision_function(X)

    expected = learned("cpu")
    assert not added
    assert_allclose(learned("cuda"), expected, rtol=1e-3, atol=1e-3)
    assert added


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


def test_no_memory_on_the_device_leaves_the_model_as_it_was(monkeypatch):
    import torch

    from bomkl.auto.gpu import engine

    learner, y = model("two classes", device="cuda")
    learner.partial_fit(X[:400], y[:400])
    before = learner.decision_function(X)

    def full(*_):
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(engine._Adder, "add", full)
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
        with pytest.raises(ImportError, match=r"pip install '.\[gpu\]'"):
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
