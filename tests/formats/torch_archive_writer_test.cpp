// Files of torch.save that are written here. Python reads them in
// tests/reference/torch_archive_writer_live.py.
#include "accelerate/formats/torch_archive/torch_archive_writer.h"

#include <gtest/gtest.h>

#include <fstream>

#include "accelerate/formats/torch_archive/torch_archive.h"
#include "accelerate/formats/weights/mapped_weights.h"
#include "accelerate/formats/weights/weight_writer.h"
#include "tests/formats/safetensors_support.h"
#include "tests/support/errors.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::as_bytes;
using testing::as_text;
using testing::TemporaryFolder;
using Names = std::vector<std::string>;

// As many bytes as `spec` takes, which differ from tensor to tensor.
std::string content(const TensorSpec& spec) {
  std::string bytes(bytes_of(spec.dtype, spec.shape).value(), '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(i * 7 + spec.name.size());
  return bytes;
}

WeightSource source(const TensorSpec& spec) {
  return {spec, [bytes = content(spec)](const ByteSink& sink) {
            sink(as_bytes(bytes.substr(0, bytes.size() / 3)));
            sink(as_bytes(bytes.substr(bytes.size() / 3)));
          }};
}

TEST(TorchArchiveWriter, WritesEveryTypeAndShapeSoThatTheReaderFindsThem) {
  const TemporaryFolder home;
  std::vector<TensorSpec> specs;
  for (const DType dtype : all_dtypes()) {
    if (bits_of(dtype) < 8) continue;
    for (const auto& shape : {std::vector<std::int64_t>{}, {3, 5}, {2, 0, 4}})
      specs.push_back({"µ." + std::to_string(specs.size()), dtype, shape});
  }
  TorchArchiveWriter writer(real_file_system(), home.path() / "all.bin", specs);
  for (const TensorSpec& spec : writer.tensors()) writer.append(source(spec).stream);
  EXPECT_TRUE(real_file_system().list(home.path()).front().starts_with("."));
  writer.commit();
  const auto archive = TorchArchive::open(home.path() / "all.bin");
  const auto tensors = archive.state_dict();
  ASSERT_EQ(tensors.size(), specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    EXPECT_EQ(name, specs[i].name);
    EXPECT_EQ(tensor->dtype, specs[i].dtype) << name;
    EXPECT_EQ(tensor->shape, specs[i].shape) << name;
    EXPECT_TRUE(tensor->contiguous()) << name;
    EXPECT_EQ(as_text(tensor->bytes), content(specs[i])) << name;
  }
}

// The files have holes instead of data, so that the test takes no disk.
TEST(ZipLayout, HoldsEntriesAndArchivesBeyondFourGigabytes) {
  const TemporaryFolder home;
  const std::int64_t large = (std::int64_t{5} << 30) + 3;
  const std::vector<TensorSpec> specs = {{"large", DType::u8, {large}}, {"last", DType::u8, {4}}};
  const std::string pickle = detail::pickled_state_dict(specs);
  const detail::ZipLayout layout({{"x/data.pkl", pickle.size()},
                                  {"x/data/0", static_cast<std::uint64_t>(large)},
                                  {"x/data/1", 4}});
  {
    std::ofstream file(home.path() / "x.bin", std::ios::binary);
    file << layout.header(0) << pickle << layout.trailer(0, 0) << layout.header(1);
    file.seekp(large, std::ios::cur);
    file << layout.trailer(1, 0) << layout.header(2) << "abcd" << layout.trailer(2, 0)
         << layout.directory(std::vector<std::uint32_t>(3));
  }
  EXPECT_EQ(std::filesystem::file_size(home.path() / "x.bin"), layout.file_bytes());
  const auto archive = TorchArchive::open(home.path() / "x.bin");
  EXPECT_EQ(archive.state_dict().at(0).second->size_bytes(), static_cast<std::uint64_t>(large));
  EXPECT_EQ(as_text(archive.state_dict().at(1).second->bytes), "abcd");
}

TEST(TorchArchiveWriter, BadTensorsAreRefusedAndLeaveNothing) {
  const TemporaryFolder home;
  struct {
    std::vector<TensorSpec> specs;
    const char* says;
  } const cases[] = {
      {{{"a", DType::u8, {1}}, {"a", DType::u8, {1}}}, "'a' appears twice"},
      {{{"a", DType::u8, {-1}}}, "its shape is not valid"},
      {{{"a", DType::u64, {std::int64_t{1} << 62}}}, "its shape is not valid"},
      {{{std::string(5000, 'n'), DType::u8, {1}}}, "its name has 5000 bytes"},
      {{{"a", DType::f4, {2}}}, "a type that PyTorch's own files lack; write safetensors"},
  };
  for (const auto& row : cases) {
    const auto write = [&] {
      TorchArchiveWriter(real_file_system(), home.path() / "x.bin", row.specs);
    };
    const std::string message = testing::message_of<Error>(write);
    EXPECT_NE(message.find(row.says), std::string::npos) << message;
  }
  TorchArchiveWriter writer(real_file_system(), home.path() / "x.bin", {{"a", DType::u8, {2}}});
  EXPECT_THROW(writer.commit(), UsageError);
  EXPECT_THROW(writer.append([](const ByteSink& sink) { sink(as_bytes("123")); }), UsageError);
}

TEST(TorchArchiveWriter, WeightsAreOneFileOrShardsWithAnIndex) {
  const TemporaryFolder home;
  const std::vector<WeightSource> weights = {source({"b", DType::f32, {3}}),
                                             source({"a", DType::f32, {2}})};
  const auto one = write_weights(weights, home.path() / "one", {.safe_serialization = false});
  EXPECT_EQ(one.files, Names{"pytorch_model.bin"});
  const auto several = write_weights(weights, home.path() / "several",
                                     {.max_shard_bytes = 12, .safe_serialization = false});
  EXPECT_EQ(several.files,
            (Names{"pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin",
                   "pytorch_model.bin.index.json"}));
  for (const char* folder : {"one", "several"}) {
    const auto mapped = map_weight_files(home.path() / folder);
    ASSERT_EQ(mapped.weights.size(), 2U) << folder;
    EXPECT_EQ(as_text(mapped.weights[0].tensor.bytes), content(weights[0])) << folder;
    EXPECT_EQ(as_text(mapped.weights[1].tensor.bytes), content(weights[1])) << folder;
  }
}

TEST(TorchArchiveWriter, NoOlderSafetensorsStayBesideItAndNoBinIsLostToSafetensors) {
  const TemporaryFolder home;
  const std::vector<WeightSource> weights = {source({"a", DType::f32, {2}})};
  write_weights(weights, home.path());
  write_weights(weights, home.path(), {.safe_serialization = false});
  EXPECT_EQ(real_file_system().list(home.path()), Names{"pytorch_model.bin"});
  write_weights(weights, home.path());
  EXPECT_EQ(real_file_system().list(home.path()),
            (Names{"model.safetensors", "pytorch_model.bin"}));
}

}  // namespace
}  // namespace accelerate
