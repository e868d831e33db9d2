#include "accelerate/formats/safetensors/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/json.h"

namespace accelerate::detail {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";

std::string dtype_names() {
  std::vector<std::string> names;
  for (const DType dtype : all_dtypes()) names.emplace_back(dtype_name(dtype));
  return join(names, " ");
}

// Receives the events of the JSON parser. What is allowed next depends on the place in the header.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return refuse_value("null"); }
  bool boolean(bool value) override { return refuse_value(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override {
    return refuse_value(std::to_string(value));
  }
  bool number_float(number_float_t, const string_t& text) override { return refuse_value(text); }
  bool binary(binary_t&) override { return refuse_value("binary data"); }
  bool number_unsigned(number_unsigned_t value) override;
  bool string(string_t& value) override;
  bool start_object(std::size_t) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::json::exception& error) override;

  SafetensorsHeader take() { return std::move(header_); }

 private:
  enum class Place { before, header, metadata, tensor, shape, offsets };

  [[noreturn]] void refuse(const std::string& what) const;
  [[noreturn]] bool refuse_value(const std::string& found) const;
  [[nodiscard]] std::string expected() const;
  void header_key(const std::string& name);
  void tensor_key(const std::string& name);
  void add_dimension(std::uint64_t value);
  void finish_tensor();

  SafetensorsHeader header_;
  std::unordered_set<std::string> names_;
  Place place_ = Place::before;
  std::string name_;               // The last key directly below the header.
  std::string key_;                // The last key inside the entry of that name.
  std::vector<std::string> seen_;  // Keys of the current tensor.
  std::vector<std::uint64_t> offsets_;
};

void HeaderReader::refuse(const std::string& what) const {
  if (place_ == Place::before || place_ == Place::header) throw CheckpointError(what);
  throw CheckpointError(tensor_label(name_) + ": " + what);
}

std::string HeaderReader::expected() const {
  switch (place_) {
    case Place::before:
      return "the header must be a JSON object";
    case Place::header:
      return "the entry of " + printable(name_) + " must be a JSON object";
    case Place::metadata:
      return "the metadata " + printable(key_) + " must be a string";
    case Place::tensor:
      return key_ == "dtype" ? "dtype must be a string" : key_ + " must be an array";
    case Place::shape:
      return "a dimension in shape must be a whole number from 0 to 2^63-1, without sign, point or "
             "exponent";
    case Place::offsets:
      return "an offset in data_offsets must be a whole number from 0 to 2^64-1, without sign, "
             "point or exponent";
  }
  return "";
}

bool HeaderReader::refuse_value(const std::string& found) const {
  refuse(expected() + ", found " + printable(found));
}

bool HeaderReader::number_unsigned(number_unsigned_t value) {
  if (place_ == Place::shape) {
    add_dimension(value);
  } else if (place_ == Place::offsets) {
    if (offsets_.size() == 2) refuse("data_offsets has more than the two numbers begin and end");
    offsets_.push_back(value);
  } else {
    refuse_value(std::to_string(value));
  }
  return true;
}

void HeaderReader::add_dimension(std::uint64_t value) {
  auto& shape = header_.tensors.back().shape;
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    refuse_value(std::to_string(value));
  }
  if (shape.size() == SafetensorsLimits::kRank) {
    refuse("shape has more than the " + std::to_string(SafetensorsLimits::kRank) +
           " dimensions that are allowed");
  }
  shape.push_back(static_cast<std::int64_t>(value));
}

bool HeaderReader::string(string_t& value) {
  if (place_ == Place::metadata) {
    if (header_.metadata.size() == SafetensorsLimits::kMetadataKeys) {
      refuse("the metadata has more than the " + std::to_string(SafetensorsLimits::kMetadataKeys) +
             " keys that are allowed");
    }
    if (!header_.metadata.emplace(key_, value).second) {
      refuse("the metadata key " + printable(key_) + " appears twice");
    }
  } else if (place_ == Place::tensor && key_ == "dtype") {
    const auto dtype = parse_dtype(value);
    if (!dtype) {
      refuse("dtype is " + printable(value) + ", which is none of " + dtype_names());
    }
    header_.tensors.back().dtype = *dtype;
  } else {
    refuse_value("the string " + value);
  }
  return true;
}

bool HeaderReader::start_object(std::size_t) {
  if (place_ == Place::before) {
    place_ = Place::header;
  } else if (place_ == Place::header && name_ == kMetadataKey) {
    place_ = Place::metadata;
  } else if (place_ == Place::header) {
    place_ = Place::tensor;
    header_.tensors.emplace_back().name = name_;
    seen_.clear();
  } else {
    refuse_value("an object");
  }
  return true;
}

bool HeaderReader::key(string_t& name) {
  if (place_ == Place::header) {
    header_key(name);
  } else if (place_ == Place::tensor) {
    tensor_key(name);
  } else {
    key_ = name;
  }
  return true;
}

void HeaderReader::header_key(const std::string& name) {
  if (name.size() > SafetensorsLimits::kNameBytes) {
    refuse("a tensor's name has " + std::to_string(name.size()) + " bytes, at most " +
           std::to_string(SafetensorsLimits::kNameBytes) + " are allowed: " + printable(name));
  }
  if (!names_.insert(name).second) refuse("the name " + printable(name) + " appears twice");
  if (header_.tensors.size() == SafetensorsLimits::kTensors && name != kMetadataKey) {
    refuse("there are more than the " + std::to_string(SafetensorsLimits::kTensors) +
           " tensors that are allowed");
  }
  name_ = name;
}

void HeaderReader::tensor_key(const std::string& name) {
  if (name != "dtype" && name != "shape" && name != "data_offsets") {
    refuse("unknown key " + printable(name) + ", allowed are dtype, shape and data_offsets." +
           did_you_mean(name.substr(0, 64), {"dtype", "shape", "data_offsets"}));
  }
  for (const std::string& before : seen_) {
    if (before == name) refuse("the key " + name + " appears twice");
  }
  seen_.push_back(name);
  key_ = name;
}

bool HeaderReader::end_object() {
  if (place_ == Place::tensor) finish_tensor();
  place_ = place_ == Place::header ? Place::before : Place::header;
  return true;
}

void HeaderReader::finish_tensor() {
  for (const char* needed : {"dtype", "shape", "data_offsets"}) {
    if (std::ranges::find(seen_, needed) == seen_.end()) {
      refuse("the key " + std::string(needed) + " is missing");
    }
  }
}

bool HeaderReader::start_array(std::size_t) {
  if (place_ == Place::tensor && key_ == "shape") {
    place_ = Place::shape;
  } else if (place_ == Place::tensor && key_ == "data_offsets") {
    place_ = Place::offsets;
    offsets_.clear();
  } else {
    refuse_value("an array");
  }
  return true;
}

bool HeaderReader::end_array() {
  if (place_ == Place::offsets) {
    if (offsets_.size() != 2) {
      refuse("data_offsets must be the two numbers begin and end, found " +
             std::to_string(offsets_.size()));
    }
    header_.tensors.back().begin = offsets_[0];
    header_.tensors.back().end = offsets_[1];
  }
  place_ = Place::tensor;
  return true;
}

bool HeaderReader::parse_error(std::size_t position, const std::string& token,
                               const nlohmann::json::exception&) {
  throw CheckpointError("the header is not valid JSON at its byte " + std::to_string(position) +
                        ", near " + printable(token));
}

void append_entry(std::string& out, const TensorSpec& spec, std::uint64_t begin,
                  std::uint64_t end) {
  out += json_string(spec.name);
  out.append(R"(:{"dtype":")").append(dtype_name(spec.dtype)).append(R"(","shape":[)");
  for (std::size_t i = 0; i < spec.shape.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(spec.shape[i]);
  }
  out.append(R"(],"data_offsets":[)").append(std::to_string(begin)).append(",");
  out.append(std::to_string(end)).append("]}");
}

void append_metadata(std::string& out, const SafetensorsMetadata& metadata) {
  out += json_string(kMetadataKey);
  out += ":{";
  bool first = true;
  for (const auto& [key, value] : metadata) {
    if (!std::exchange(first, false)) out += ',';
    out += json_string(key);
    out += ':';
    out += json_string(value);
  }
  out += '}';
}

std::string length_bytes(std::uint64_t length) {
  std::string bytes(8, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(length & 0xff);
    length >>= 8;
  }
  return bytes;
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr std::size_t kMost = 120;
  std::string out;
  for (const char c : text.substr(0, kMost)) {
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return "'" + out + (text.size() > kMost ? "…'" : "'");
}

std::string tensor_label(std::string_view name) {
  return "tensor " + printable(name);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> parts;
  for (const std::int64_t size : shape) parts.push_back(std::to_string(size));
  return "[" + join(parts, ", ") + "]";
}

SafetensorsHeader parse_safetensors_header(std::string_view json) {
  HeaderReader reader;
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  return reader.take();
}

std::string safetensors_header_bytes(const std::vector<TensorSpec>& specs,
                                     const SafetensorsMetadata& metadata) {
  std::string json = "{";
  if (!metadata.empty()) append_metadata(json, metadata);
  std::uint64_t offset = 0;
  for (const TensorSpec& spec : specs) {
    if (json.size() > 1) json += ',';
    const std::uint64_t begin = offset;
    offset += bytes_of(spec.dtype, spec.shape).value();
    append_entry(json, spec, begin, offset);
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  return length_bytes(json.size()) + json;
}

}  // namespace accelerate::detail
