"""Compiles the engine against the torch of this environment: pip install --no-build-isolation FILE"""
import importlib.metadata
import importlib.util
import os
import pathlib
import platform
import re
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ALL = ["-std=c++20", "-fPIC", "-fvisibility=hidden", "-DNDEBUG", "-pthread"]
# As accelerate/CMakeLists.txt: the loops are compiled once for each instruction set and chosen at run time.
LOOPS = ["-O3", "-ffp-contract=off", "-fno-trapping-math"]
AVX2 = ["-mavx2", "-mf16c"]
SETS = {"baseline": [], "avx2": AVX2, "avx512": [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq"]}


def fail(sentence):
    sys.exit(f"accelerate-cpp-torch: {sentence}")


def torch_folder():
    spec = importlib.util.find_spec("torch")
    if spec is None:
        fail("torch is missing. Install it first, then this with `pip install --no-build-isolation`, so that pip compiles against it.")
    return pathlib.Path(spec.origin).parent


def torch_minor():
    """Such as 2.13: a compiled engine fits one minor version."""
    torch_folder()
    return re.match(r"\d+\.\d+", importlib.metadata.version("torch")).group()


def compiler():
    command = os.environ.get("CXX", "g++")
    try:
        version = subprocess.run([*command.split(), "-dumpversion"], check=True, text=True, capture_output=True).stdout.strip()
    except (FileNotFoundError, subprocess.CalledProcessError):
        fail(f"the compiler `{command}` is missing. Install g++ 12 or newer, or name another in the variable CXX.")
    if int(version.split(".")[0]) < 12:
        fail(f"`{command}` is version {version}. Install g++ 12 or newer, or name it in the variable CXX, such as CXX=g++-12.")
    return command.split()


class Build(build_ext):
    def build_extension(self, ext):
        target = pathlib.Path(self.get_ext_fullpath(ext.name)).resolve()
        for folder in (target.parent, pathlib.Path(self.build_temp)):
            folder.mkdir(parents=True, exist_ok=True)
        self.torch, self.command = torch_folder(), compiler()
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            objects = list(pool.map(lambda unit: self.compiled(*unit), self.units()))
        libraries = [f"-L{self.torch / 'lib'}", "-lc10", "-ltorch_cpu", "-ltorch_python"]
        self.run_compiler("-shared", "-pthread", *objects, *libraries, "-o", target)
        (target.parent / "_built_for.py").write_text(f'TORCH = "{torch_minor()}"\n')

    # Paths are relative, so that a compiler cache knows the sources again in another folder.
    def units(self):
        """Yields (source, flags), the longest compilation first. The sources of a folder are compiled together."""
        folders = {}
        for source in sorted(pathlib.Path("accelerate").rglob("*.cpp")):
            if not source.name.startswith("kernels_"):
                folders.setdefault(source.parent, []).append(source)
        for folder in sorted(folders, key=lambda folder: -len(folders[folder])):
            together = pathlib.Path(self.build_temp) / ("_".join(folder.parts) + ".cpp")
            together.write_text("".join(f'#include "{source}"\n' for source in folders[folder]))
            yield together, ["-O2"]
        yield pathlib.Path("python_backend.cpp"), ["-O2"]
        for name, flags in SETS.items():
            if not flags or platform.machine() == "x86_64":
                yield pathlib.Path(f"accelerate/comm/shared_memory/kernels_{name}.cpp"), [*LOOPS, *flags]

    def compiled(self, source, flags):
        target = pathlib.Path(self.build_temp) / f"{source.stem}.o"
        includes = [self.torch / "include", self.torch / "include/torch/csrc/api/include", sysconfig.get_path("include")]
        systems = [word for include in includes for word in ("-isystem", include)]
        self.run_compiler(*ALL, *flags, "-I.", *systems, "-c", source, "-o", target)
        return target

    def run_compiler(self, *words):
        words = [*self.command, *map(str, words)]
        done = subprocess.run(words, text=True, capture_output=True)
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            fail(f"`{' '.join(words)}` failed. torch 2.11 to 2.15 are supported; this is torch {torch_minor()}.")


if sys.platform != "linux":
    fail(f"the engine shares memory as Linux does, and this is {sys.platform}. Use the backend gloo.")
setup(
    version=pathlib.Path("VERSION").read_text().strip(),
    packages=["accelerate_cpp_torch"],
    py_modules=["accelerate_cpp_torch_autoload"],
    ext_modules=[Extension("accelerate_cpp_torch._engine", sources=[])],
    cmdclass={"build_ext": Build},
    install_requires=[f"torch=={torch_minor()}.*"],
)
