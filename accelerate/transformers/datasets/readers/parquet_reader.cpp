// Reads Parquet through the plugin library (parquet_read_plugin.cpp), if it was built.
#include "accelerate/transformers/datasets/readers/chunk_reader.h"
#include "accelerate/transformers/datasets/readers/parquet_library.h"

namespace accelerate::detail {

std::unique_ptr<ChunkReader> read_parquet(const std::filesystem::path& file,
                                          const ReaderOptions& options) {
  using MakeReader = ChunkReader* (*)(const std::filesystem::path*, const ReaderOptions*);
  const auto make =
      reinterpret_cast<MakeReader>(parquet_function("accelerate_parquet_reader", "read", file));
  return std::unique_ptr<ChunkReader>(make(&file, &options));
}

}  // namespace accelerate::detail
