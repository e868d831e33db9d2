// What FSDP of Python Accelerate saved: goldens that tests/reference/fsdp_folders.py wrote, copies of
// them that are damaged in one way, and hostile tables of contents that are made here.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <regex>

#include "accelerate/base/bytes.h"
#include "accelerate/formats/shards/distcp_metadata.h"
#include "accelerate/formats/shards/fsdp_files.h"
#include "accelerate/formats/shards/merged_weights.h"
#include "tests/formats/shard_support.h"
#include "tests/formats/torch_archive_support.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::TemporaryFolder;
using Path = std::filesystem::path;

const Path kDistcp = "fsdp_folders/fsdp1_sgd", kRanks = "fsdp_folders/fsdp2_ranks";

Path golden(const Path& name) {
  return testing::reference_path(name.string());
}

void expect_merges_to(const Path& source, const Path& expected, MergeWeightsOptions options = {}) {
  const TemporaryFolder home;
  merge_weights(source, home.path() / "out", options);
  const auto merged = SafetensorsFile::open(home.path() / "out/model.safetensors");
  const auto whole = SafetensorsFile::open(expected);
  ASSERT_EQ(merged.tensors().size(), whole.tensors().size());
  for (const StoredTensor& tensor : whole.tensors()) {
    const StoredTensor& found = merged.at(tensor.name);
    EXPECT_EQ(found.shape, tensor.shape) << tensor.name;
    EXPECT_EQ(found.dtype, tensor.dtype) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(found.bytes, tensor.bytes)) << tensor.name;
  }
}

TEST(FsdpFolders, AStateFolderMergesToTheWholeWeights) {
  expect_merges_to(golden(kDistcp), golden("fsdp_folders/fsdp1_sgd.safetensors"));
  expect_merges_to(golden(kRanks), golden("fsdp_folders/fsdp2_ranks.safetensors"));
}

TEST(FsdpFolders, TheFolderOfAModelMergesToo) {
  expect_merges_to(golden(kDistcp / "pytorch_model_fsdp_0"),
                   golden("fsdp_folders/fsdp1_sgd.safetensors"));
}

TEST(FsdpFolders, OneOfSeveralModelsIsNamed) {
  const TemporaryFolder home;
  const Path state = home.path() / "state";
  std::filesystem::copy(golden(kDistcp), state, std::filesystem::copy_options::recursive);
  for (const char* rank : {"0", "1"})
    std::filesystem::copy(
        golden(kRanks / ("pytorch_model_fsdp_0_rank" + std::string(rank) + ".bin")),
        state / ("pytorch_model_fsdp_1_rank" + std::string(rank) + ".bin"));
  expect_merges_to(state, golden("fsdp_folders/fsdp2_ranks.safetensors"), {.model = "model_1"});
  EXPECT_THROW(expect_merges_to(state, golden("fsdp_folders/fsdp1_sgd.safetensors")),
               CheckpointError);
}

TEST(FsdpFolders, AnOptimizerHasTensorsValuesAndTheirKeys) {
  for (const auto& folder : {kDistcp, kRanks}) {
    const auto found = fsdp_files_in(golden(folder), kFsdpOptimizer, 0);
    ASSERT_TRUE(found);
    const auto state = open_fsdp_files(*found);
    const std::string field = folder == kDistcp ? "momentum_buffer" : "exp_avg";
    const std::string name = "state.first.weight." + field;
    EXPECT_EQ(state.tensors.at(name).shape, (std::vector<std::int64_t>{5, 4}));
    EXPECT_EQ(state.paths.at(name), (std::vector<std::string>{"state", "first.weight", field}));
    EXPECT_GT(*state.values.at("param_groups.1.lr").value.as<double>(), 0);
    EXPECT_EQ(state.values.at("param_groups.0.params").value.items().size(), 2U);
  }
}

// --- damaged folders -----------------------------------------------------------------------------

void replace(const Path& path, const std::string& old, const std::string& fresh) {
  std::string text = testing::file_text(path);
  const auto at = text.find(old);
  ASSERT_NE(at, std::string::npos) << path;
  std::ofstream(path, std::ios::binary) << text.replace(at, old.size(), fresh);
}

struct Damage {
  const char* what;
  Path from;
  std::function<void(const Path& folder)> make;
  const char* says;
};

const std::vector<Damage>& damages() {
  static const Path kModel = "pytorch_model_fsdp_0";
  static const std::vector<Damage> all = {
      {"a file of a rank is missing", kDistcp,
       [](const Path& p) { std::filesystem::remove(p / kModel / "__1_0.distcp"); },
       "__1_0.distcp'; were all files of the checkpoint copied"},
      {"a file of a rank is cut short", kDistcp,
       [](const Path& p) { std::filesystem::resize_file(p / kModel / "__0_0.distcp", 5000); },
       "cannot read 'model\\..*__0_0.distcp', at its byte \\d+: it should have 1577 bytes"},
      {"another rank's file", kDistcp,
       [](const Path& p) {
         std::filesystem::copy_file(p / kModel / "__0_0.distcp", p / kModel / "__1_0.distcp",
                                    std::filesystem::copy_options::overwrite_existing);
       },
       "'model\\..* in '.*__1_0.distcp' is a tensor F32 .*, and .metadata says F32"},
      {"no table of contents", kDistcp,
       [](const Path& p) { std::filesystem::remove(p / kModel / ".metadata"); },
       "holds no weights"},
      {"a file outside", kDistcp,
       [](const Path& p) { replace(p / kModel / ".metadata", "__0_0.distcp", "../0_0.distc"); },
       "lies in '../0_0.distc'; only the name of a file in the same folder"},
      {"a class that is not listed", kDistcp,
       [](const Path& p) { replace(p / kModel / ".metadata", "StorageMeta", "StorageMeto"); },
       "\\.metadata'.*asks for 'torch.distributed.checkpoint.metadata.TensorStorageMetodata'"},
      {"a program in the place of a path", kDistcp,
       [](const Path& p) { replace(p / kModel / ".metadata", "pathlib", "os.path"); },
       "asks for 'os.path.PosixPath'"},
      {"an empty table", kDistcp, [](const Path& p) { std::ofstream(p / kModel / ".metadata"); },
       "its pickle ends in the middle"},
      {"the second rank's file is missing", kRanks,
       [](const Path& p) { std::filesystem::remove(p / "pytorch_model_fsdp_0_rank1.bin"); },
       "of it is in none of the 1 files that were read: a shard is missing"},
      {"the first rank's file is missing", kRanks,
       [](const Path& p) { std::filesystem::remove(p / "pytorch_model_fsdp_0_rank0.bin"); },
       "pytorch_model_fsdp_0_rank0.bin' is missing, and .*_rank1.bin' is there"},
      {"two forms", kRanks,
       [](const Path& p) { std::ofstream(p / "pytorch_model_fsdp.bin") << "x"; },
       "there are both '.*_rank0.bin' and '.*fsdp.bin'"},
      {"the file of a whole model too", kRanks,
       [](const Path& p) { std::ofstream(p / "model.safetensors") << "x"; },
       "holds both 'model.safetensors' and 'pytorch_model_fsdp_0_rank0.bin'"},
      {"the class of a tensor is another", kRanks,
       [](const Path& p) {
         replace(p / "pytorch_model_fsdp_0_rank0.bin", "torch.distributed.tensor\nDTensor",
                 "torch.distributed.tensor\nBTensor");
       },
       "rank0.bin'.*asks for 'torch.distributed.tensor.BTensor'"},
  };
  return all;
}

TEST(FsdpFolders, DamagedFoldersAreRefusedByASentenceThatNamesFileAndTensor) {
  for (const Damage& damage : damages()) {
    SCOPED_TRACE(damage.what);
    const TemporaryFolder home;
    const Path folder = home.path() / "state";
    std::filesystem::copy(golden(damage.from), folder, std::filesystem::copy_options::recursive);
    damage.make(folder);
    const auto message =
        testing::message_of<CheckpointError>([&] { merge_weights(folder, home.path() / "out"); });
    EXPECT_TRUE(std::regex_search(message, std::regex(damage.says))) << message;
    EXPECT_FALSE(std::filesystem::exists(home.path() / "out"));
  }
}

TEST(FsdpFolders, AnOptimizerIsNoModel) {
  const TemporaryFolder home;
  const auto message = testing::message_of<CheckpointError>(
      [&] { merge_weights(golden(kDistcp / "optimizer_0"), home.path() / "out"); });
  EXPECT_NE(message.find("'param_groups.0."), std::string::npos) << message;
}

// --- hostile tables of contents ------------------------------------------------------------------

using testing::text;

std::string in_metadata(const std::string& name) {
  return "ctorch.distributed.checkpoint.metadata\n" + name + "\n";
}

std::string dict(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string all = "}(";
  for (const auto& [key, value] : entries) all += key + value;
  return all + "u";
}

std::string object(const std::string& global,
                   const std::vector<std::pair<std::string, std::string>>& attributes) {
  return global + ")\x81" + dict(attributes) + "b";
}

std::string size_of(const std::string& tuple) {
  return "ctorch\nSize\n" + tuple + "\x85R";
}

// A table of one tensor "w" of the shape {2}, made of these operations.
struct Table {
  std::string shape = "K\2\x85", offset = {}, size = "K\2\x85";
  std::string file = text("a.distcp"), begin = {}, length = "K\7";
  std::string extra = {};  // More of the place's attributes.
  std::string dtype = "ctorch\nfloat32\n";

  [[nodiscard]] std::string bytes() const {
    const auto chunk = object(in_metadata("ChunkStorageMetadata"),
                              {{text("offsets"), size_of(offset)}, {text("sizes"), size_of(size)}});
    const auto properties = in_metadata("TensorProperties") + ")\x81(" + dtype + "NN\x89\x89tb";
    const auto tensor =
        object(in_metadata("TensorStorageMetadata"), {{text("properties"), properties},
                                                      {text("size"), size_of(shape)},
                                                      {text("chunks"), "](" + chunk + "e"}});
    const auto key = object(in_metadata("MetadataIndex"),
                            {{text("fqn"), text("w")}, {text("offset"), size_of(offset)}});
    const auto place = "ctorch.distributed.checkpoint.filesystem\n_StorageInfo\n)\x81}(" +
                       text("relative_path") + file + text("offset") + begin + text("length") +
                       length + extra + "ub";
    return testing::pickle(
        object(in_metadata("Metadata"), {{text("state_dict_metadata"), dict({{text("w"), tensor}})},
                                         {text("storage_data"), dict({{key, place}})}}));
  }
};

std::string table_refusal(const std::string& bytes) {
  try {
    (void)read_distcp_metadata(testing::as_bytes(bytes));
    return "";
  } catch (const CheckpointError& error) {
    return error.what();
  }
}

TEST(DistcpMetadata, HostileTablesAreRefused) {
  const std::string zero("K\0", 2), zero_tuple = zero + "\x85";
  const auto table = [&](const std::function<void(Table&)>& change) {
    Table made;
    made.offset = zero_tuple;
    made.begin = zero;
    change(made);
    return made.bytes();
  };
  EXPECT_EQ(table_refusal(table([](Table&) {})), "");
  const std::string minus_one = "J\xff\xff\xff\xff",
                    huge = "\x8a\x09" + std::string(8, '\xff') + "\x01";
  const struct {
    const char* what;
    std::string bytes;
    const char* says;
  } cases[] = {
      {"a program", testing::pickle("cposix\nsystem\n" + text("ls") + "\x85R"), "posix.system"},
      {"getattr", testing::pickle("cbuiltins\ngetattr\nNN\x86R"), "builtins.getattr"},
      {"another value", testing::pickle("N"), "not one of torch.distributed.checkpoint's Metadata"},
      {"a negative offset", table([&](Table& t) { t.begin = minus_one; }), "'offset' of 'w'"},
      {"an offset beyond 64 bits", table([&](Table& t) { t.begin = huge; }), "'offset' of 'w'"},
      {"a negative length", table([&](Table& t) { t.length = minus_one; }), "'length' of 'w'"},
      {"a negative size", table([&](Table& t) { t.size = minus_one + "\x85"; }),
       "number from 0 on"},
      {"a negative shape", table([&](Table& t) { t.shape = minus_one + "\x85"; }),
       "number from 0 on"},
      {"an absolute path", table([](Table& t) { t.file = text("/etc/passwd"); }), "same folder"},
      {"a path upwards", table([](Table& t) { t.file = text(".."); }), "same folder"},
      {"a path of Windows", table([](Table& t) { t.file = text("C:\\x"); }), "same folder"},
      {"a name with a zero byte", table([](Table& t) { t.file = text(std::string("a\0b", 3)); }),
       "same folder"},
      {"no name", table([](Table& t) { t.file = text(""); }), "same folder"},
      {"a name that is no text", table([](Table& t) { t.file = "N"; }), "same folder"},
      {"compression", table([](Table& t) {
         t.extra = text("transform_descriptors") + "](" + text("stream.zstd") + "e";
       }),
       "extension 'stream.zstd'"},
      {"no type", table([](Table& t) { t.dtype = "N"; }), "of which type"},
      {"a type that is not held", table([](Table& t) { t.dtype = "ctorch\ncomplex128\n"; }),
       "torch.complex128"},
      {"a shape that is no tuple", table([](Table& t) { t.shape = "K\2"; }), "no torch.Size"},
      {"shapes as deep as a list holds itself", table([](Table& t) { t.shape = "]2a\x85"; }),
       "something other than a number"},
  };
  for (const auto& [what, bytes, says] : cases)
    EXPECT_NE(table_refusal(bytes).find(says), std::string::npos)
        << what << ": " << table_refusal(bytes);
}

TEST(DistcpMetadata, CutsAndFlippedBitsAreRefusedOrReadWithinTheFile) {
  const auto whole = testing::file_text(golden(kDistcp / "pytorch_model_fsdp_0/.metadata"));
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(table_refusal(whole.substr(0, size)), "") << size;
  int taken = 0;
  for (std::size_t bit = 0; bit < 8 * whole.size(); bit += 3) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    taken += table_refusal(bytes).empty() ? 1 : 0;
  }
  EXPECT_GT(taken, 100) << "names may change unseen";
}

// Changes bytes of every file of a folder at random; what can be opened must have its bytes.
void mutate(const Path& from, const std::function<void(const Path&)>& open_and_read) {
  const TemporaryFolder home;
  std::vector<std::pair<Path, std::string>> files;
  for (const auto& entry : std::filesystem::directory_iterator(from))
    files.emplace_back(home.path() / entry.path().filename(), testing::file_text(entry.path()));
  for (const auto& [path, text] : files) std::ofstream(path, std::ios::binary) << text;
  std::mt19937_64 random(20261127);
  int taken = 0;
  constexpr int kRounds = 300;  // tests/fuzz tries more.
  for (int i = 0; i < kRounds; ++i) {
    const auto& [path, whole] = files[random() % files.size()];
    std::string bytes = whole;
    for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits)
      bytes[random() % bytes.size()] =
          static_cast<char>(random() % 4 == 0 ? random() : random() % 8);
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      open_and_read(home.path());
      ++taken;
    } catch (const CheckpointError&) {
    }
    std::ofstream(path, std::ios::binary) << whole;
  }
  EXPECT_GT(taken, 2) << "changes of the data are not seen";
  EXPECT_LT(taken, kRounds);
}

TEST(FsdpFolders, ChangedBytesAreRefusedOrReadWithinTheFiles) {
  const auto read = [](const ShardCatalogue& catalogue) {
    for (const auto& tensor : catalogue.tensors()) (void)testing::read_whole(tensor);
  };
  mutate(golden(kDistcp / "pytorch_model_fsdp_0"),
         [&](const Path& folder) { read(open_distcp(folder).tensors); });
  mutate(golden(kRanks), [&](const Path& folder) {
    read(open_fsdp_model(fsdp_files_in(folder, kFsdpModel, 0).value()));
  });
}

}  // namespace
}  // namespace accelerate
