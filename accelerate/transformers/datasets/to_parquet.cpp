#include "accelerate/transformers/datasets/dataset.h"
#include "accelerate/transformers/datasets/writers/parquet_writer.h"

namespace accelerate {

void Dataset::to_parquet(const std::filesystem::path& file) const {
  detail::write_parquet(*this, 0, size(), file);
}

}  // namespace accelerate
