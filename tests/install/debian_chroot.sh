#!/usr/bin/env bash
# The Debian packages of a build in a Debian of their own: lintian finds no error, apt-get installs them, a new project is built, trained by two
# ranks and tested, and when they are purged nothing is left. Prints the seconds that each step took.
#
# usage: debian_chroot.sh BUILD      exits with 77, and says why, where it cannot run
set -euo pipefail

. "$(dirname "$0")/chroot.sh"
need lintian dh
build=$(realpath "$1")
torch=$(sed -n 's/^LibTorch_ROOT_DIR:PATH=//p' "$build/CMakeCache.txt")

timed "make the packages" "$source/.venv/bin/python" "$source/tools/make_deb.py" "$build" "$folder/packages"
timed "lintian" lintian --allow-root --fail-on error "$folder"/packages/*.deb

make_debian
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
