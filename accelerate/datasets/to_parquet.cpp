#include "accelerate/datasets/dataset.h"
#include "accelerate/datasets/writers/parquet_writer.h"

namespace accelerate {

void Dataset::to_parquet(const std::filesystem::path& file) const {
  detail::write_parquet(*this, 0, size(), file);
}

}  // namespace accelerate
