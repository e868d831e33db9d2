"""What a table was measured on and with."""
import datetime
import os
import pathlib
import platform
import subprocess

from harness import BenchmarkError, run

PINNED = {"torch": "2.13.0", "accelerate": "1.15.0"}
ALSO_PINNED = {"tokenizers": "0.23.3", "transformers": "5.23.0", "datasets": "5.2.0"}  # For the suites that name them.
ASK = "import importlib.metadata as m, sys; print(sys.version.split()[0], *map(m.version, sys.argv[1:]))"


def original_versions(venv, packages=(), any_torch=False):
    """Versions of Python and of the originals in `venv`, `packages` among them. Throws BenchmarkError unless they are the
    pinned ones; torch and `packages` may be others with `any_torch`."""
    pinned = PINNED | {name: ALSO_PINNED[name] for name in packages}
    cure = "scripts/setup installs the originals there."
    if "datasets" in packages:
        cure = cure[:-1] + ", `pip install -r benchmarks/requirements.txt` datasets."
    python = venv / "bin" / "python"
    if not python.exists():
        raise BenchmarkError(f"There is no {python}, so there is nothing to compare with; {cure}")
    asked = subprocess.run([python, "-c", ASK, *pinned], capture_output=True, text=True, timeout=60, check=False)
    if asked.returncode != 0:
        raise BenchmarkError(f"{python} does not know {' and '.join(pinned)}; {cure}")
    version, *found = asked.stdout.split()
    for (name, wanted), has in zip(pinned.items(), found):
        if has.split("+")[0] != wanted and not (any_torch and name in ("torch", *packages)):
            raise BenchmarkError(f"{venv} has {name} {has}, but the tables compare with {wanted}; {cure}")
    return dict(zip(pinned, found)) | {"Python": version}


def check_package(venv, name):
    """Throws BenchmarkError unless the Python of `venv` has the package."""
    asked = subprocess.run([venv / "bin" / "python", "-c", f"import {name}"], capture_output=True, timeout=60,
                           check=False)
    if asked.returncode != 0:
        raise BenchmarkError(f"{venv} has no {name}, which draws the plot: `{venv}/bin/python -m pip install -r "
                             "benchmarks/requirements.txt`, or --quick, which draws none.")


def check_build(setting, programs, launches=True):
    """Throws BenchmarkError when our side has not been built, the launcher included where the suite `launches`."""
    for file in [*([setting.accelerate] if launches else []), *map(setting.program, programs)]:
        if not os.access(file, os.X_OK):
            raise BenchmarkError(f"{file} is missing: build it with `cmake --workflow --preset release`, or name "
                                 "another build folder, with ACCELERATE_BUILD_BENCHMARKS=ON, by --build.")


def cpu():
    """Name, vendor and family of the first processor: the table of who multiplies matrices goes by them."""
    found = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition(":")
        found.setdefault(key.strip(), value.strip())
    name = found.get("model name", platform.machine())
    return name + (f" ({found['vendor_id']}, family {found['cpu family']})" if "vendor_id" in found and "cpu family" in found else "")


def matrix_library(setting):
    """Which library multiplies fp32 matrices in our programs, as `accelerate env` says; empty without that program."""
    try:
        lines = run(setting, [setting.accelerate, "env"]).output.splitlines()
    except (BenchmarkError, OSError):
        lines = []
    return next((line.rpartition(": ")[2] for line in lines if "Products of fp32 matrices" in line), "")


def memory_gib():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def commit():
    folder = pathlib.Path(__file__).resolve().parent
    noted = folder.parent / ".commit"  # In a bundle of tools/gpu_check.
    if noted.exists():
        return noted.read_text(encoding="utf-8").strip()
    try:
        asked = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=folder, capture_output=True, text=True,
                               check=False)
    except OSError:
        return "not a checkout"
    return asked.stdout.strip() or "not a checkout"


def build_type(build):
    """As CMake noted it, e.g. Release."""
    try:
        cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    except OSError:
        return "unknown"
    return next((line.split("=", 1)[1] for line in cache.splitlines() if line.startswith("CMAKE_BUILD_TYPE:")),
                "unknown")


def facts(setting, versions, command):
    """(name, value) pairs for the head of a page; to be asked for before the first run, for the load."""
    library = matrix_library(setting)
    return [
        ("command", f"`{command}`, {setting.rounds} round{'s' if setting.rounds > 1 else ''}"),
        ("date", datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")),
        ("machine", f"{cpu()}, {len(os.sched_getaffinity(0))} cores, {memory_gib():.1f} GiB; "
                    f"load before the run: {os.getloadavg()[0]:.2f}"),
        *([("products of fp32 matrices", f"ours by {library}, theirs as LibTorch chooses (MKL on x86)")] if library else []),
        ("system", f"Linux {platform.release()}, {' '.join(platform.libc_ver())}"),
        ("ours", f"commit {commit()}, {build_type(setting.build)} build"),
        ("theirs", ", ".join(f"{name} {version}" for name, version in versions.items())),
    ]
