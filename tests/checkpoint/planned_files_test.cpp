#include "accelerate/checkpoint/planned_files.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/tensor/weights.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::FaultyFileSystem;
using testing::TemporaryFolder;

// Small tensors, some larger than the pieces in which files are written, some that do not lie as
// they are written.
std::vector<NamedTensor> tensors_of_all_kinds() {
  const auto wide = at::arange(1'500'000, at::kFloat);
  const auto complex = at::complex(at::arange(6, at::kFloat), at::ones({6}));
  return {{"empty", at::empty({0, 3})},
          {"scalar", at::ones({}, at::kHalf)},
          {"wide", wide},
          {"transposed", at::arange(5'000'000, at::kFloat).view({2500, 2000}).t()},
          {"long rows", at::arange(10'000'000, at::kFloat).view({5'000'000, 2}).t()},
          {"every other", wide.slice(0, 0, c10::nullopt, 2)},
          {"conjugated", complex.conj()},
          {"expanded", at::arange(3, at::kLong).unsqueeze(1).expand({3, 4})}};
}

TEST(PlannedFiles, HoldTheTensorsOfAnyLayoutAndTheirChecksums) {
  const TemporaryFolder folder;
  const auto tensors = tensors_of_all_kinds();
  const auto written =
      write_planned(real_file_system(), folder.path(),
                    {{.name = "a.safetensors", .tensors = tensors, .metadata = {{"k", "v"}}},
                     {.name = "b.txt", .text = "text"}});
  ASSERT_EQ(written.size(), 2U);
  for (const auto& file : written) {
    const auto read = manifest_file(real_file_system(), folder.path(), file.name);
    EXPECT_EQ(read.size_bytes, file.size_bytes) << file.name;
    EXPECT_EQ(read.checksum, file.checksum) << file.name;
  }
  auto read = map_tensors(folder.path() / "a.safetensors");
  ASSERT_EQ(read.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const auto found = std::ranges::find(read, name, &NamedTensor::name);
    ASSERT_NE(found, read.end()) << name;
    EXPECT_TRUE(at::equal(found->tensor, tensor.resolve_conj())) << name;
  }
  EXPECT_EQ(SafetensorsFile::open(folder.path() / "a.safetensors").metadata().at("k"), "v");
}

TEST(PlannedFiles, WithoutPlainElementsAreRefusedByNameNotCounted) {
  const TemporaryFolder folder;
  const std::vector<NamedTensor> tensors = {{"dense", at::ones({4}, at::kFloat)},
                                            {"sparse", at::eye(3).to_sparse()}};
  EXPECT_EQ(planned_bytes({{.name = "a.safetensors", .tensors = tensors}}), 16U);
  try {
    (void)write_planned(real_file_system(), folder.path(),
                        {{.name = "a.safetensors", .tensors = tensors}});
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "cannot save 'sparse'", describe(error));
  }
}

// Long enough to go past the page cache, with an end that cannot.
TEST(PlannedFiles, HoldLargeTensorsToTheLastByte) {
  const TemporaryFolder folder;
  const auto large = at::arange(12'000'001, at::kFloat), odd = at::arange(7, at::kByte);
  const auto written = write_planned(real_file_system(), folder.path(),
                                     {{.name = "a", .tensors = {{"large", large}, {"odd", odd}}}});
  const auto found = manifest_file(real_file_system(), folder.path(), "a");
  EXPECT_EQ(found.size_bytes, written.at(0).size_bytes);
  EXPECT_EQ(found.checksum, written.at(0).checksum);
  const auto read = map_tensors(folder.path() / "a");
  EXPECT_TRUE(at::equal(read.at(0).tensor, large));
  EXPECT_TRUE(at::equal(read.at(1).tensor, odd));
}

TEST(PlannedFiles, WithoutTensorsAreStillFilesOfTensors) {
  const TemporaryFolder folder;
  (void)write_planned(real_file_system(), folder.path(), {{.name = "a.safetensors"}});
  EXPECT_TRUE(map_tensors(folder.path() / "a.safetensors").empty());
}

TEST(PlannedFiles, CountTheirBytesWhileTheyAreWritten) {
  const TemporaryFolder folder;
  const std::vector<PlannedFile> planned = {{.name = "a", .text = "12345"},
                                            {.name = "b", .tensors = tensors_of_all_kinds()}};
  std::uint64_t counted = 0, written = 0;
  for (const auto& file : write_planned(real_file_system(), folder.path(), planned,
                                        [&](std::uint64_t bytes) { counted += bytes; }))
    written += file.size_bytes;
  EXPECT_EQ(counted, written);
  EXPECT_GT(counted, planned_bytes(planned)) << "less the header";
  EXPECT_LT(counted, planned_bytes(planned) + 4096);
}

// Whatever step the disk refuses: the error names the file and the reason.
TEST(PlannedFiles, FailWithTheFileAndTheReasonAtEveryStep) {
  const std::vector<PlannedFile> planned = {
      {.name = "a.json", .text = "{}"},
      {.name = "b.safetensors", .tensors = {{"x", at::ones({5 << 20})}}}};
  for (std::size_t step = 0;; ++step) {
    FaultyFileSystem files({.fail_at = step, .error = EIO});
    files.create_directories("/out");
    try {
      (void)write_planned(files, "/out", planned);
      EXPECT_GT(step, 10U);
      break;
    } catch (const CheckpointError& error) {
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, "cannot write /out/", describe(error));
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, "Input/output error", describe(error));
    }
  }
}

TEST(PlannedFiles, ReplaceNoFileThatIsThere) {
  const TemporaryFolder folder;
  folder.write("a.json", "a hook's");
  EXPECT_THROW(
      (void)write_planned(real_file_system(), folder.path(), {{.name = "a.json", .text = "{}"}}),
      CheckpointError);
  EXPECT_EQ(read_file(real_file_system(), folder.path() / "a.json", 100), "a hook's");
}

}  // namespace
}  // namespace accelerate
