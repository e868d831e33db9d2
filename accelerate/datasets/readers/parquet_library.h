// The library that reads and writes Parquet, which is opened when it is first needed.
#pragma once

#include <filesystem>
#include <string_view>

namespace accelerate::detail {

/// Returns the function `name` of libaccelerate_parquet.so, and opens this library first. It is
/// built from readers/parquet_plugin.cpp and writers/parquet_plugin.cpp. Throws ConfigError
/// where there is no Arrow: "'<parquet>' is Parquet, and this build cannot <verb> it".
[[nodiscard]] void* parquet_function(const char* name, std::string_view verb,
                                     const std::filesystem::path& parquet);

}  // namespace accelerate::detail
