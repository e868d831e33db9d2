"""accelerate.cpp: libraries, headers, CMake package and the command `accelerate-cpp`. Nothing here trains in Python."""
import importlib.metadata
import pathlib

__version__ = importlib.metadata.version("accelerate-cpp")

#: The folder that holds bin/, include/, lib/ and share/.
prefix = pathlib.Path(__file__).resolve().parent
cmake_dir = prefix / "lib" / "cmake" / "Accelerate"
