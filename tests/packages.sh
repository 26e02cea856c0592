#!/usr/bin/env bash
# Makes the Debian packages of the build at $1, unpacks them, and runs what is in them. $2: the compiler. Skipped (77) where there is no dpkg, and of a
# build with sanitizers.
set -euo pipefail
if ! command -v dpkg-deb >/dev/null || ! command -v dpkg-shlibdeps >/dev/null || grep -q '^COLONNADE_SANITIZE:STRING=.' "$1/CMakeCache.txt"; then
  echo "skipped: no dpkg, or a build with sanitizers"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "$1"; exit 1; }
# As by a user whose new files are for nobody else.
(umask 077 && cd "$1" && cpack -G DEB -B "$folder") >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
packages=(colonnade libcolonnade-dev)
if grep -q '^set(CPACK_COMPONENTS_ALL .*cuda' "$1/CPackConfig.cmake"; then packages+=(colonnade-cuda); fi
for package in "${packages[@]}"; do
  file=$(echo "$folder/${package}"_*.deb)
  [ -f "$file" ] || fail "expected a package $package"
  dpkg-deb -x "$file" "$folder/root"
  closed=$(dpkg-deb -c "$file" | grep -vE '^(drwxr-xr-x|-rw-r--r--|-rwxr-xr-x) ') || true
  [ -z "$closed" ] || fail "$package: expected what all may read and its owner alone may write, found $closed"
  [ -s "$folder/root/usr/share/doc/$package/copyright" ] || fail "$package has no copyright"
  if command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error,warning "$file" || fail "lintian has found something in $package"
  fi
done
depends=$(dpkg-deb -f "$folder"/colonnade_*.deb Depends)
for library in libdnnl libabsl libc6 libgomp1; do
  [[ $depends == *$library* ]] || fail "colonnade does not depend on $library: $depends"
done
dpkg-deb -c "$folder"/colonnade_*.deb | grep "/docs/data.md$" >/dev/null || fail "colonnade lacks the pages of docs/, which its README names"
[ "$("$folder/root/usr/bin/colonnade" --version)" = "$("$1/colonnade" --version)" ] || fail "the packaged command is of another version"
for file in man/man1/colonnade-train.1.gz bash-completion/completions/colonnade colonnade/machines/titan-2013.json; do
  [ -s "$folder/root/usr/share/$file" ] || fail "colonnade lacks share/$file"
done
# The folder of images that the tutorial trains on.
if command -v cjpeg >/dev/null; then
  bash "$folder/root/usr/share/doc/colonnade/docs/digit_images.sh" "$folder/photos" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
  [ "$(find "$folder/photos/train" -name '*.jpg' | wc -l)" -gt 1000 ] || fail "digit_images.sh of the package writes too few images"
fi
# An example, by the CMake package.
cmake -S "$folder/root/usr/share/doc/colonnade/examples/plan_without_training" -B "$folder/build" -G Ninja \
  -DCMAKE_CXX_COMPILER="$2" -DCMAKE_PREFIX_PATH="$folder/root/usr" >"$folder/log" || { cat "$folder/log"; exit 1; }
cmake --build "$folder/build" >"$folder/log" || { cat "$folder/log"; exit 1; }
"$folder/build/plan_without_training" >/dev/null
echo "the packages hold what runs"
