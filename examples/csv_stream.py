"""Learn a CSV file in blocks: string columns, missing values, and the error before each row was learned from."""

import csv
import random
import tempfile
from pathlib import Path

from bomkl import AutoMKLClassifier
from bomkl.streams import open_stream

path = Path(tempfile.mkdtemp()) / "flights.csv"
rng = random.Random(0)
with path.open("w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["hour", "distance", "airport", "late"])
    for _ in range(4000):
        hour, distance, airport = rng.uniform(5, 23), rng.uniform(100, 4000), rng.choice(["FRA", "LHR", "OSL"])
        delay = (hour - 17) ** 2 / 40 + (airport == "LHR") + rng.gauss(0, 0.4)
        shown = "" if rng.random() < 0.02 else f"{distance:.0f}"
        writer.writerow([f"{hour:.2f}", shown, airport, "no" if delay > 1 else "yes"])

stream = open_stream(path, label="late", missing=1500.0, block_rows=500)
schema = stream.scan()
print("features:", schema.feature_names())
print("classes: ", schema.classes)

model = AutoMKLClassifier(budget=150, random_state=0)
for X, y in stream:
    model.partial_fit(X, y, classes=schema.classes)
    print(f"{model.n_seen_:5} rows, {100 * model.mistakes_ / model.n_seen_:.1f} % mistakes so far")
