import numpy as np

from bomkl import demo


def test_table_and_bars_line_up():
    X, y = demo.load_demo_data()
    some = np.random.default_rng(1).permutation(len(y))[:800]
    rows = [demo.run_algorithm(name, X[some], y[some]) for name in ("Perceptron(*)", "BOMKC(SPA)")]
    lines = demo.format_table(rows).splitlines()
    assert len(lines) == 4
    rate = f"{rows[0].mistake_rate:.2f}"
    assert lines[2].index(rate) + len(rate) == lines[0].index("%") + 1
    assert sum("fewest" in line for line in lines) == 1
    model = rows[1].model
    bars = demo.format_kernels(model.kernels_, model.kernel_weights_, model.n_support_).splitlines()
    assert len(bars) == 17
    assert max(line.count("#") for line in bars) == demo.BAR_WIDTH


def test_the_whole_demo_prints_ten_algorithms_and_what_to_try_next(monkeypatch, capsys):
    X, y = demo.load_demo_data()
    some = np.random.default_rng(1).permutation(len(y))[:600]
    monkeypatch.setattr(demo, "load_demo_data", lambda: (X[some], y[some]))
    demo.run_demo()
    printed = capsys.readouterr().out
    assert sum(line.startswith(("OMKC", "BOMKC", "Perceptron(*)")) for line in printed.splitlines()) == 9
    assert "won" in printed
    assert sum(line.startswith("AutoMKL") for line in printed.splitlines()) == 1
    assert "What to try next:" in printed.splitlines()[-5]
