// Opens the library that reads and writes Parquet, when it is first needed.
#pragma once

#include <filesystem>
#include <string_view>

namespace accelerate::detail {

/// Returns the function `name` of libaccelerate_parquet.so, after opening this library. The library
/// is built from readers/parquet_read_plugin.cpp and writers/parquet_write_plugin.cpp. Throws ConfigError in a
/// build without Arrow: "'<parquet>' is Parquet, and this build cannot <verb> it".
[[nodiscard]] void* parquet_function(const char* name, std::string_view verb,
                                     const std::filesystem::path& parquet);

}  // namespace accelerate::detail
