// Folders of FSDP's LOCAL_STATE_DICT that are damaged, hostile or incomplete, or of another model:
// refused by file and cure, and nothing changes.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "tests/formats/torch_archive_support.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/pairwise.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using Path = std::filesystem::path;
using testing::TemporaryFolder;

const std::string kLocalFirst = "pytorch_model_fsdp_rank0.bin";
const std::string kLocalSecond = "pytorch_model_fsdp_rank1.bin";

// The network of tests/reference/fsdp_folders.py, if `width` is 5.
struct LocalNetImpl : torch::nn::Module {
  explicit LocalNetImpl(std::int64_t width) {
    first = register_module("first", torch::nn::Linear(4, width));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    last = register_module("last", torch::nn::Linear(width, 2));
    shift = register_buffer("shift", torch::zeros({3}));
  }
  torch::nn::Linear first{nullptr}, last{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  at::Tensor shift;
};
TORCH_MODULE(LocalNet);

Path local_golden() {
  return testing::reference_path("fsdp_folders") / "fsdp1_local";
}

// A copy of the golden folder with the files of the model alone.
struct LocalCopy {
  LocalCopy() {
    for (const auto& name : {kLocalFirst, kLocalSecond})
      std::filesystem::copy(local_golden() / name, file(name));
  }
  [[nodiscard]] Path file(const std::string& name) const { return home.path() / name; }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(file(name), std::ios::binary) << bytes;
  }
  // Replaces the first text `from` behind the first `after` by another of the same length.
  void replace(const std::string& name, const std::string& from, const std::string& to,
               const std::string& after = "") const {
    ASSERT_EQ(from.size(), to.size());
    std::string bytes = testing::file_text(file(name));
    auto at = bytes.find(from, bytes.find(after));
    ASSERT_NE(at, std::string::npos) << from;
    bytes.replace(at, from.size(), to);
    write(name, bytes);
  }

  TemporaryFolder home;
};

void load_local(const Path& folder, std::int64_t width) {
  Accelerator accelerator({.communicator = single_communicator()});
  LocalNet net(width);
  auto model = accelerator.prepare(net);
  const auto before = net->first->weight.clone();
  try {
    accelerator.load_state(folder);
  } catch (const Error&) {
    EXPECT_TRUE(torch::equal(before, net->first->weight));
    throw;
  }
}

// --- files that are made here --------------------------------------------------------------------

std::string attributes_of(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string all = ")\x81N}(";
  for (const auto& [key, value] : entries) all += testing::text(key) + value;
  return all + "u\x86" + "b";
}

// What a file says of `first._flat_param`: operations that push numbers.
struct FlatClaims {
  std::string size = "K\x1a\x85", offset = std::string("K\0", 2), length = "K\4";
  std::string type = "Float";
};

// A file of a rank that has `first._flat_param` alone, with four elements.
std::string file_of_rank(const FlatClaims& claims) {
  const std::string package = "ctorch.distributed._shard.", zero("K\0", 2);
  const std::string tensor =
      testing::tensor_operations(zero, "K\4\x85", "K\1\x85", "K\4", claims.type);
  const std::string place = package + "metadata\nShardMetadata\n" +
                            attributes_of({{"shard_offsets", "]" + claims.offset + "a"},
                                           {"shard_sizes", "]" + claims.length + "a"}});
  const std::string shard = package + "sharded_tensor.shard\nShard\n" +
                            attributes_of({{"tensor", tensor}, {"metadata", place}});
  const std::string metadata = package + "sharded_tensor.metadata\nShardedTensorMetadata\n" +
                               attributes_of({{"tensor_properties", "N"},
                                              {"size", "ctorch\nSize\n" + claims.size + "\x85R"}});
  const std::string sharded =
      "ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_wrapper_subclass\n" +
      package + "sharded_tensor.api\nShardedTensor\n)](" + shard + "e" + metadata + "\x86tR";
  return testing::archive_of(
      testing::pickle("}" + testing::text("first._flat_param") + sharded + "s"),
      {std::string(16, '\1')});
}

void write_made(const LocalCopy& copy, const FlatClaims& first, const FlatClaims& second) {
  copy.write(kLocalFirst, file_of_rank(first));
  copy.write(kLocalSecond, file_of_rank(second));
}

// --- the table -----------------------------------------------------------------------------------

struct LocalDamage {
  const char* what;
  std::function<void(const LocalCopy&)> make;
  std::string says;
  std::int64_t width = 5;
};

std::vector<LocalDamage> local_folders() {
  namespace fs = std::filesystem;
  return {
      {"the first rank is missing", [](const LocalCopy& c) { fs::remove(c.file(kLocalFirst)); },
       kLocalFirst + "' is missing, and .*" + kLocalSecond + "' is there: every rank's file"},
      {"the second rank is missing", [](const LocalCopy& c) { fs::remove(c.file(kLocalSecond)); },
       kLocalFirst + ".*30 elements, and 15 are in the files: is a rank's file missing"},
      {"a rank more",
       [](const LocalCopy& c) {
         fs::copy(c.file(kLocalSecond), c.file("pytorch_model_fsdp_rank2.bin"));
       },
       "rank2.bin.*does not follow that of the rank before: .*Copy all files of one save"},
      {"the same rank twice",
       [](const LocalCopy& c) {
         fs::copy(c.file(kLocalFirst), c.file(kLocalSecond), fs::copy_options::overwrite_existing);
       },
       kLocalSecond + ".*does not follow that of the rank before"},
      {"a link to nothing",
       [](const LocalCopy& c) {
         fs::remove(c.file(kLocalSecond));
         fs::create_symlink("/nowhere", c.file(kLocalSecond));
       },
       kLocalSecond},
      {"two forms",
       [](const LocalCopy& c) {
         fs::copy(c.file(kLocalFirst), c.file("pytorch_model_fsdp_0_rank0.bin"));
       },
       "there are both .*which of them is to be read"},
      {"another model", [](const LocalCopy&) {},
       kLocalSecond + ".*which do not fit the parameters of the model: was another model saved", 6},
  };
}

std::vector<LocalDamage> local_files() {
  const std::string evil = "cposix\nsystem\n(" + testing::text("touch /tmp/x") + "tR";
  return {
      {"empty", [](const LocalCopy& c) { c.write(kLocalFirst, ""); }, kLocalFirst + ".*is empty"},
      {"cut short",
       [](const LocalCopy& c) { std::filesystem::resize_file(c.file(kLocalSecond), 3000); },
       kLocalSecond},
      {"a program",
       [evil](const LocalCopy& c) {
         c.write(kLocalFirst, testing::archive_of(testing::pickle(evil)));
       },
       kLocalFirst + ".*asks for 'posix.system'"},
      {"a program in the place of a tensor",
       [evil](const LocalCopy& c) {
         c.write(kLocalFirst, testing::archive_of(testing::pickle(
                                  "}" + testing::text("first._flat_param") + evil + "s")));
       },
       kLocalFirst + ".*asks for 'posix.system'"},
      {"another class",
       [](const LocalCopy& c) { c.replace(kLocalFirst, "ShardedTensor\n", "ShardedTensoX\n"); },
       kLocalFirst + ".*asks for '.*ShardedTensoX'"},
      {"a list",
       [](const LocalCopy& c) { c.write(kLocalFirst, testing::archive_of(testing::pickle("]"))); },
       kLocalFirst + ".*not the state of a rank"},
      {"the parts' place is another than their shape",
       [](const LocalCopy& c) {
         c.replace(kLocalFirst,
                   "K\x0d"
                   "a",
                   "K\x0c"
                   "a",
                   "shard_sizes");
       },
       kLocalFirst + ".*has the shape \\[13\\], not the shape that its place says"},
      {"ranks that say different sizes",
       [](const LocalCopy& c) { write_made(c, {}, {.size = "K\x1b\x85", .offset = "K\4"}); },
       kLocalSecond + ".*has 27 elements here and 26 there: are files of several saves mixed"},
      {"parts that overlap", [](const LocalCopy& c) { write_made(c, {}, {.offset = "K\3"}); },
       kLocalSecond + ".*does not follow that of the rank before"},
      {"a hole", [](const LocalCopy& c) { write_made(c, {}, {.offset = "K\5"}); },
       kLocalSecond + ".*does not follow that of the rank before"},
      {"more elements than it says",
       [](const LocalCopy& c) {
         write_made(c, {.size = "K\6\x85"}, {.size = "K\6\x85", .offset = "K\4"});
       },
       kLocalSecond},
      {"fewer elements than it says",
       [](const LocalCopy& c) { write_made(c, {}, {.offset = "K\4"}); },
       kLocalSecond + ".*has 26 elements, and 8 are in the files"},
      {"another type in another rank",
       [](const LocalCopy& c) {
         write_made(c, {.size = "K\x08\x85"},
                    {.size = "K\x08\x85", .offset = "K\4", .type = "Int"});
       },
       kLocalSecond},
      {"two dimensions", [](const LocalCopy& c) { write_made(c, {.size = "K\4K\1\x86"}, {}); },
       kLocalFirst},
      {"no dimension", [](const LocalCopy& c) { write_made(c, {.size = ")"}, {}); }, kLocalFirst},
  };
}

std::vector<LocalDamage> local_numbers() {
  const std::string most = "\x8a\x08" + std::string(7, '\xff') + "\x7f";
  const std::string beyond = "\x8a\x09" + std::string(8, '\xff') + "\x01";
  const std::string minus_one = "J\xff\xff\xff\xff";
  const auto said = [](FlatClaims claims) {
    return [claims](const LocalCopy& c) { write_made(c, claims, claims); };
  };
  return {
      {"the largest size", said({.size = most + "\x85"}), kLocalSecond},
      {"a size beyond 64 bits", said({.size = beyond + "\x85"}), kLocalFirst},
      {"a size below zero", said({.size = minus_one + "\x85"}), kLocalFirst},
      {"an offset whose end overflows", said({.size = most + "\x85", .offset = most}), kLocalFirst},
      {"an offset below zero", said({.offset = minus_one}), kLocalFirst},
      {"an offset beyond 64 bits", said({.offset = beyond}), kLocalFirst},
      {"a length that overflows", said({.size = most + "\x85", .length = most}), kLocalFirst},
      {"a length below zero", said({.length = minus_one}), kLocalFirst},
      {"sizes whose product overflows", said({.size = most + most + "\x86"}), kLocalFirst},
  };
}

TEST(LocalStates, WhatDoesNotFitIsRefusedByFileAndCureAndNothingChanges) {
  for (const auto& table : {local_folders(), local_files(), local_numbers()}) {
    for (const LocalDamage& damage : table) {
      SCOPED_TRACE(damage.what);
      const LocalCopy copy;
      damage.make(copy);
      if (HasFatalFailure()) return;
      auto message =
          testing::message_of<CheckpointError>([&] { load_local(copy.home.path(), damage.width); });
      std::ranges::replace(message, '\n', ' ');
      EXPECT_TRUE(std::regex_search(message, std::regex(damage.says))) << message;
      EXPECT_LT(message.size(), 800U);
    }
  }
}

// Whatever bytes are changed or cut off, the folder is refused or read, without a crash.
TEST(LocalStates, FlippedBitsAndCutFilesNeverCrash) {
  const LocalCopy copy;
  load_local(copy.home.path(), 5);
  std::mt19937 random(11);
  int refused = 0;
  const int rounds = testing::extended() ? 5000 : 200;
  for (int i = 0; i < rounds; ++i) {
    const std::string& name = random() % 2 == 0 ? kLocalFirst : kLocalSecond;
    const std::string whole = testing::file_text(copy.file(name));
    std::string bytes = whole;
    if (i % 5 == 0) {
      bytes.resize(random() % bytes.size());
    } else {
      const auto at = random() % bytes.size();
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
    }
    copy.write(name, bytes);
    try {
      load_local(copy.home.path(), 5);
    } catch (const CheckpointError&) {
      ++refused;
    }
    copy.write(name, whole);
  }
  EXPECT_GT(refused, rounds / 4);
}

}  // namespace
}  // namespace accelerate
