// Which LibTorch an installed package uses: the one that it was built for, in a folder of the user's.
#pragma once

#include <filesystem>
#include <string>

namespace accelerate::cli {

/// Returns the link that the Debian packages reach LibTorch through, in libraries and in CMake;
/// `accelerate-cpp setup` makes it. "" if this command does not come from them.
[[nodiscard]] std::filesystem::path libtorch_link();

/// Returns where this package looks for LibTorch: the link of the Debian packages, or in a Python
/// wheel the `torch` beside it. "" in a build folder, and for what was installed from source: its
/// programs know the LibTorch that they were built with.
[[nodiscard]] std::filesystem::path libtorch_place();

/// Returns whether the folder is an unpacked LibTorch, or the `torch` of a wheel.
[[nodiscard]] bool has_libtorch(const std::filesystem::path& folder);

/// Returns the version in a folder's headers, such as "2.13.0"; "" if there is none. Reads one small
/// file.
[[nodiscard]] std::string libtorch_version(const std::filesystem::path& folder);

/// Returns "2.13", the minor version that this command was built for; "" if it was built without
/// LibTorch.
[[nodiscard]] std::string wanted_libtorch();

/// Returns the sentence with the commands that set up LibTorch for the Debian packages.
[[nodiscard]] std::string libtorch_cure();

}  // namespace accelerate::cli
