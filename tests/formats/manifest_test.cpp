#include "accelerate/formats/manifest.h"

#include <gtest/gtest.h>

#include "accelerate/base/error.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::TemporaryFolder;

Manifest of_two_files(const TemporaryFolder& folder) {
  folder.write("b.json", "{}");
  folder.write("a.bin", std::string(10'000, 'x'));
  Manifest manifest{.num_processes = 3, .files = {}};
  for (const char* name : {"b.json", "a.bin"})
    manifest.files.push_back(manifest_file(real_file_system(), folder.path(), name));
  write_manifest(real_file_system(), folder.path(), manifest);
  return manifest;
}

TEST(Manifest, ListsWhatIsThereAndFindsNoFault) {
  const TemporaryFolder folder;
  of_two_files(folder);
  const auto read = read_manifest(real_file_system(), folder.path());
  EXPECT_EQ(read.num_processes, 3);
  ASSERT_EQ(read.files.size(), 2U);
  EXPECT_EQ(read.files[0].name, "a.bin");
  EXPECT_EQ(read.files[0].size_bytes, 10'000U);
  EXPECT_TRUE(manifest_faults(real_file_system(), folder.path(), read).empty());
}

TEST(Manifest, NamesEveryFault) {
  const TemporaryFolder folder;
  const auto manifest = of_two_files(folder);
  std::string damaged(10'000, 'x');
  damaged.back() = 'y';
  folder.write("a.bin", damaged);
  folder.write("b.json", "{ }");
  const auto faults = manifest_faults(real_file_system(), folder.path(), manifest);
  ASSERT_EQ(faults.size(), 2U);
  EXPECT_EQ(faults[0], "'b.json' has 3 bytes, not 2");
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "'a.bin' is damaged", faults[1]);
  real_file_system().remove(folder.path() / "a.bin");
  EXPECT_EQ(manifest_faults(real_file_system(), folder.path(), manifest, {.first = 1, .stride = 2}),
            std::vector<std::string>{"'a.bin' is missing"});
}

struct HostileManifest {
  const char* json;
  const char* says;
};

TEST(Manifest, HostileOnesAreCheckpointErrors) {
  const std::string sum = "\"xxh3_64\": \"0123456789abcdef\"";
  const auto with = [&](const std::string& file) {
    return "{\"format\": 1, \"num_processes\": 1, \"files\": [" + file + "]}";
  };
  const std::pair<std::string, const char*> cases[] = {
      {"{", "line"},
      {"[]", "lacks 'format'"},
      {"{\"format\": 2, \"num_processes\": 1, \"files\": []}", "newer than 1"},
      {"{\"format\": 0, \"num_processes\": 1, \"files\": []}", "at least 1"},
      {"{\"format\": 1, \"num_processes\": 0, \"files\": []}", "at least 1"},
      {"{\"format\": 1, \"num_processes\": 4294967296, \"files\": []}", "num_processes"},
      {"{\"format\": 1, \"num_processes\": 1}", "lacks 'files'"},
      {with("{\"name\": \"../a\", \"size_bytes\": 1, " + sum + "}"), "plain file name"},
      {with("{\"name\": \"/etc/passwd\", \"size_bytes\": 1, " + sum + "}"), "plain file name"},
      {with("{\"name\": \"..\", \"size_bytes\": 1, " + sum + "}"), "plain file name"},
      {with("{\"name\": \"\", \"size_bytes\": 1, " + sum + "}"), "plain file name"},
      {with("{\"name\": \"manifest.json\", \"size_bytes\": 1, " + sum + "}"), "plain file name"},
      {with("{\"name\": 7, \"size_bytes\": 1, " + sum + "}"), "plain file name"},
      {with("{\"name\": \"a\", \"size_bytes\": -1, " + sum + "}"), "at least 0"},
      {with("{\"name\": \"a\", \"size_bytes\": 1, \"xxh3_64\": \"12\"}"), "16 hexadecimal"},
      {with("{\"name\": \"a\", \"size_bytes\": 1, \"xxh3_64\": \"0123456789abcdeg\"}"),
       "16 hexadecimal"},
      {with("{\"name\": \"a\", \"size_bytes\": 1, " + sum +
            "}, {\"name\": \"a\", \"size_bytes\": 1, " + sum + "}"),
       "twice"},
  };
  for (const auto& [json, says] : cases) {
    const TemporaryFolder folder;
    folder.write("manifest.json", json);
    try {
      (void)read_manifest(real_file_system(), folder.path());
      ADD_FAILURE() << json;
    } catch (const CheckpointError& error) {
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, says, describe(error)) << json;
    }
  }
}

TEST(Manifest, IsTheSignOfACompleteCheckpoint) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", "");
  const auto message = [&](const std::filesystem::path& path) {
    try {
      (void)read_manifest(real_file_system(), path);
      return std::string();
    } catch (const CheckpointError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "not a complete checkpoint", message(folder.path()));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "no such folder", message(folder.path() / "none"));
}

}  // namespace
}  // namespace accelerate
