"""Conan 2: builds this tree with a given LibTorch and the system's libraries, those that scripts/setup --without-tests installs.

    conan create packaging/conan -o "accelerate-cpp/*:torch=DIR"      # DIR: an unpacked LibTorch, or the `torch` folder of a wheel

find_package(Accelerate) then finds it through Conan's CMakeToolchain.
"""
import pathlib
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class AccelerateCpp(ConanFile):
    name = "accelerate-cpp"
    description = "Hugging Face Accelerate as native C++ on LibTorch"
    license = "Apache-2.0"
    package_type = "shared-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"torch": ["ANY"]}
    default_options = {"torch": ""}

    @property
    def _tree(self):
        return pathlib.Path(self.recipe_folder).parent.parent

    def set_version(self):
        self.version = re.search(r"project\(Accelerate VERSION (\S+)", load(self, self._tree / "CMakeLists.txt")).group(1)

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "*.md", "LICENSE", "NOTICE", "accelerate/*", "cli/*", "cmake/*", "docs/*", "examples/*"):
            copy(self, pattern, self._tree, self.export_sources_folder)

    def validate(self):
        if not pathlib.Path(str(self.options.torch), "lib", "libtorch.so").exists():
            raise ConanInvalidConfiguration(f"there is no LibTorch in '{self.options.torch}'. The option `torch` names an unpacked LibTorch, "
                                            "or the `torch` folder of a wheel")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self, generator="Ninja")
        toolchain.cache_variables.update(TORCH_INSTALL_PREFIX=str(self.options.torch), ACCELERATE_BUILD_TESTS="OFF",
                                         ACCELERATE_BUILD_EXAMPLES="OFF", ACCELERATE_CUDA="OFF")
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")  # It brings its own AccelerateConfig.cmake.
        self.cpp_info.builddirs = ["lib/cmake/Accelerate"]
