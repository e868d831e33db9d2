# What the scripts share that install a package into a Debian of their own. Needs root and debootstrap: a script that cannot run exits with 77, and
# says why. Sets `source`, `folder`, which goes with the script, `root`, where the Debian is made, and `builder`, for a copy that builds packages.

skip() { echo "skipped: $*" >&2; exit 77; }
need() { # TOOL...
  [[ $EUID == 0 ]] || skip "a chroot needs root"
  for tool in "$@"; do
    command -v "$tool" >/dev/null || skip "$tool is missing"
  done
}
timed() { # NAME COMMAND: what the command writes is shown only if it fails.
  local began=$EPOCHREALTIME
  "${@:2}" >"$folder/log" 2>&1 </dev/null || { cat "$folder/log" >&2; echo "failed: $1" >&2; exit 1; }
  printf '%-28s %6.1f s\n' "$1" "$(awk "BEGIN { print $EPOCHREALTIME - $began }")"
}
inside() { # COMMAND. With /bin first, CMake looks below / before it looks below /usr.
  chroot "$root" env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive PATH=/bin:/sbin:/usr/bin:/usr/sbin bash -euc "$1"
}
said() { grep -qE "$1" "$folder/log" || { cat "$folder/log" >&2; echo "failed: '$1' was not said" >&2; exit 1; }; }
mount_system() {
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
}
make_debian() { # [RELEASE]: of Debian, or Ubuntu's noble; the machine's own if it is not named
  local release=${1:-$(. /etc/os-release && echo "$VERSION_CODENAME")} mirror
  mirror=$(apt-get indextargets --format '$(REPO_URI)' "Component: main" "Created-By: Packages" | grep '/debian/$' | head -n 1)
  if [[ $release == noble ]]; then # Debian has neither its script, which is that of all newer Ubuntus, nor its keys.
    timed "make an Ubuntu noble" debootstrap --no-check-gpg --variant=minbase --components=main,universe noble "$root" \
      http://archive.ubuntu.com/ubuntu /usr/share/debootstrap/scripts/gutsy
  else
    timed "make a Debian $release" debootstrap --variant=minbase "$release" "$root" "$mirror"
  fi
  mount_system
  cp /etc/resolv.conf "$root/etc/"
  timed "apt-get update" inside "apt-get update"
}

need debootstrap
[[ -n ${OWN_MOUNTS:-} ]] || OWN_MOUNTS=1 exec unshare --mount --propagation private "$0" "$@" # They go with the script.
source=$(realpath "$(dirname "$0")/../..")
folder=$(mktemp --directory)
root=$folder/root
builder=$folder/builder
trap 'umount --lazy "$folder"/{root,builder}/{proc,dev,opt/torch,opt/python,root/.cache/ccache} 2>/dev/null || true; rm -r --one-file-system "$folder"' EXIT
