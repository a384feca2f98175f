"""Small files in the formats of the public sources."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bomkl_lab.experiments import converters
from bomkl_lab.experiments.converters import DataFileError

# Lines as the LIBSVM page has them: trailing space, 1-based indices, zeros left out.
A9A = b"-1 3:1 11:1 14:1 19:1 39:1 42:1 55:1 64:1 67:1 73:1 75:1 76:1 80:1 83:1 \n+1 5:1 7:1 123:1 \n"
COD_RNA = b"-1 1:-766 2:128 3:0.140625 4:0.304688 5:0.234375 6:0.140625 7:0.304688 8:0.234375\n"
MAGIC04 = b"28.7967,16.0021,2.6449,0.3918,0.1982,27.7004,22.011,-8.2027,40.092,81.8828,g\n" * 2 + (
    b"187.1814,53.0014,3.2093,0.2876,0.1539,-167.3125,-168.4558,31.4755,52.731,272.3174,h\n"
)
SUSY = b"".join(
    b"%d.000000000000000000e+00" % (i % 2) + b",9.728614687919616699e-01" * 17 + b",%d\n" % i for i in range(10)
)


@pytest.mark.parametrize(
    ("suffix", "compress"), [("", bytes), (".bz2", bz2.compress), (".gz", gzip.compress), (".xz", lzma.compress)]
)
def test_svmlight_plain_and_compressed(tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / f"a9a{suffix}"
    path.write_bytes(compress(A9A))
    X, y = converters.read_svmlight([path], 123)
    assert X.dtype == np.float32
    assert X.shape == (2, 123)
    assert np.flatnonzero(X[0]).tolist() == [2, 10, 13, 18, 38, 41, 54, 63, 66, 72, 74, 75, 79, 82]
    assert X[1, 122] == 1
    assert y.tolist() == [-1, 1]


def test_svmlight_files_follow_one_another(tmp_path: Path) -> None:
    for name, content in (("train", A9A), ("test", A9A[: A9A.index(b"\n") + 1])):
        (tmp_path / name).write_bytes(content)
    X, y = converters.read_svmlight([tmp_path / "train", tmp_path / "test"], 123)
    assert len(X) == 3
    assert y.tolist() == [-1, 1, -1]


def test_svmlight_values_are_the_nearest_float32(tmp_path: Path) -> None:
    (tmp_path / "cod-rna.t").write_bytes(COD_RNA)
    X, _ = converters.read_svmlight([tmp_path / "cod-rna.t"], 8)
    assert X[0, 3] == np.float32(0.304688)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (A9A + b"-1 3:x\n", "a9a:3: column 6: the value is not a finite number: 'x'"),
        (A9A + b"-1 124:1\n", "a9a:3: .*124"),
        (A9A + b"-1 0:1\n", "a9a:3: column 4: indices start at 1"),
        (A9A + b"7 1:1\n", "row 3: label 7 is none of -1, 0, 1"),
    ],
)
def test_svmlight_errors_name_the_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a9a").write_bytes(content)
    with pytest.raises(DataFileError, match=message):
        converters.read_svmlight([tmp_path / "a9a"], 123)


@pytest.mark.parametrize(
    ("suffix", "compress"), [(".bz2", bz2.compress), (".gz", gzip.compress), (".xz", lzma.compress)]
)
@pytest.mark.parametrize("damage", ["truncated", "corrupt"])
def test_damaged_archive_is_named(tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes], damage: str) -> None:
    content = bytearray(compress(A9A * 50))
    path = tmp_path / f"ijcnn1{suffix}"
    if damage == "truncated":
        del content[len(content) // 2 :]
    else:
        content[len(content) // 3 : len(content) // 2] = b"\xff" * (len(content) // 2 - len(content) // 3)
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=rf"ijcnn1{suffix}: is damaged or cut short: "):
        converters.read_svmlight([path], 123)


def test_magic04(tmp_path: Path) -> None:
    (tmp_path / "magic04.data").write_bytes(MAGIC04)
    X, y = converters.read_magic04([tmp_path / "magic04.data"], 10)
    assert X.shape == (3, 10)
    assert X[0, 0] == np.float32(28.7967)
    assert y.tolist() == [1, 1, -1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"1,2,3,4,5,6,7,8,9,10,x\n", r"magic04\.data, row 4: label 'x' is none of g, h"),
        (b"1,2,3\n", r"magic04\.data:4: 3 columns instead of 11"),
        (b"1,2,3,4,5,6,7,8,9,ten,g\n", r"magic04\.data: column 9: holds strings such as 'ten'"),
    ],
)
def test_magic04_errors_name_the_line(tmp_path: Path, line: bytes, message: str) -> None:
    (tmp_path / "magic04.data").write_bytes(MAGIC04 + line)
    with pytest.raises(DataFileError, match=message):
        converters.read_magic04([tmp_path / "magic04.data"], 10)


def test_susy_keeps_a_fixed_part_in_order(tmp_path: Path) -> None:
    path = tmp_path / "SUSY.csv.gz"
    path.write_bytes(gzip.compress(SUSY))
    X, y = converters.read_susy([path], 18, keep=4)
    again, _ = converters.read_susy([path], 18, keep=4)
    assert X.shape == (4, 18)
    assert np.all(np.diff(X[:, -1]) > 0)
    assert np.array_equal(X, again)
    assert y.tolist() == [1 if value % 2 else -1 for value in X[:, -1]]


def test_susy_too_short(tmp_path: Path) -> None:
    path = tmp_path / "SUSY.csv.gz"
    path.write_bytes(gzip.compress(SUSY))
    with pytest.raises(DataFileError, match="ends after 10 rows; 1000000 are to be drawn"):
        converters.read_susy([path], 18)


def write_kdd08(folder: Path, labels: list[int], rows: int) -> list[Path]:
    # Info.txt: label, ids and positions; Features.txt: 117 numbers; both separated by blanks.
    info, features = folder / "Info.txt", folder / "Features.txt"
    info.write_text("".join(f"{label:2d}\t0\t0\t36{i}\t5\t1\t1\t1.5\t2\t-3\t4\n" for i, label in enumerate(labels)))
    features.write_text("".join("  ".join(f"{(i - j) / 8:.4e}" for j in range(117)) + "\n" for i in range(rows)))
    return [info, features]


def test_kdd08(tmp_path: Path) -> None:
    X, y = converters.read_kdd08(write_kdd08(tmp_path, [-1, 1, -1], 3), 117)
    assert X.shape == (3, 117)
    assert X[2, 1] == np.float32(0.125)
    assert y.tolist() == [-1, 1, -1]


def test_kdd08_truncated(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"Info\.txt has 3 lines but .*Features\.txt has 2"):
        converters.read_kdd08(write_kdd08(tmp_path, [-1, 1, -1], 2), 117)


def test_kdd08_with_other_columns(tmp_path: Path) -> None:
    paths = write_kdd08(tmp_path, [-1], 1)
    with pytest.raises(DataFileError, match=r"Features\.txt, line 1: 117 columns instead of 116"):
        converters.read_kdd08(paths, 116)


def test_npz_round_trip_and_damage(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, X=np.eye(3), y=np.array([0, 1, 1]))
    X, y = converters.read_npz(path)
    assert X.dtype == np.float32
    assert y.tolist() == [-1, 1, 1]
    content = path.read_bytes()
    path.write_bytes(content[:-40])
    with pytest.raises(DataFileError, match=rf"x\.npz: corrupt or truncated at or before byte {len(content) - 40}"):
        converters.read_npz(path)
    np.savez(path, X=np.eye(3))
    with pytest.raises(DataFileError, match="has no array"):
        converters.read_npz(path)
    np.savez(path, X=np.eye(3), y=np.ones(2))
    with pytest.raises(DataFileError, match="do not fit together"):
        converters.read_npz(path)
