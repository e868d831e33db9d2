#include "accelerate/formats/safetensors/safetensors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <regex>

#include "tests/formats/safetensors_support.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::as_bytes;
using testing::as_text;
using testing::TemporaryFolder;

class Safetensors : public ::testing::Test {
 protected:
  void write(const std::vector<StoredTensor>& tensors, SafetensorsWriteOptions options = {}) const {
    write_safetensors(real_file_system(), path(), tensors, std::move(options));
  }
  [[nodiscard]] std::filesystem::path path() const { return folder_.path() / "m.safetensors"; }
  [[nodiscard]] std::size_t files_in_folder() const {
    return real_file_system().list(folder_.path()).size();
  }

  TemporaryFolder folder_;
};

StoredTensor tensor(std::string name, DType dtype, std::vector<std::int64_t> shape,
                    std::string_view bytes) {
  return {{std::move(name), dtype, std::move(shape)}, as_bytes(bytes)};
}

TEST_F(Safetensors, TensorsOutliveTheFileObjectThroughItsContent) {
  write({tensor("x", DType::u8, {3}, "abc")});
  std::optional<SafetensorsFile> file = SafetensorsFile::open(path());
  const auto content = file->content();
  const auto bytes = file->at("x").bytes;
  file.reset();
  EXPECT_EQ(as_text(bytes), "abc");
}

TEST_F(Safetensors, TensorsComeInTheOrderOfTheFileAndAreFoundByName) {
  write({tensor("b", DType::u8, {1}, "1"), tensor("a", DType::u8, {1}, "2"),
         tensor("z", DType::f32, {1}, "3333")});
  const SafetensorsFile file = SafetensorsFile::open(path());
  ASSERT_EQ(file.tensors().size(), 3);
  EXPECT_EQ(file.tensors()[0].name, "z");
  EXPECT_EQ(file.tensors()[1].name, "a");
  EXPECT_EQ(file.find("b"), &file.tensors()[2]);
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST_F(Safetensors, AMissingTensorNamesTheNearest) {
  write({tensor("encoder.weight", DType::u8, {1}, "1")});
  try {
    (void)SafetensorsFile::open(path()).at("encoder.wieght");
    FAIL() << "no error";
  } catch (const CheckpointError& error) {
    EXPECT_TRUE(
        std::regex_search(error.what(), std::regex("no tensor 'encoder.wieght' among its 1.*"
                                                   "Did you mean 'encoder.weight'")))
        << error.what();
  }
}

TEST_F(Safetensors, OurFilesAreAlignedAndForeignOnesAreFlagged) {
  write({tensor("a", DType::u8, {1}, "1"), tensor("d", DType::f64, {1}, "12345678"),
         tensor("h", DType::bf16, {1}, "12")});
  const SafetensorsFile ours = SafetensorsFile::open(path());
  for (const StoredTensor& one : ours.tensors()) EXPECT_TRUE(one.aligned());
  const std::string header = R"({"d":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})";
  ASSERT_NE(header.size() % 8, 0);
  folder_.write("foreign.safetensors", testing::safetensors_text(header, 8));
  const auto foreign = SafetensorsFile::open(folder_.path() / "foreign.safetensors");
  EXPECT_FALSE(foreign.at("d").aligned());
}

TEST_F(Safetensors, LargeTensorsAndManySmallOnesRoundTrip) {
  const std::string large(3 << 20, 'L');
  const std::string medium(200 << 10, 'M');
  std::vector<StoredTensor> tensors = {
      tensor("large", DType::u8, {3 << 20}, large), tensor("m1", DType::u8, {200 << 10}, medium),
      tensor("m2", DType::u8, {200 << 10}, medium), tensor("large2", DType::f32, {3 << 18}, large)};
  for (int i = 0; i < 2000; ++i) {
    tensors.push_back(tensor("s" + std::to_string(i), DType::u8, {5}, "small"));
  }
  write(tensors, {.file = {.durable = false}});
  const SafetensorsFile file = SafetensorsFile::open(path());
  for (const StoredTensor& expected : tensors) {
    EXPECT_EQ(as_text(file.at(expected.name).bytes), as_text(expected.bytes)) << expected.name;
  }
}

TEST_F(Safetensors, WhatCannotBeAFileIsRefusedBeforeAnythingIsWritten) {
  const std::vector<std::pair<std::vector<StoredTensor>, std::string>> rows = {
      {{tensor("x", DType::u8, {1}, "1"), tensor("x", DType::u8, {1}, "2")}, "tensor 'x' twice"},
      {{tensor("__metadata__", DType::u8, {1}, "1")}, "keeps this name for itself"},
      {{tensor("\xff", DType::u8, {1}, "1")}, "not UTF-8"},
      {{tensor(std::string(5000, 'x'), DType::u8, {1}, "1")}, "5000 bytes, at most 4096"},
      {{tensor("x", DType::u8, {-1}, "1")}, "negative dimension"},
      {{tensor("x", DType::f4, {3}, "12")}, "no whole number of bytes"},
      {{tensor("x", DType::u8, std::vector<std::int64_t>(33, 1), "1")},
       "33 dimensions, at most 32"},
      {{tensor("x", DType::f32, {2}, "1234")}, "take 8 bytes, 4 were given"},
  };
  for (const auto& [tensors, pattern] : rows) {
    try {
      write(tensors);
      ADD_FAILURE() << "no error: " << pattern;
    } catch (const UsageError& error) {
      EXPECT_TRUE(std::regex_search(error.what(), std::regex(pattern))) << error.what();
    }
    EXPECT_EQ(files_in_folder(), 0) << pattern;
  }
  EXPECT_THROW(write({}, {.metadata = {{"k", "\xff"}}}), UsageError);
}

TEST_F(Safetensors, AnUnfinishedWriterLeavesTheOldFile) {
  write({tensor("x", DType::u8, {3}, "old")});
  {
    SafetensorsWriter writer(real_file_system(), path(),
                             {{"x", DType::u8, {3}}, {"y", DType::u8, {1}}});
    writer.append(as_bytes("new"));
    EXPECT_THROW(writer.commit(), UsageError);
  }
  EXPECT_EQ(as_text(SafetensorsFile::open(path()).at("x").bytes), "old");
  EXPECT_EQ(files_in_folder(), 1);
}

TEST_F(Safetensors, OneTensorTooManyIsRefused) {
  SafetensorsWriter writer(real_file_system(), path(), {{"x", DType::u8, {1}}});
  writer.append(as_bytes("1"));
  EXPECT_THROW(writer.append(as_bytes("2")), UsageError);
}

TEST_F(Safetensors, AFolderThatIsNotThereIsNamed) {
  try {
    write_safetensors(real_file_system(), folder_.path() / "no" / "m.safetensors", {});
    FAIL() << "no error";
  } catch (const CheckpointError& error) {
    EXPECT_TRUE(
        std::regex_search(describe(error), std::regex("cannot save tensors to '.*no/m.safetensors'"
                                                      "\n.*No such file or directory")))
        << describe(error);
  }
}

TEST_F(Safetensors, ALayoutTellsTheOrderOfTheTensorsAndTheLengthOfTheFile) {
  const SafetensorsLayout layout(
      {{"b", DType::u8, {3}}, {"a", DType::f64, {2}}, {"e", DType::u8, {0}}});
  EXPECT_EQ(layout.tensors()[0].name, "a");
  EXPECT_EQ(layout.tensors()[1].name, "b");
  EXPECT_EQ(layout.file_bytes(), layout.header().size() + 19);
}

}  // namespace
}  // namespace accelerate
