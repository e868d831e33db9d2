// Against the reference implementation: files that it wrote, headers that it judged, and live runs.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>

#include "tests/formats/safetensors_support.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::as_bytes;
using testing::as_text;
using testing::from_hex;
using testing::TemporaryFolder;

const nlohmann::json& golden_files() {
  static const auto parsed =
      nlohmann::json::parse(testing::read_reference("safetensors_golden.json"));
  return parsed;
}

// A golden_files row as the writer wants it; `data` owns the bytes.
struct Row {
  explicit Row(const nlohmann::json& row)
      : title(row.at("title")), file(from_hex(row.at("file"))), metadata(row.at("metadata")) {
    for (const auto& tensor : row.at("tensors")) {
      data.push_back(from_hex(tensor.at("bytes")));
      StoredTensor stored;
      stored.name = tensor.at("name");
      stored.dtype = parse_dtype(tensor.at("dtype").get<std::string>()).value();
      stored.shape = tensor.at("shape").get<std::vector<std::int64_t>>();
      tensors.push_back(stored);
    }
    for (std::size_t i = 0; i < data.size(); ++i) tensors[i].bytes = as_bytes(data[i]);
  }

  std::string title, file;
  SafetensorsMetadata metadata;
  std::vector<std::string> data;
  std::vector<StoredTensor> tensors;
};

TEST(SafetensorsGolden, WriterGivesTheReferencesBytes) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.safetensors";
  int rows = 0;
  for (const auto& json : golden_files().at("files")) {
    const Row row(json);
    write_safetensors(real_file_system(), path, row.tensors,
                      {.metadata = row.metadata, .file = {.durable = false}});
    EXPECT_EQ(read_file(real_file_system(), path, 1 << 20), row.file) << row.title;
    ++rows;
  }
  EXPECT_EQ(rows, 61);
}

TEST(SafetensorsGolden, ReaderFindsEveryTensorOfTheReferencesFiles) {
  int tensors = 0;
  for (const auto& json : golden_files().at("files")) {
    const Row row(json);
    const SafetensorsFile file = testing::open_text(row.file);
    EXPECT_EQ(file.metadata(), row.metadata) << row.title;
    ASSERT_EQ(file.tensors().size(), row.tensors.size()) << row.title;
    for (const StoredTensor& expected : row.tensors) {
      const StoredTensor& found = file.at(expected.name);
      EXPECT_EQ(found.dtype, expected.dtype) << row.title;
      EXPECT_EQ(found.shape, expected.shape) << row.title;
      EXPECT_EQ(as_text(found.bytes), as_text(expected.bytes)) << row.title;
      ++tensors;
    }
  }
  EXPECT_GE(tensors, 100);
}

// Where we refuse what the reference takes, and why: a name twice, or text before or after the
// object, can mean two things to two readers; the rest no writer makes.
const std::map<std::string, std::string> kStricter = {
    {"a name twice", "appears twice"},
    {"text before the object", "must begin with '\\{'"},
    {"text after the object", "must end with '\\}'"},
    {"unknown keys", "unknown key"},
    {"metadata of null", "must be a JSON object, found 'null'"},
    {"dimensions beyond int64", "a dimension in shape must be"},
};

TEST(SafetensorsGolden, ReaderRefusesWhatTheReferenceRefusesAndLittleElse) {
  std::map<std::string, int> stricter;
  int rows = 0;
  for (const auto& row : golden_files().at("headers")) {
    const auto header = row.at("header").get<std::string>();
    const std::string refusal =
        testing::refusal_of(testing::safetensors_text(header, row.at("data")));
    ++rows;
    if (!row.at("accepted").get<bool>()) {
      EXPECT_NE(refusal, "") << header << " was taken";
    } else if (!refusal.empty()) {
      bool known = false;
      for (const auto& [why, pattern] : kStricter) {
        if (std::regex_search(refusal, std::regex(pattern))) known = true, ++stricter[why];
      }
      EXPECT_TRUE(known) << header << "\n" << refusal;
    }
  }
  EXPECT_EQ(rows, 135);
  EXPECT_EQ(stricter.size(), kStricter.size()) << ::testing::PrintToString(stricter);
}

std::string random_bytes(std::mt19937_64& random, std::size_t count) {
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() & 1);  // Also valid as BOOL.
  return bytes;
}

// Writes a file of up to 20 random tensors.
void write_random_file(const std::filesystem::path& path, std::mt19937_64& random) {
  std::vector<std::string> data;
  std::vector<StoredTensor> tensors(random() % 20);
  for (StoredTensor& tensor : tensors) {
    do {
      tensor.dtype = all_dtypes()[random() % all_dtypes().size()];
    } while (bits_of(tensor.dtype) == 6);  // The Python package cannot write these.
    tensor.name = "层." + std::to_string(random());
    tensor.shape.assign(random() % 4, 0);
    for (auto& size : tensor.shape) size = static_cast<std::int64_t>(random() % 9);
    if (tensor.dtype == DType::f4) tensor.shape.push_back(2);
    data.push_back(random_bytes(random, bytes_of(tensor.dtype, tensor.shape).value()));
  }
  for (std::size_t i = 0; i < data.size(); ++i) tensors[i].bytes = as_bytes(data[i]);
  write_safetensors(real_file_system(), path, tensors,
                    {.metadata = {{"format", "pt"}}, .file = {.durable = false}});
}

TEST(SafetensorsLive, PythonReadsOurFilesAndWritesThemAgainByteForByte) {
  ACCELERATE_NEED_REFERENCE_PYTHON();
  const TemporaryFolder folder;
  std::mt19937_64 random(20260131);
  constexpr int kFiles = 100;
  for (int i = 0; i < kFiles; ++i) {
    write_random_file(folder.path() / (std::to_string(i) + ".safetensors"), random);
  }
  const auto result = testing::run_program(
      {testing::reference_python(), testing::reference_path("safetensors_live.py"), folder.path()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "100 files written again, 0 differ\n") << result.err;
}

}  // namespace
}  // namespace accelerate
