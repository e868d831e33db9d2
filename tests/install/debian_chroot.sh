#!/usr/bin/env bash
# The Debian packages of a build in a Debian of their own: lintian finds no error, apt-get installs them, a new project is built, trained by two
# ranks and tested, and when they are purged nothing is left. Prints the seconds that each step took.
#
# usage: debian_chroot.sh BUILD [RELEASE]     RELEASE: trixie, noble, …: scripts/package makes the packages in a copy of that
#                                             distribution, since packages are for the libraries of the distribution that made them;
#                                             then BUILD says which LibTorch. Without RELEASE they are made of BUILD.
#                                             Exits with 77, and says why, where it cannot run
set -euo pipefail

. "$(dirname "$0")/chroot.sh"
need lintian dh
build=$(realpath "$1")
release=${2:-}
torch=$(sed -n 's/^LibTorch_ROOT_DIR:PATH=//p' "$build/CMakeCache.txt")
readonly tree=/root/tree_of_the_builder # A name that no package may hold.

# The tools that scripts/setup takes from pip, for the release's Python.
download_tools() {
  local tools
  tools=$(sed -n 's/^readonly package_tools=(\(.*\))$/\1/p' "$source/scripts/setup")
  # shellcheck disable=SC2086
  "$source/.venv/bin/pip" download --python-version "$(inside "python3 -c 'import platform; print(platform.python_version())'")" \
    --only-binary=:all: --dest "$root/wheels" $tools
}
# Makes the packages in a copy of the release. What this machine's ccache knows of it is not compiled again.
package_in_a_copy() {
  local root=$builder cache
  cache=$(ccache --get-config cache_dir 2>/dev/null || echo "$folder/ccache")
  mkdir -p "$cache" "$root"/{opt/python,root/.cache/ccache,"$tree"}
  mount_system
  mount --bind -o ro "$(dirname "$torch")" "$root/opt/python" # With pyarrow beside LibTorch, Parquet is read.
  mount --bind "$cache" "$root/root/.cache/ccache"
  tar -C "$source" --exclude=./build --exclude='./.venv*' --exclude=./.cache --exclude=./.git -c . | tar -C "$root$tree" -x
  timed "install Python" inside "apt-get install --yes --no-install-recommends python3-venv"
  timed "download with pip" download_tools
  timed "scripts/package deb" inside "cd $tree && export PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels TORCH_INSTALL_PREFIX=/opt/python/torch &&
    scripts/package deb --output /packages"
  cp -r "$root/packages" "$folder/packages"
}
check_paths() { # No package names the folders where it was made.
  local package
  for package in "$folder"/packages/*.deb; do
    dpkg-deb -x "$package" "$folder/unpacked"
  done
  ! grep -rlF -e "$tree" -e /opt/python "$folder/unpacked"
}

if [[ -n $release ]]; then
  make_debian "$release"
  cp -a --one-file-system "$root" "$builder"
  package_in_a_copy
  timed "look for folders in them" check_paths
else
  timed "make the packages" "$source/.venv/bin/python" "$source/tools/make_deb.py" "$build" "$folder/packages"
fi
timed "lintian" lintian --allow-root --fail-on error "$folder"/packages/*.deb

[[ -n $release ]] || make_debian
mkdir -p "$root/opt/torch"
mount --bind -o ro "$torch" "$root/opt/torch"
cp -r "$folder/packages" "$root/packages"

timed "install the packages" inside "apt-get install --yes --no-install-recommends /packages/*.deb"
said "no LibTorch is set up"
timed "install a compiler, CMake" inside "apt-get install --yes --no-install-recommends g++ cmake make"
timed "set up LibTorch" inside "accelerate-cpp setup --torch /opt/torch"
timed "build the first program" inside "cd && accelerate-cpp init demo && cd demo && cmake -B build && cmake --build build"
timed "train it on two ranks" inside "cd ~/demo && accelerate-cpp launch --config_file accelerate.yaml --num_processes 2 build/train --epochs 30"
said "test accuracy: (0\.9|1\.0)"
timed "accelerate-cpp test" inside "cd ~/demo && accelerate-cpp test --config_file accelerate.yaml"
timed "build one with the Trainer" inside "cd && accelerate-cpp init --template trainer rows && cd rows && cmake -B build && cmake --build build"
timed "train it on two ranks" inside "cd ~/rows && accelerate-cpp launch --config_file accelerate.yaml --num_processes 2 build/train"
said "eval_accuracy *= *(0\.[89]|1)"
timed "purge the packages" inside "apt-get purge --yes accelerate-cpp libaccelerate0 libaccelerate-dev"
left=$(inside "find /etc /usr /var /opt -xdev -iname '*accelerate*'")
[[ -z $left ]] || { echo "failed: this is left: $left" >&2; exit 1; }
