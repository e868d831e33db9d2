#include "accelerate/formats/shards/value_archive.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "accelerate/base/checksum.h"
#include "accelerate/formats/torch_archive/pickle_writer.h"
#include "accelerate/formats/torch_archive/zip_layout.h"

namespace accelerate {

std::string value_archive(const std::string& operations) {
  const std::vector<std::pair<std::string, std::string>> entries = {
      {"archive/data.pkl", detail::pickling::pickle(operations)},
      {"archive/byteorder", "little"},
      {"archive/version", "3\n"}};
  std::vector<detail::ZipItem> items;
  for (const auto& [name, data] : entries) items.push_back({name, data.size()});
  const detail::ZipLayout layout(std::move(items));
  std::string bytes;
  std::vector<std::uint32_t> crcs;
  for (const auto& [name, data] : entries) {
    const std::size_t item = crcs.size();
    crcs.push_back(crc32(data));
    bytes += layout.header(item) + data + layout.trailer(item, crcs.back());
  }
  return bytes + layout.directory(crcs);
}

}  // namespace accelerate
