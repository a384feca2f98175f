"""Draw the pictures of docs/gallery.md from data sets in a folder: python tools/gallery.py FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from bomkl import AutoMKLClassifier, AutoMKLRegressor

TO = Path(__file__).parents[1] / "docs" / "assets" / "gallery"


def table(folder: Path, name: str, target: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows and targets of a table."""
    rows = pd.read_csv(folder / "tables" / f"{name}.csv.gz")
    return rows, rows.pop(target).to_numpy()


def main() -> None:
    """Draw all of them."""
    folder = Path(sys.argv[1])
    churn = AutoMKLClassifier(random_state=0).partial_fit(*table(folder, "churn", "churn"))
    hotel = AutoMKLRegressor(random_state=0).partial_fit(*table(folder, "hotel", "avg_price_per_room"))
    flights = AutoMKLClassifier(random_state=0).partial_fit(*table(folder, "flights", "late"))
    data = np.load(folder / "letter.npz")
    order = np.random.default_rng(0).permutation(len(data["y"]))
    letter = AutoMKLClassifier(random_state=0).partial_fit(data["X"][order], data["y"][order])
    figures = {
        "churn-importances": churn.plot_importances(),
        "churn-effects": churn.plot_effects(),
        "hotel-learning": hotel.plot_learning(),
        "hotel-calibration": hotel.plot_calibration(),
        "letter-learning": letter.plot_learning(),
        "letter-calibration": letter.plot_calibration(),
        "flights-drift": flights.plot_drift(),
        "flights-effects": flights.plot_effects(["sched_dep_time", "carrier", "humid", "precip"]),
    }
    TO.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        figure.savefig(TO / f"{name}.png", dpi=80)
        picture = Image.open(TO / f"{name}.png").convert("RGB")  # few colours, a third of the size
        picture.quantize(64, dither=Image.Dither.NONE).save(TO / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
