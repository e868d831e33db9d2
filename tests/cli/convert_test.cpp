// `accelerate convert`: weights of torch.save and safetensors into safetensors.
#include "cli/commands/commands.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/formats/torch_archive/torch_archive.h"
#include "accelerate/formats/weights/mapped_weights.h"
#include "tests/formats/torch_archive_support.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate::cli {
namespace {

using testing::TemporaryFolder;
using Names = std::vector<std::string>;
using Path = std::filesystem::path;

Path golden(const std::string& name) {
  return testing::reference_path("torch_archive/" + name + ".pt");
}

std::string content(const TorchTensor& tensor) {
  std::string bytes(dtype_name(tensor.dtype));
  for (const auto size : tensor.shape) bytes += " " + std::to_string(size);
  tensor.stream_to([&](std::span<const std::byte> piece) { bytes += testing::as_text(piece); });
  return bytes;
}

// Name → type, shape and bytes, row-major.
std::map<std::string, std::string> contents(const Path& path) {
  std::map<std::string, std::string> all;
  const auto mapped = map_weight_files(path);
  for (const auto& weight : mapped.weights) all.emplace(weight.name, content(weight.tensor));
  return all;
}

std::string convert(const ConvertOptions& options) {
  std::ostringstream out;
  EXPECT_EQ(run_convert(options, out), 0);
  return out.str();
}

TEST(Convert, WritesAStateDictAsOneFileInWhichEveryBitIsTheSame) {
  const TemporaryFolder home;
  const auto file = home.path() / "new" / "net.safetensors";
  const auto said = convert({golden("module_state"), file});
  EXPECT_EQ(contents(file), contents(golden("module_state")));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "9 tensors, ", said);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, file.string(), said);
  EXPECT_EQ(SafetensorsFile::open(file).metadata().at("format"), "pt");
}

TEST(Convert, KeepsEveryElementType) {
  const TemporaryFolder home;
  convert({golden("dtypes"), home.path()});
  EXPECT_EQ(contents(home.path()), contents(golden("dtypes")));
  EXPECT_EQ(contents(home.path()).size(), 19U);
}

TEST(Convert, MakesTensorsRowMajorAndKeepsTiedOnesOnce) {
  const TemporaryFolder home;
  const auto said = convert({golden("script"), home.path(), "", 60});
  auto expected = contents(golden("script"));
  EXPECT_EQ(expected.erase("b.weight"), 1U);
  EXPECT_EQ(contents(home.path()), expected);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "b.weight is the same memory as a.weight", said);
  EXPECT_TRUE(std::filesystem::exists(home.path() / "model.safetensors.index.json"));
  EXPECT_TRUE(std::filesystem::exists(home.path() / "model-00001-of-00003.safetensors")) << said;
}

TEST(Convert, DealsSafetensorsOutAnewAndKeepsTheirMetadata) {
  const TemporaryFolder home;
  const std::string data = "123456";
  const auto bytes = testing::as_bytes(data);
  write_safetensors(
      real_file_system(), home.path() / "one.safetensors",
      {{{"a", DType::u8, {3}}, bytes.first(3)}, {{"b", DType::u8, {3}}, bytes.last(3)}},
      {.metadata = {{"author", "x"}}});
  convert({home.path() / "one.safetensors", home.path() / "out", "", 3});
  EXPECT_EQ(contents(home.path() / "out"), contents(home.path() / "one.safetensors"));
  const auto first = SafetensorsFile::open(home.path() / "out/model-00001-of-00002.safetensors");
  EXPECT_EQ(first.metadata(), (SafetensorsMetadata{{"author", "x"}, {"format", "pt"}}));
  convert({home.path() / "out/model.safetensors.index.json", home.path() / "again.safetensors"});
  EXPECT_EQ(contents(home.path() / "again.safetensors"), contents(home.path() / "out"));
}

// A tensor of many floats that is one float as often.
Path write_repeated(const Path& folder, std::uint32_t times) {
  const std::string zero("K\0", 2);
  const auto tensor = testing::tensor_operations(zero, "J" + testing::number(times, 4) + "\x85",
                                                 zero + "\x85", "K\1");
  const auto dict = testing::pickle("}(" + testing::text("weight") + tensor + "u");
  std::ofstream(folder / "net.pt", std::ios::binary)
      << testing::archive_of(dict, {std::string(4, 'x')});
  return folder / "net.pt";
}

TEST(Convert, WritesMoreThanTheStorageHoldsOnlyWhenTold) {
  const TemporaryFolder home;
  const auto source = write_repeated(home.path(), 300'000);
  const auto file = home.path() / "net.safetensors";
  try {
    convert({source, file});
    ADD_FAILURE();
  } catch (const CheckpointError& error) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                        "'weight' repeats elements of its storage, or shares", error.what());
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "--expand", error.what());
  }
  EXPECT_FALSE(std::filesystem::exists(file));
  convert({.source = source, .destination = file, .expand = true});
  EXPECT_EQ(contents(file).at("weight"), "F32 300000" + std::string(1'200'000, 'x'));
  convert({write_repeated(home.path(), 64), home.path() / "small.safetensors"});
}

TEST(Convert, ReplacesAFolderByItselfInOtherShards) {
  const TemporaryFolder home;
  convert({golden("module_state"), home.path()});
  const auto expected = contents(home.path());
  convert({home.path(), home.path(), "", 50, true});
  EXPECT_FALSE(std::filesystem::exists(home.path() / "model.safetensors"));
  EXPECT_EQ(contents(home.path()), expected);
}

// A dict with a number, and a state dict below "model".
std::string wrapped() {
  return testing::archive_of(
      testing::pickle(
          "}(" + testing::text("epoch") + "K\3" + testing::text("model") + "}" +
          testing::text("w") +
          testing::tensor_operations(std::string("K\0", 2), "K\6\x85", "K\1\x85", "K\6") + "su"),
      {std::string(24, '\1')});
}

TEST(Convert, TakesWhatIsBelowAKey) {
  const TemporaryFolder home;
  const auto source = home.write("epoch3.ckpt", wrapped());
  convert({source, home.path() / "out.safetensors", "model"});
  EXPECT_EQ(contents(home.path() / "out.safetensors").at("w"), "F32 6" + std::string(24, '\1'));
}

// A state dict with a name that a file of safetensors cannot have.
std::string reserved_name() {
  return testing::archive_of(
      testing::pickle(
          "}(" + testing::text("__metadata__") +
          testing::tensor_operations(std::string("K\0", 2), "K\6\x85", "K\1\x85", "K\6") + "u"),
      {std::string(24, '\1')});
}

struct BadCall {
  const char* what;
  Names words;
  int exit_code;
  const char* says;
};

TEST(Convert, BadCallsAreRefusedAndLeaveWhatIsThere) {
  const std::string good = golden("module_state").string();
  const BadCall cases[] = {
      {"nothing", {}, 2, "SRC is required"},
      {"no destination", {good}, 2, "DST is required"},
      {"no source", {"none.bin", "out"}, 1, "there are no weights at none.bin"},
      {"a taken file", {good, "taken.safetensors"}, 2, "is there already.*--force"},
      {"a taken folder", {good, "taken"}, 2, "model.safetensors' is there already.*--force"},
      {"a folder as a file", {good, "folder.safetensors"}, 2, "and is a folder"},
      {"a file as a folder", {good, "file"}, 2, "is to be a folder, and is a file"},
      {"a size for a file", {good, "x.safetensors", "--max_shard_size", "1GB"}, 2, "leave one"},
      {"no size", {good, "out", "--max_shard_size", "1 elephant"}, 2, "is not a shard size"},
      {"shards of nothing", {good, "out", "--max_shard_size", "0"}, 2, "'0' is not a shard size"},
      {"and in KB", {good, "out", "--max_shard_size", "0KB"}, 2, "'0KB' is not a shard size"},
      {"an empty source", {"", "out"}, 2, "SRC is empty"},
      {"an empty destination", {good, ""}, 2, "DST is empty"},
      {"an index of nothing", {"none.safetensors.index.json", "out"}, 1, "weight_map is empty"},
      {"a name of safetensors", {"refused.bin", "new/out"}, 1, "__metadata__"},
      {"an unknown flag", {good, "out", "--forse"}, 2, "--forse"},
      {"another extension", {"file", "out"}, 1, "extension that is not known"},
      {"a wrapped dict", {"wrapped.ckpt", "out"}, 1, "below 'model'.*--key"},
      {"another key", {"wrapped.ckpt", "out", "--key", "module"}, 1, "below the key 'module'"},
      {"a key of no state", {"wrapped.ckpt", "out", "--key", "epoch"}, 1, "the number 3"},
      {"a key of safetensors", {"taken", "out", "--key", "model"}, 1, "leave the key out"},
      {"a program", {golden("refused_function").string(), "out"}, 1, "__builtin__.print"},
      {"a damaged file", {"cut.bin", "out"}, 1, "cut short"},
      {"no permission", {good, "/proc/none/out"}, 1, "were not saved"},
  };
  const std::string whole = testing::read_reference("torch_archive/module_state.pt");
  for (const auto& [what, words, exit_code, says] : cases) {
    const TemporaryFolder home;
    home.write("taken.safetensors", "mine");
    std::filesystem::create_directory(home.path() / "taken");
    home.write("taken/model.safetensors", "mine");
    home.write("file", "mine");
    home.write("wrapped.ckpt", wrapped());
    home.write("none.safetensors.index.json", R"({"weight_map":{}})");
    home.write("refused.bin", reserved_name());
    home.write("cut.bin", whole.substr(0, whole.size() / 2));
    std::filesystem::create_directory(home.path() / "folder.safetensors");
    const auto before = real_file_system().list(home.path());
    Names command = {testing::accelerate_program(), "convert"};
    command.insert(command.end(), words.begin(), words.end());
    const auto result = testing::run_program(
        command,
        {.env = {}, .timeout = std::chrono::seconds(10), .working_directory = home.path()});
    EXPECT_EQ(result.exit_code, exit_code) << what << ": " << result.err;
    EXPECT_TRUE(std::regex_search(result.err, std::regex(says))) << what << ": " << result.err;
    EXPECT_EQ(real_file_system().list(home.path()), before) << what;
    EXPECT_EQ(real_file_system().status(home.path() / "taken/model.safetensors").size_bytes, 4U);
  }
}

}  // namespace
}  // namespace accelerate::cli
