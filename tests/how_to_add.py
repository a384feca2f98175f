"""Follow the pages on adding learners, kernels and components in a copy of the sources; build it, use and test it.

`make how-to` runs it and prints what the pages change. It takes minutes, which is why it is no test of the suite; the
suite only compiles the headers of the pages (tests/test_how_to_add.py).
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("adding-a-learner.md", "adding-a-kernel.md")
AUTO_PAGES = ("adding-a-pool-kernel.md", "adding-a-component.md")

USE = """
import numpy as np
from bomkl import BudgetMKLClassifier
from bomkl.kernels import Gaussian, InverseMultiquadric
from bomkl.learners import MarginPerceptron
X = np.random.default_rng(0).normal(size=(400, 4))
y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
for budget in (None, 30):
    model = BudgetMKLClassifier([InverseMultiquadric(2.0)], MarginPerceptron(0.2), selection_delta=None, budget=budget)
    margins = model.score_and_learn(X, y)
    assert ((margins * y <= 0.2).sum() == model.n_support_[0]) or budget, model.n_support_
    K = InverseMultiquadric(2.0)(X, model.support_vectors_) @ model.dual_coef_[:, 0]
    np.testing.assert_allclose(model.decision_function(X), K, rtol=1e-9, atol=1e-9)
USE_AUTO
import onnxruntime
from bomkl.auto.features.features import KernelFeatures
from bomkl.onnx import to_onnx
assert "cauchy normal 1" in whole.kernels_, whole.kernels_
session = onnxruntime.InferenceSession(to_onnx(whole).SerializeToString())
(said,) = session.run(["probabilities"], {session.get_inputs()[0].name: X})
np.testing.assert_allclose(said, whole.predict_proba(X), atol=1e-4)
print("what the pages add works", flush=True)
import pytest
added = ["-k", "MarginPerceptron or InverseMultiquadric or it_agrees_with_the_reference or all_kernels or kernel_feat"]
files = ["tests/budget/test_engine_against_reference.py", "tests/budget/test_instruction_sets.py", "tests/test_onnx.py"]
files += ["tests/auto/test_core.py"]
sys.exit(pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", *added, *files]))
"""


USE_AUTO = """
import numpy as np
from bomkl import AutoMKLClassifier, modelfile
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 3))
y = (X[:, 0] * X[:, 1] > 0).astype(int)
whole = AutoMKLClassifier(budget=64, random_state=0)
margins = whole.score_and_learn(X, y)
assert "gaussian normal 2" in whole.kernels_, whole.kernels_
assert "stumps" in whole.kernels_, whole.kernels_
one_by_one = AutoMKLClassifier(budget=64, random_state=0)
for row, label in zip(X, y):
    one_by_one.learn_one(row, label)
np.testing.assert_array_equal(one_by_one.decision_function(X), whole.decision_function(X))
modelfile.save(whole, "model.bomkl")
np.testing.assert_array_equal(modelfile.load("model.bomkl").decision_function(X), whole.decision_function(X))
"""


def blocks(page):
    """Return the code blocks of a page that have a file as their title: (file, code)."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r'```\w+ title="([^"]+)"\n(.*?)```', text, flags=re.S)


def add_to(tree):
    """Do what the pages say: new headers are written, classes are appended."""
    for page in PAGES:
        for name, code in blocks(page):
            path = Path(tree) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            before = path.read_text(encoding="utf-8") if path.exists() else ""
            path.write_text(f"{before}\n\n{code}" if before else code, encoding="utf-8")


def apply_diff(tree, page, most=None):
    """Apply the changes of a page that are shown as a diff, or the first of them: lines of context, + for new lines."""
    for name, diff in blocks(page)[:most]:
        path = Path(tree) / name
        lines = diff.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] == " ")
        after = "".join(line[1:] for line in lines)
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1, f"{page} does not fit {name}"
        path.write_text(text.replace(before, after), encoding="utf-8")


def main():
    tree = ROOT / "build" / "how-to"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    parts = ("cpp", "src", "tests", "CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE")
    for name in parts:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tree / name)
    add_to(tree)
    for page in AUTO_PAGES:
        apply_diff(tree, page)
    for name in parts:  # the diff, for a person to look at; git tells by its exit code that there is one
        subprocess.run(
            ["git", "--no-pager", "diff", "--no-index", "--", str(ROOT / name), str(tree / name)], check=False
        )
    site = tree / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(tree)], check=True
    )
    # -S: without the editable installation of the project itself
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    use = USE.replace("USE_AUTO", USE_AUTO)
    code = f"import sys; sys.path[:0] = [{str(site)!r}]; sys.path.append({packages!r})\n{use}"
    subprocess.run([sys.executable, "-S", "-c", code], check=True, cwd=tree)


if __name__ == "__main__":
    main()
