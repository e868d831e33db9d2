#!/usr/bin/env bash
# The wheel of a build in a Debian of its own, which has g++ and Python's venv: pip installs it with LibTorch, CMake and Ninja, a new project is built,
# trained by two ranks and tested. Prints the seconds that each step took. Downloads are a step of their own.
#
# usage: wheel_chroot.sh BUILD [RELEASE]      RELEASE: bookworm, trixie, noble, …; the machine's own by default.
#                                             Exits with 77, and says why, where it cannot run
set -euo pipefail
. "$(dirname "$0")/chroot.sh"

timed "make the wheel" "$source/.venv/bin/python" "$source/tools/make_wheel.py" "$(realpath "$1")" "$folder/wheels"
make_debian "${2:-}"
timed "install g++ and Python" inside "apt-get install --yes --no-install-recommends g++ python3-venv"
timed "download with pip" "$source/.venv/bin/pip" download --python-version "$(inside "python3 -c 'import platform; print(platform.python_version())'")" \
  --only-binary=:all: --dest "$folder/wheels" "$folder"/wheels/accelerate_cpp-*.whl cmake ninja
cp -r "$folder/wheels" "$root/wheels"
in_env='. ~/env/bin/activate && cd &&'
timed "install the wheel, LibTorch" inside "python3 -m venv ~/env && ~/env/bin/pip install --no-index --find-links /wheels accelerate-cpp cmake ninja"
timed "build the first program" inside "$in_env accelerate-cpp init demo && cd demo && cmake -G Ninja -B build -DCMAKE_PREFIX_PATH=\$(python -m accelerate_cpp --prefix) && cmake --build build"
timed "train it on two ranks" inside "$in_env cd demo && accelerate-cpp launch --config_file accelerate.yaml --num_processes 2 build/train --epochs 30"
said "test accuracy: (0\.9|1\.0)"
timed "accelerate-cpp test" inside "$in_env cd demo && accelerate-cpp test --config_file accelerate.yaml"
timed "build one with the Trainer" inside "$in_env accelerate-cpp init --template trainer rows && cd rows && cmake -G Ninja -B build -DCMAKE_PREFIX_PATH=\$(python -m accelerate_cpp --prefix) && cmake --build build"
timed "train it on two ranks" inside "$in_env cd rows && accelerate-cpp launch --config_file accelerate.yaml --num_processes 2 build/train"
said "eval_accuracy *= *(0\.[89]|1)"
