#!/usr/bin/env bash
# Cross-compile the core for 64-bit ARM and run its tests under QEMU. For Debian and its relatives:
#   dpkg --add-architecture arm64 && apt-get update && apt-get install g++-aarch64-linux-gnu qemu-user-static cmake ninja-build
set -euo pipefail
cd "$(dirname "$0")/.."
work=$PWD/build/arm version=3.11
mkdir -p "$work/debs" "$work/system"

if [ ! -x "$work/system/usr/bin/python$version" ]; then
  packages=(python$version python$version-minimal libc6 libgcc-s1 libstdc++6 libgomp1 zlib1g libexpat1 libssl3 libffi8
    libbz2-1.0 liblzma5 libsqlite3-0 libuuid1 libcrypt1 libpython$version-minimal libpython$version-stdlib libpython$version-dev)
  (cd "$work/debs" && apt-get download "${packages[@]/%/:arm64}")
  for package in "$work"/debs/*.deb; do dpkg -x "$package" "$work/system"; done
fi
if [ ! -d "$work/site/numpy" ]; then
  python3 -m venv "$work/tools"
  "$work/tools/bin/pip" install --quiet nanobind
  "$work/tools/bin/pip" install --quiet --target "$work/site" --python-version $version --implementation cp --only-binary=:all: \
    --platform manylinux2014_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64 \
    numpy scipy scikit-learn tqdm typer pandas pytest hypothesis
fi

cmake -S . -B "$work/cmake" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DPython_EXECUTABLE="$work/tools/bin/python" \
  -DPython_INCLUDE_DIR="$work/system/usr/include/python$version" \
  -DCMAKE_CXX_FLAGS="-I$work/system/usr/include -isystem $work/system/usr/include/aarch64-linux-gnu" >"$work/cmake.log"
cmake --build "$work/cmake"
rm -rf "$work/package" && mkdir -p "$work/package"
cp -r src/bomkl "$work/package/"
cp "$work"/cmake/_core*.so "$work/package/bomkl/_core.so"

export PYTHONHOME=$work/system/usr PYTHONPATH=$work/package:$work/site QEMU_LD_PREFIX=$work/system PYTHONDONTWRITEBYTECODE=1
core_tests="tests/budget/test_instruction_sets.py tests/budget/test_one_row.py tests/budget/test_sparse_rows.py tests/auto/test_core.py"
# QEMU raises floating-point flags inside OpenBLAS that real processors do not
qemu-aarch64-static "$work/system/usr/bin/python$version" -m pytest -q -p no:cacheprovider \
  -W ignore::RuntimeWarning ${@:-$core_tests}
