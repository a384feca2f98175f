#!/usr/bin/env bash
# Runs `make demo` and `make test` at odd places, in copies of the sources that share the packages and the core of .venv:
#   tools/odd_places.sh [PLACE...] [-- TESTS...]       for example: tools/odd_places.sh umlauts+load user -- tests/cli
# A place is odd in one way or in several at once, but not umlauts+locale: Python reads no such path in ASCII. fresh
# installs everything anew.
set -euo pipefail
cd "$(dirname "$0")/.."
known=(bomkl umlauts readonly nohome locale user load fresh)
places=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    for oddity in ${1//+/ }; do
        [[ " ${known[*]} " == *" $oddity "* ]] || { echo "odd_places.sh: there is no place '$oddity'. It may be one of: ${known[*]}." >&2; exit 2; }
    done
    places+=("$1")
    shift
done
tests="${*:2}"
[ ${#places[@]} -gt 0 ] || places=(umlauts+nohome+user locale+readonly+load fresh+umlauts)

root=$(mktemp -d "${TMPDIR:-/tmp}/odd_places.XXXXXX")
chmod 755 "$root"
busy=()
leave() {
    [ ${#busy[@]} -eq 0 ] || kill "${busy[@]}" 2> /dev/null || true
    chmod -R u+w "$root" && rm -rf "$root"
}
trap leave EXIT

core=$(.venv/bin/python -c "import bomkl._core; print(bomkl._core.__file__)")
packages=$(.venv/bin/python -c "import sys; print(*(p for p in sys.path if p.endswith('site-packages')), sep='\n')")

ordinary=()
if [ "$(id -u)" = 0 ]; then # root could write to what is read-only, and read what it must not
    ordinary=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi

# The interpreter of .venv, or one of the same version if others may not run it, as in the home of root
version=$(.venv/bin/python -c "import sys; print(sys.version_info[:2])")
for python in "$(readlink -f .venv/bin/python)" /usr/bin/python3; do
    found=$("${ordinary[@]}" sh -c '"$0" -c "import sys; print(sys.version_info[:2])"' "$python" 2> /dev/null || true)
    [ "$found" != "$version" ] || break
done

copy_sources() {
    mkdir -p "$1"
    git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --target-directory="$1"
}

share_packages() { # the virtual environment of a copy
    "$python" -m venv --without-pip "$1/.venv"
    printf '%s\n' "$1/src" "$1/lab" "$packages" > "$(echo "$1"/.venv/lib/python*/site-packages)/odd_place.pth"
    cp "$core" "$1/src/bomkl/"
    for name in pytest bomkl; do
        printf '#!/bin/sh\nexec "$(dirname "$0")/python" -P -m %s "$@"\n' $name > "$1/.venv/bin/$name"
        chmod +x "$1/.venv/bin/$name"
    done
    [ ! -f .venv/bin/nats-server ] || cp .venv/bin/nats-server "$1/.venv/bin/"
    touch "$1/.venv/.installed"
}

failed=()
for place in "${places[@]}"; do
    is() { [[ "+$place+" == *"+$1+"* ]]; }
    home="$root/home of $place" folder=$root/$place/bomkl run=(env)
    if is umlauts; then folder="$root/$place/Übungen für später & 100 % (Köln)"; fi
    mkdir "$home"
    copy_sources "$folder"
    is fresh || share_packages "$folder"
    if is readonly || is user; then
        owned=("$home")
        if is user; then owned+=("$folder"); fi
        if [ "$(id -u)" = 0 ]; then chown -R 65534:65534 "${owned[@]}"; fi
        run=("${ordinary[@]}" env)
    fi
    if is readonly; then chmod -R a-w "$folder"; fi
    if is nohome; then run+=(--unset=HOME --unset=XDG_CACHE_HOME --unset=XDG_CONFIG_HOME); else run+=("HOME=$home"); fi
    if is locale; then run+=(TZ=NPT-5:45 LC_ALL=POSIX PYTHONCOERCECLOCALE=0 PYTHONUTF8=0); fi # texts are ASCII
    if is load; then for _ in {1..20}; do (while :; do :; done) & busy+=($!); done; fi
    echo "== $place: ${run[*]} in $folder"
    if (cd "$folder" && "${run[@]}" make demo test TESTS="$tests"); then
        echo "== $place: passed"
    else
        failed+=("$place")
        echo "== $place: FAILED"
    fi
    [ ${#busy[@]} -eq 0 ] || kill "${busy[@]}"
    busy=()
done
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
