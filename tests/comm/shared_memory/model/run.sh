#!/usr/bin/env bash
# Checks rounds.pml by exhaustion, and that the check can fail: without the count of sleepers a
# waiter is lost, without the wait for a free slot data is overwritten. Needs spin and a C compiler.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

check() { # check <definitions…>: prints spin's number of errors
  rm -f pan pan.* *.trail
  spin -a "$@" "$here/rounds.pml" >/dev/null
  "${CC:-cc}" -O2 -DSAFETY -DCOLLAPSE -DVECTORSZ=2048 -o pan pan.c 2>/dev/null
  ./pan -m2000000 >pan.out
  if grep -q "max search depth too small\|out of memory" pan.out; then
    cat pan.out >&2
    exit 2
  fi
  sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.out
}
expect() { # expect <holds|fails> <definitions…>
  local wanted=$1 errors
  shift
  errors=$(check "$@")
  echo "$* : $errors errors, $(sed -n 's/ *\([0-9.e+]*\) states, stored.*/\1/p' pan.out) states"
  [[ $wanted == holds && $errors == 0 || $wanted == fails && $errors != 0 ]] || exit 1
}

expect holds -DRANKS=2 -DSLOTS=2 -DROUNDS=4
expect holds -DRANKS=2 -DSLOTS=3 -DROUNDS=5
if [[ ${1:-} == --extended ]]; then
  expect holds -DRANKS=3 -DSLOTS=2 -DROUNDS=3
fi
expect fails -DRANKS=2 -DSLOTS=2 -DROUNDS=4 -DWITHOUT_SLEEPERS
expect fails -DRANKS=2 -DSLOTS=2 -DROUNDS=4 -DWITHOUT_DRAINING
echo "the protocol holds"
