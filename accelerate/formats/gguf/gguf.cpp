#include "accelerate/formats/gguf/gguf.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>
#include <utility>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/base/utf8.h"

namespace accelerate {
namespace {

// The numbers of the metadata types.
enum Type : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

constexpr std::uint64_t kDefaultAlignment = 32, kMostAlignment = 1U << 20U;
constexpr std::uint32_t kMostDimensions = 4;  // GGML_MAX_DIMS
constexpr int kMostNesting = 4;

[[noreturn]] void refuse(const std::string& what) {
  throw CheckpointError(what);
}

// Returns the bytes of one value of a type; 0 where they depend on the value.
std::uint64_t width_of(std::uint32_t type) {
  switch (type) {
    case kU8:
    case kI8:
    case kBool:
      return 1;
    case kU16:
    case kI16:
      return 2;
    case kU32:
    case kI32:
    case kF32:
      return 4;
    case kU64:
    case kI64:
    case kF64:
      return 8;
    case kString:
    case kArray:
      return 0;
    default:
      refuse("it has metadata of type " + std::to_string(type) + "; the last one known is 12");
  }
}

// Takes values from the front of a span of bytes.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : all_(bytes), left_(bytes) {}

  std::span<const std::byte> take(std::uint64_t count) {
    if (count > left_.size())
      refuse("it ends within its header, at byte " + std::to_string(all_.size()) +
             "; it is cut short, perhaps by an interrupted download");
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }
  std::uint64_t number(std::uint64_t bytes) {
    std::uint64_t value = 0;
    const auto taken = take(bytes);
    for (std::size_t i = taken.size(); i-- > 0;)
      value = value << 8U | std::to_integer<std::uint64_t>(taken[i]);
    return value;
  }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  std::string_view text() { return detail::byte_text(take(u64())); }
  std::string name(const char* what) {
    const std::string_view found = text();
    if (!is_utf8(found)) refuse("the name of a " + std::string(what) + " is not UTF-8");
    return std::string(found);
  }
  [[nodiscard]] std::uint64_t taken() const { return all_.size() - left_.size(); }
  // Refuses a file that has no room for `count` items of at least `least_bytes` each. Call it
  // before memory is allocated for them.
  void expect(std::uint64_t count, std::uint64_t least_bytes, const char* what) const {
    if (count <= left_.size() / least_bytes) return;
    refuse("it promises " + std::to_string(count) + " " + what + ", for which its " +
           std::to_string(all_.size()) + " bytes have no room; it is cut short or damaged");
  }

 private:
  std::span<const std::byte> all_, left_;
};

void skip_elements(Cursor& cursor, std::uint32_t type, std::uint64_t length, int nesting);

GgufArray take_array(Cursor& cursor, int nesting) {
  if (nesting > kMostNesting)
    refuse("it has arrays in arrays more than " + std::to_string(kMostNesting) + " deep");
  const std::uint32_t type = cursor.u32();
  const GgufArray array{cursor.u64()};
  skip_elements(cursor, type, array.length, nesting);
  return array;
}

void skip_elements(Cursor& cursor, std::uint32_t type, std::uint64_t length, int nesting) {
  const std::uint64_t width = width_of(type);
  cursor.expect(length, width > 0 ? width : sizeof(std::uint64_t), "elements of an array");
  if (width > 0) {
    cursor.take(length * width);
    return;
  }
  for (std::uint64_t i = 0; i < length; ++i) {
    if (type == kString) {
      cursor.text();
    } else {
      take_array(cursor, nesting + 1);
    }
  }
}

GgufValue take_value(Cursor& cursor) {
  const std::uint32_t type = cursor.u32();
  switch (type) {
    case kString:
      return cursor.text();
    case kArray:
      return take_array(cursor, 0);
    case kBool:
      return cursor.number(1) != 0;
    case kF32:
      return double{std::bit_cast<float>(cursor.u32())};
    case kF64:
      return std::bit_cast<double>(cursor.u64());
    case kI8:
      return std::int64_t{static_cast<std::int8_t>(cursor.number(1))};
    case kI16:
      return std::int64_t{static_cast<std::int16_t>(cursor.number(2))};
    case kI32:
      return std::int64_t{static_cast<std::int32_t>(cursor.u32())};
    case kI64:
      return static_cast<std::int64_t>(cursor.u64());
    default:
      return cursor.number(width_of(type));
  }
}

struct Outline {
  GgufTensor tensor;
  std::uint64_t offset = 0, size = 0;
};

std::uint64_t bytes_of(const GgufTensor& tensor) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const GgmlBlock block = block_of(tensor.type);
  const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (row % block.elements != 0)
    refuse("tensor '" + tensor.name + "' has rows of " + std::to_string(row) + " elements, and " +
           std::string(ggml_type_name(tensor.type)) + " stores " + std::to_string(block.elements) +
           " at a time");
  std::uint64_t elements = 1;
  for (const std::int64_t size : tensor.shape) {
    if (size != 0 && elements > kMost / 8 / static_cast<std::uint64_t>(size))
      refuse("tensor '" + tensor.name + "' has a shape whose size overflows 64 bits");
    elements *= static_cast<std::uint64_t>(size);
  }
  return elements / static_cast<std::uint64_t>(block.elements) *
         static_cast<std::uint64_t>(block.bytes);
}

Outline take_outline(Cursor& cursor) {
  Outline outline;
  GgufTensor& tensor = outline.tensor;
  tensor.name = cursor.name("tensor");
  const std::uint32_t dimensions = cursor.u32();
  if (dimensions > kMostDimensions)
    refuse("tensor '" + tensor.name + "' has " + std::to_string(dimensions) +
           " dimensions; at most " + std::to_string(kMostDimensions) + " are allowed");
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    const std::uint64_t size = cursor.u64();
    if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      refuse("tensor '" + tensor.name + "' has a shape whose size overflows 64 bits");
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(size));
  }
  try {
    tensor.type = parse_ggml_type(cursor.u32());
  } catch (const CheckpointError& error) {
    refuse("tensor '" + tensor.name + "': " + error.what());
  }
  outline.offset = cursor.u64();
  outline.size = bytes_of(tensor);
  return outline;
}

std::uint64_t alignment_of(const std::map<std::string, GgufValue, std::less<>>& metadata) {
  const auto found = metadata.find("general.alignment");
  if (found == metadata.end()) return kDefaultAlignment;
  const auto* alignment = std::get_if<std::uint64_t>(&found->second);
  if (alignment == nullptr || !std::has_single_bit(*alignment) || *alignment > kMostAlignment)
    refuse("general.alignment is not a power of two of at most " + std::to_string(kMostAlignment));
  return *alignment;
}

void check_start(Cursor& cursor) {
  constexpr std::string_view kMagic = "GGUF";
  const auto magic = cursor.take(kMagic.size());
  if (!std::ranges::equal(magic, kMagic, {}, {}, [](char c) { return static_cast<std::byte>(c); }))
    refuse("it does not begin with 'GGUF'; it is not a GGUF file");
  const std::uint32_t version = cursor.u32();
  if (version == 2 || version == 3) return;
  if ((version & 0xffffU) == 0) refuse("its numbers have the highest byte first; this is not read");
  refuse("its version is " + std::to_string(version) + "; the versions that are read are 2 and 3");
}

struct Parsed {
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufTensor> tensors;
};

Parsed parse(std::span<const std::byte> file) {
  constexpr std::uint64_t kLeastTensor = 24, kLeastEntry = 13;  // With an empty name.
  Cursor cursor(file);
  check_start(cursor);
  const std::uint64_t tensors = cursor.u64(), entries = cursor.u64();
  cursor.expect(tensors, kLeastTensor, "tensors");
  cursor.expect(entries, kLeastEntry, "entries of metadata");
  Parsed parsed;
  for (std::uint64_t i = 0; i < entries; ++i) {
    std::string key = cursor.name("key");
    if (parsed.metadata.contains(key)) refuse("it has the key '" + key + "' twice");
    GgufValue value = take_value(cursor);
    parsed.metadata.emplace(std::move(key), value);
  }
  const std::uint64_t alignment = alignment_of(parsed.metadata);
  std::vector<Outline> outlines;
  std::set<std::string, std::less<>> names;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    outlines.push_back(take_outline(cursor));
    const std::string& name = outlines.back().tensor.name;
    if (!names.insert(name).second) refuse("it has the tensor '" + name + "' twice");
  }
  const std::uint64_t begin = (cursor.taken() + alignment - 1) / alignment * alignment;
  for (Outline& outline : outlines) {
    const std::string& name = outline.tensor.name;
    if (outline.offset % alignment != 0)
      refuse("tensor '" + name + "' is at " + std::to_string(outline.offset) +
             ", which is not a multiple of " + std::to_string(alignment));
    const std::uint64_t room = begin > file.size() ? 0 : file.size() - begin;
    if (outline.offset > room || outline.size > room - outline.offset)
      refuse("tensor '" + name + "' lies beyond its " + std::to_string(file.size()) +
             " bytes; it is cut short, perhaps by an interrupted download");
    outline.tensor.bytes =
        outline.size == 0 ? file.first(0) : file.subspan(begin + outline.offset, outline.size);
    parsed.tensors.push_back(std::move(outline.tensor));
  }
  return parsed;
}

}  // namespace

GgufFile GgufFile::open(const std::filesystem::path& path, FileSystem& files) {
  GgufFile file;
  file.path_ = path;
  try {
    file.content_ = files.map(path);
    Parsed parsed = parse(file.content_->bytes());
    file.metadata_ = std::move(parsed.metadata);
    file.tensors_ = std::move(parsed.tensors);
  } catch (const Error&) {
    throw_with_context<CheckpointError>("cannot load '" + path.string() + "'");
  }
  return file;
}

template <typename T>
const T* GgufFile::as(std::string_view key, const char* wanted) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) return nullptr;
  if (const T* value = std::get_if<T>(&found->second)) return value;
  throw CheckpointError("'" + path_.string() + "': '" + std::string(key) + "' is not " + wanted);
}

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  const auto found = metadata_.find(key);
  if (found != metadata_.end()) {
    if (const auto* value = std::get_if<std::uint64_t>(&found->second)) {
      if (*value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        return static_cast<std::int64_t>(*value);
    }
  }
  const auto* value = as<std::int64_t>(key, "an integer of 64 bits");
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const auto found = metadata_.find(key);
  if (found != metadata_.end() && !std::holds_alternative<double>(found->second))
    return static_cast<double>(*integer(key));
  const auto* value = as<double>(key, "a number");
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<std::string> GgufFile::text(std::string_view key) const {
  const auto* value = as<std::string_view>(key, "a text");
  if (value == nullptr) return std::nullopt;
  if (!is_utf8(*value))
    throw CheckpointError("'" + path_.string() + "': '" + std::string(key) + "' is not UTF-8");
  return std::string(*value);
}

std::optional<std::uint64_t> GgufFile::length(std::string_view key) const {
  const auto* value = as<GgufArray>(key, "an array");
  return value == nullptr ? std::nullopt : std::optional(value->length);
}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors_, name, &GgufTensor::name);
  return found == tensors_.end() ? nullptr : &*found;
}

}  // namespace accelerate
