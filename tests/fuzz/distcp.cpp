// A folder of .distcp files is refused with a CheckpointError, or all its tensors lie in its files.
// An input is the length of .metadata in four bytes, .metadata, and the content of every file.
#include <cstdlib>
#include <cstring>

#include "accelerate/formats/shards/sharded_state.h"
#include "tests/fuzz/in_memory.h"

namespace {

using namespace accelerate;

class Folder final : public FileSystem {
 public:
  Folder(std::string_view metadata, std::string_view data) : metadata_(metadata), data_(data) {}

  std::shared_ptr<const FileContent> map(const std::filesystem::path& path) override {
    return testing::OneFile(path.filename() == ".metadata" ? metadata_ : data_).map(path);
  }
  std::unique_ptr<WritableFile> create(const std::filesystem::path&) override { return {}; }
  std::string read(const std::filesystem::path&, std::size_t) override { return {}; }
  FileStatus status(const std::filesystem::path&) override { return {FileKind::file, 1}; }
  void rename(const std::filesystem::path&, const std::filesystem::path&) override {}
  void sync_directory(const std::filesystem::path&) override {}
  bool remove(const std::filesystem::path&) override { return false; }
  std::vector<std::string> list(const std::filesystem::path&) override { return {}; }
  void create_directories(const std::filesystem::path&) override {}

 private:
  std::string_view metadata_, data_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::uint32_t length = 0;
  if (size < sizeof(length)) return 0;
  std::memcpy(&length, data, sizeof(length));
  const auto rest = text.substr(sizeof(length));
  if (length > rest.size()) return 0;
  Folder files(rest.substr(0, length), rest.substr(length));
  try {
    const auto state = open_distcp("fuzzed", files);
    for (const auto& [name, saved] : state.values) (void)saved.value.describe();
    for (const auto& tensor : state.tensors.tensors()) {
      std::uint64_t seen = 0;
      ShardCatalogue::stream(tensor, [&](std::span<const std::byte> piece) {
        fuzz::read_all(piece);
        seen += piece.size();
      });
      if (seen != bytes_of(tensor.dtype, tensor.shape)) std::abort();
    }
  } catch (const CheckpointError&) {
  }
  return 0;
}
