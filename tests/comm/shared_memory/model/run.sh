#!/usr/bin/env bash
# Checks rounds.pml and messages.pml by exhaustion, and that the check can fail: without the count of
# sleepers a waiter is lost, without the wait for a free slot data is overwritten; a post that its
# sender clears is read while it changes, one look through the posts takes messages out of order.
# Needs spin and a C compiler. --extended: more ranks, messages.
set -euo pipefail
command -v spin >/dev/null || { echo "there is no spin (scripts/setup installs it)"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

check() { # check <model> <definitions…>: prints spin's number of errors
  local model=$1
  shift
  rm -f pan pan.* *.trail
  spin -a "$@" "$here/$model.pml" >/dev/null
  "${CC:-cc}" -O2 -DSAFETY -DCOLLAPSE -DVECTORSZ=2048 -o pan pan.c 2>/dev/null
  ./pan -m2000000 >pan.out
  if grep -q "max search depth too small\|out of memory" pan.out; then
    cat pan.out >&2
    exit 2
  fi
  sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.out
}
expect() { # expect <holds|fails> <model> <definitions…>
  local wanted=$1 errors
  shift
  errors=$(check "$@")
  echo "$* : $errors errors, $(sed -n 's/ *\([0-9.e+]*\) states, stored.*/\1/p' pan.out) states"
  [[ $wanted == holds && $errors == 0 || $wanted == fails && $errors != 0 ]] || exit 1
}

expect holds rounds -DRANKS=2 -DSLOTS=2 -DROUNDS=4
expect holds rounds -DRANKS=2 -DSLOTS=3 -DROUNDS=5
if [[ ${1:-} == --extended ]]; then
  expect holds rounds -DRANKS=3 -DSLOTS=2 -DROUNDS=3
  expect holds messages -DMESSAGES=3
fi
expect fails rounds -DRANKS=2 -DSLOTS=2 -DROUNDS=4 -DWITHOUT_SLEEPERS
expect fails rounds -DRANKS=2 -DSLOTS=2 -DROUNDS=4 -DWITHOUT_DRAINING
expect holds messages -DMESSAGES=2
expect fails messages -DMESSAGES=2 -DSENDER_CLEARS
expect fails messages -DMESSAGES=2 -DSCANS_ONCE
echo "the protocol holds"
