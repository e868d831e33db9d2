// Fashion-MNIST, 60,000 training and 10,000 test images of clothes, from its gzip-compressed IDX
// files. IDX: two zero bytes, a type (8: unsigned byte), the number of dimensions, each dimension
// as a big-endian 32-bit integer, then the values, row by row.
#pragma once

#include <torch/torch.h>
#include <zlib.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace fashion_mnist {

inline constexpr const char* kDefaultFolder = "/usr/share/datasets/fashion-mnist";

/// Thrown when a file is missing or is not what its name says.
class FormatError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

/// Unpacks a gzip file piece by piece. Throws FormatError for a short, damaged or overlong file.
class Gunzip {
 public:
  explicit Gunzip(std::filesystem::path path)
      : path_(std::move(path)), file_(gzopen(path_.c_str(), "rb"), gzclose) {
    if (file_) return;
    throw FormatError(path_.string() +
                      " cannot be opened. Install the images with `apt-get install " +
                      "dataset-fashion-mnist`, or name their folder with --data.");
  }

  /// Reads the next `size` bytes of content.
  void read(void* target, std::size_t size) {
    if (gzread(file_.get(), target, static_cast<unsigned>(size)) != static_cast<int>(size)) {
      fail("ends early or is damaged");
    }
  }

  /// Checks that nothing is left.
  void expect_end() {
    char more = 0;
    if (gzread(file_.get(), &more, 1) != 0) fail("is longer than its header says, or is damaged");
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw FormatError(path_.string() + " " + what + ".");
  }

 private:
  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

inline std::uint32_t read_big_endian(Gunzip& file) {
  std::array<std::uint8_t, 4> b;
  file.read(b.data(), b.size());
  return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3];
}

/// Returns the array in the file: uint8, with `item_shape` after the leading dimension. The
/// header's claims are checked before memory is taken for them.
inline torch::Tensor read_idx(const std::filesystem::path& path,
                              std::vector<std::int64_t> item_shape) {
  constexpr std::uint32_t kMaxItems = 100'000;
  Gunzip file(path);
  const std::uint32_t magic = read_big_endian(file);
  const std::uint32_t expected = 0x0800u | static_cast<std::uint32_t>(item_shape.size() + 1);
  if (magic != expected) {
    file.fail("begins with " + std::to_string(magic) + ", not with the " +
              std::to_string(expected) + " of unsigned bytes in " +
              std::to_string(item_shape.size() + 1) + " dimensions");
  }
  const std::uint32_t items = read_big_endian(file);
  if (items == 0 || items > kMaxItems) {
    file.fail("claims " + std::to_string(items) + " items; 1 to 100000 are allowed");
  }
  for (const std::int64_t side : item_shape) {
    const std::uint32_t found = read_big_endian(file);
    if (found != side)
      file.fail("has a side of " + std::to_string(found) + ", not " + std::to_string(side));
  }
  item_shape.insert(item_shape.begin(), items);
  torch::Tensor values = torch::empty(item_shape, torch::kUInt8);
  file.read(values.data_ptr(), values.nbytes());
  file.expect_end();
  return values;
}

}  // namespace detail

/// A map-style dataset. data: uint8 {1, 28, 28}; target: int64 {}, 0 to 9.
class Dataset : public torch::data::datasets::Dataset<Dataset> {
 public:
  /// Reads "train" or "t10k" from `folder`. Throws FormatError.
  Dataset(const std::filesystem::path& folder, const std::string& part)
      : images_(detail::read_idx(folder / (part + "-images-idx3-ubyte.gz"), {28, 28})),
        labels_(detail::read_idx(folder / (part + "-labels-idx1-ubyte.gz"), {})) {
    if (images_.size(0) != labels_.size(0) || labels_.max().item<int>() > 9) {
      throw FormatError("The " + part + " images and labels in " + folder.string() +
                        " do not go together.");
    }
    images_ = images_.unsqueeze(1);
    labels_ = labels_.to(torch::kInt64);
  }

  torch::data::Example<> get(std::size_t index) override {
    const auto i = static_cast<std::int64_t>(index);
    return {images_[i], labels_[i]};
  }
  std::optional<std::size_t> size() const override {
    return static_cast<std::size_t>(images_.size(0));
  }

 private:
  torch::Tensor images_, labels_;
};

}  // namespace fashion_mnist
