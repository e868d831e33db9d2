#!/usr/bin/env bash
# The Debian packages of a build in a Debian of their own: lintian finds no error, apt-get installs them, a new project is built, trained by two
# ranks and tested, and when they are purged nothing is left. Prints the seconds that each step took.
#
# usage: debian_chroot.sh BUILD      exits with 77, and says why, where it cannot run
set -euo pipefail

skip() { echo "skipped: $*" >&2; exit 77; }
[[ $EUID == 0 ]] || skip "a chroot needs root"
for tool in debootstrap lintian dh; do
  command -v "$tool" >/dev/null || skip "$tool is missing"
done
[[ -n ${OWN_MOUNTS:-} ]] || OWN_MOUNTS=1 exec unshare --mount --propagation private "$0" "$@" # They go with the script.

source=$(realpath "$(dirname "$0")/../..") build=$(realpath "$1")
torch=$(sed -n 's/^LibTorch_ROOT_DIR:PATH=//p' "$build/CMakeCache.txt")
folder=$(mktemp --directory)
trap 'umount --lazy "$folder"/root/{proc,dev,opt/torch} 2>/dev/null || true; rm -r --one-file-system "$folder"' EXIT
root=$folder/root

timed() { # NAME COMMAND: what the command writes is shown only if it fails.
  local began=$EPOCHREALTIME
  "${@:2}" >"$folder/log" 2>&1 </dev/null || { cat "$folder/log" >&2; echo "failed: $1" >&2; exit 1; }
  printf '%-28s %6.1f s\n' "$1" "$(awk "BEGIN { print $EPOCHREALTIME - $began }")"
}
inside() { # COMMAND. With /bin first, CMake looks below / before it looks below /usr.
  chroot "$root" env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive PATH=/bin:/sbin:/usr/bin:/usr/sbin bash -euc "$1"
}
said() { grep -qE "$1" "$folder/log" || { cat "$folder/log" >&2; echo "failed: '$1' was not said" >&2; exit 1; }; }

timed "make the packages" "$source/.venv/bin/python" "$source/tools/make_deb.py" "$build" "$folder/packages"
timed "lintian" lintian --allow-root --fail-on error "$folder"/packages/*.deb

release=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $release" "Component: main" "Created-By: Packages" | head -n 1)
timed "make a Debian" debootstrap --variant=minbase "$release" "$root" "$mirror"
mkdir -p "$root/opt/torch"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind -o ro "$torch" "$root/opt/torch"
cp /etc/resolv.conf "$root/etc/"
cp -r "$folder/packages" "$root/packages"

timed "apt-get update" inside "apt-get update"
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
