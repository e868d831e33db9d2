#include "accelerate/formats/shards/distcp_writer.h"

#include <functional>
#include <span>
#include <utility>

#include "accelerate/base/bytes.h"
#include "accelerate/base/checksum.h"
#include "accelerate/base/error.h"
#include "accelerate/formats/safetensors/safetensors_header.h"
#include "accelerate/formats/shards/value_archive.h"
#include "accelerate/formats/torch_archive/pickle_writer.h"
#include "accelerate/formats/torch_archive/zip_layout.h"

namespace accelerate {
namespace {

using namespace detail::pickling;
using Path = std::filesystem::path;

constexpr const char* kFileName = "__0_0.distcp";

std::string class_of_metadata(const char* name) {
  return std::string("torch.distributed.checkpoint.metadata.") + name;
}

std::string name_of(const DistcpPath& path) {
  std::string name;
  for (const auto& step : path) {
    if (!name.empty()) name += '.';
    const auto* key = std::get_if<std::string>(&step);
    name += key != nullptr ? *key : std::to_string(std::get<std::int64_t>(step));
  }
  return name;
}

std::string pickled(const DistcpPath& path) {
  std::string steps;
  for (const auto& step : path) {
    const auto* key = std::get_if<std::string>(&step);
    steps += key != nullptr ? text(*key) : integer(std::get<std::int64_t>(step));
  }
  return tuple(steps);
}

// The table's row of a tensor: its properties, and the one chunk that is all of it.
std::string tensor_row(const TensorSpec& spec) {
  const std::string properties = object(
      class_of_metadata("TensorProperties"),
      tuple(torch_dtype(spec) +
            call("torch.serialization._get_layout", tuple(text("torch.strided"))) + boolean(false) +
            call(class_of_metadata("_MEM_FORMAT_ENCODING"), tuple(integer(0))) + boolean(false)));
  const std::vector<std::int64_t> zeros(spec.shape.size(), 0);
  const std::string chunk =
      object(class_of_metadata("ChunkStorageMetadata"),
             dict(text("offsets") + torch_size(zeros) + text("sizes") + torch_size(spec.shape)));
  return object(class_of_metadata("TensorStorageMetadata"),
                dict(text("properties") + properties + text("size") + torch_size(spec.shape) +
                     text("chunks") + list(chunk)));
}

// The table's key of a place.
std::string index_of(const std::string& name, const std::string& offset) {
  return object(class_of_metadata("MetadataIndex"),
                dict(text("fqn") + text(name) + text("offset") + offset + text("index") +
                     (offset == none() ? none() : integer(0))));
}

}  // namespace

struct DistcpWriter::State {
  State(FileSystem& file_system, Path where) : files(file_system), folder(std::move(where)) {
    saying([&] { file = files.create(folder / kFileName); });
  }

  void saying(const std::function<void()>& step) const {
    try {
      step();
    } catch (const FileError&) {
      throw_with_context<CheckpointError>("cannot write the checkpoint " + folder.string());
    }
  }

  void write(std::string_view bytes) {
    saying([&] { file->write(bytes); });
    written += bytes.size();
  }

  // Writes an entry of an archive whose bytes come from `source`.
  void write_entry(const detail::ZipLayout& layout, std::vector<std::uint32_t>& crcs,
                   const ByteSource& source) {
    const std::size_t item = crcs.size();
    write(layout.header(item));
    std::uint32_t crc = 0;
    std::uint64_t size = 0;
    source([&](std::span<const std::byte> piece) {
      const std::string_view bytes = detail::byte_text(piece);
      crc = crc32(bytes, crc);
      size += bytes.size();
      write(bytes);
    });
    if (size != layout.items()[item].size_bytes)
      throw UsageError("a tensor of " + std::to_string(layout.items()[item].size_bytes) +
                       " bytes was given " + std::to_string(size));
    write(layout.trailer(item, crc));
    crcs.push_back(crc);
  }

  // Writes an archive of torch.save that holds one tensor.
  void write_tensor(const TensorSpec& spec, const ByteSource& source) {
    const auto given = [](const std::string& bytes) {
      return [&bytes](const ByteSink& sink) { sink(std::as_bytes(std::span(bytes))); };
    };
    const std::string data = pickle(tensor(spec, 0)), order = "little", version = "3\n";
    const detail::ZipLayout layout({{"archive/data.pkl", data.size()},
                                    {"archive/byteorder", order.size()},
                                    {"archive/data/0", bytes_of(spec.dtype, spec.shape).value()},
                                    {"archive/version", version.size()}});
    std::vector<std::uint32_t> crcs;
    write_entry(layout, crcs, given(data));
    write_entry(layout, crcs, given(order));
    write_entry(layout, crcs, source);
    write_entry(layout, crcs, given(version));
    write(layout.directory(crcs));
  }

  // Adds what was written since `begin` to the tables.
  void note(const DistcpPath& path, const std::string& offset, const std::string& row,
            std::uint64_t begin) {
    const std::string name = name_of(path);
    rows += text(name) + row;
    planned += text(name) + pickled(path);
    places += index_of(name, offset) +
              object("torch.distributed.checkpoint.filesystem._StorageInfo",
                     dict(text("relative_path") + text(kFileName) + text("offset") +
                          integer(static_cast<std::int64_t>(begin)) + text("length") +
                          integer(static_cast<std::int64_t>(written - begin))));
  }

  [[nodiscard]] std::string metadata() const {
    return pickle(object(class_of_metadata("Metadata"),
                         dict(text("state_dict_metadata") + dict(rows) + text("planner_data") +
                              dict(planned) + text("storage_data") + dict(places) +
                              text("storage_meta") + none() + text("version") + text("1.0.0"))));
  }

  FileSystem& files;
  Path folder;
  std::unique_ptr<WritableFile> file;
  std::uint64_t written = 0;
  std::string rows, planned, places;  // Entries of the tables.
};

DistcpWriter::DistcpWriter(FileSystem& files, Path folder)
    : state_(std::make_unique<State>(files, std::move(folder))) {}

DistcpWriter::~DistcpWriter() = default;

void DistcpWriter::add_tensor(const DistcpPath& path, TensorSpec spec, const ByteSource& source) {
  spec.name = name_of(path);
  const std::uint64_t begin = state_->written;
  state_->write_tensor(spec, source);
  const std::vector<std::int64_t> zeros(spec.shape.size(), 0);
  state_->note(path, torch_size(zeros), tensor_row(spec), begin);
}

void DistcpWriter::add_value(const DistcpPath& path, const std::string& operations) {
  const std::uint64_t begin = state_->written;
  state_->write(value_archive(operations));
  state_->note(path, none(), object(class_of_metadata("BytesStorageMetadata"), dict("")), begin);
}

void DistcpWriter::finish() {
  state_->saying([this] {
    state_->file->sync();
    state_->file->close();
    write_file_atomically(state_->files, state_->folder / ".metadata", state_->metadata());
  });
}

}  // namespace accelerate
