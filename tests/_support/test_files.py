"""Files that are replaced: whole, on the disk, by one writer at a time."""

from __future__ import annotations

import os
import resource
import secrets
import stat
import subprocess
import sys
import zlib

import pytest
from tests.models import small_model

from bomkl import modelfile
from bomkl._support import files
from bomkl._support.files import BusyError, locked, replacing


def test_the_old_file_survives_a_full_disk(tmp_path):
    path = tmp_path / "m"
    modelfile.write(path, small_model(version="old"))
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            modelfile.write(path, small_model(version="new"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m"]


def test_the_temporary_file_is_nobody_elses(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    for name in (".m.tmp", ".m.lock"):
        (tmp_path / name).symlink_to(victim)
    seen = []
    for _ in range(2):
        with replacing(tmp_path / "m") as file:
            seen.append(set(os.listdir(tmp_path)) - {"m", "victim", ".m.tmp", ".m.lock"})
            file.write(b"whole")
    assert seen[0].isdisjoint(seen[1])
    assert len(seen[0]) == len(seen[1]) == 1
    assert victim.read_bytes() == b"precious"
    assert (tmp_path / "m").read_bytes() == b"whole"
    monkeypatch.setattr(secrets, "token_hex", lambda size: "taken")
    (tmp_path / f".bomkl-{zlib.crc32(b'm'):08x}-taken.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        modelfile.write(tmp_path / "m", small_model())
    assert victim.read_bytes() == b"precious"


@pytest.mark.skipif(os.name != "posix", reason="folders are flushed on POSIX systems only")
def test_a_file_is_on_the_disk_before_it_takes_its_name_and_the_name_after_it(tmp_path, monkeypatch):
    steps = []

    def fsync(descriptor):
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else os.fstat(descriptor).st_size)

    def replace(source, target):
        steps.append("name")
        os.rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    with replacing(tmp_path / "m") as file:
        file.write(b"ten bytes.")
    assert steps == [10, "name", "folder"]


def test_two_writers_at_once_leave_one_whole_file(tmp_path):
    with replacing(tmp_path / "m") as file:
        file.write(b"half")
        modelfile.write(tmp_path / "m", small_model(writer="inner"))
        assert modelfile.read(tmp_path / "m").notes == {"writer": "inner"}
    assert (tmp_path / "m").read_bytes() == b"half"
    assert os.listdir(tmp_path) == ["m"]


KILLED_WRITER = """
import os, signal, sys
from bomkl._support.files import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def make_old(path):
    os.utime(path, (1, 1))


@pytest.mark.skipif(os.name != "posix", reason="locks of files are those of POSIX")
def test_the_next_save_deletes_what_a_killed_one_left(tmp_path):
    for name in ("m", "other"):
        subprocess.run([sys.executable, "-c", KILLED_WRITER, str(tmp_path / name)], check=False)
    left = sorted(tmp_path.iterdir())
    assert len(left) == 2
    with replacing(tmp_path / "m"):
        assert len(os.listdir(tmp_path)) == 3  # too young to tell, where machines do not see each other's locks
    for path in left:
        make_old(path)
    with replacing(tmp_path / "m"):
        pass
    assert len(os.listdir(tmp_path)) == 2, "the file, and what was left when the other one was written"
    with replacing(tmp_path / "other"):
        pass
    assert sorted(os.listdir(tmp_path)) == ["m", "other"]


def test_a_save_leaves_alone_what_others_write_and_what_is_not_its_own(tmp_path):
    begin = f".bomkl-{zlib.crc32(b'm'):08x}-"
    strangers = [tmp_path / f"{begin}notes.tmp", tmp_path / ".bomkl-0123456789abcdef.tmp"]
    link = tmp_path / f"{begin}{'0' * 16}.tmp"
    for path in strangers:
        path.write_bytes(b"kept")
        make_old(path)
    link.symlink_to(strangers[0])
    with replacing(tmp_path / "m") as file:
        file.write(b"slow")
        file.flush()
        (own,) = set(tmp_path.iterdir()) - {*strangers, link}
        make_old(own)
        modelfile.write(tmp_path / "m", small_model(writer="quick"))
        assert own.exists()
    assert (tmp_path / "m").read_bytes() == b"slow"
    assert all(path.read_bytes() == b"kept" for path in strangers)
    assert link.is_symlink()


def test_a_temporary_file_that_is_deleted_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    lock, deleted = files.try_lock, []

    def late(descriptor):
        if not deleted:
            deleted.extend(tmp_path.iterdir())
            deleted[0].unlink()
        return lock(descriptor)

    monkeypatch.setattr(files, "try_lock", late)
    with replacing(tmp_path / "m") as file:
        file.write(b"whole")
    assert deleted
    assert (tmp_path / "m").read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["m"]


def test_a_lock_is_held_by_one(tmp_path):
    with locked(tmp_path / "m"), pytest.raises(BusyError, match="another process is writing"), locked(tmp_path / "m"):
        pytest.fail("two hold it")
    with locked(tmp_path / "m"):
        pass
    assert os.listdir(tmp_path) == []


def test_a_private_file_stays_private(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(b"")
    path.chmod(0o600)
    modelfile.write(path, small_model())
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_not_a_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    os.mkdir(tmp_path / "folder")
    for path in (tmp_path / "pipe", tmp_path / "folder", "/dev/full"):
        with pytest.raises(OSError, match="not a regular file"):
            modelfile.write(path, small_model())
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    assert sorted(os.listdir(tmp_path)) == ["folder", "pipe"]


def test_links_are_followed_and_modes_are_those_of_new_files(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    before = os.umask(0o027)
    try:
        modelfile.write(tmp_path / "link", small_model())
    finally:
        os.umask(before)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o640
