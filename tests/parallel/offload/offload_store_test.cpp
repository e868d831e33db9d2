// Values that live in files: what for_each_slice() shows, whose state is whose, disks that are full
// or fail.
#include "accelerate/parallel/offload/offload_store.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "accelerate/base/lost_pages.h"
#include "accelerate/parallel/offload/slice_stream.h"
#include "tests/support/errors.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using detail::OffloadStore;
using detail::RowPart;
using detail::SliceUse;
using detail::StoredRow;
using Kind = OffloadStore::Kind;
using testing::message_of;

// A store with two slices of fp32 parameters.
class OffloadStores : public ::testing::Test {
 protected:
  static constexpr std::int64_t kLarge = (std::int64_t{2} << 20) + 4097 * 3;

  void SetUp() override {
    store.add(Kind::parameters, 0, {at::kFloat, at::kFloat});
    for (std::size_t i = 0; i < 2; ++i) {
      parameters.push_back(store.slice(Kind::parameters, 0, i));
      store.know(parameters[i], i, 0);
    }
  }
  [[nodiscard]] fs::path file(const std::string& name) const {
    for (const auto& entry : fs::recursive_directory_iterator(root.path())) {
      if (entry.path().filename().string() == name) return entry.path();
    }
    throw std::runtime_error("no file " + name);
  }

  testing::TemporaryFolder root;
  std::shared_ptr<OffloadStore> owner =
      OffloadStore::make({root.path(), root.path()}, "1-2", 0, {1000, kLarge});
  OffloadStore& store = *owner;
  std::vector<at::Tensor> parameters;
};

// Pieces end between elements of a page's alignment; some elements lie in no row.
TEST_F(OffloadStores, ShowEachElementOnceAndKeepWhatIsWritten) {
  const at::Tensor values = torch::arange(kLarge, at::kFloat);
  store.write(parameters[1], values).wait();
  const at::Tensor in_memory = values.narrow(0, 7, kLarge - 20'000) * 2;
  std::vector<StoredRow> rows = {
      {{parameters[1].narrow(0, 7, kLarge - 20'000), in_memory}},
      {{parameters[1].narrow(0, kLarge - 300, 200), values.narrow(0, kLarge - 300, 200)}},
      {{parameters[0].narrow(0, 5, 0), in_memory.narrow(0, 0, 0)}}};
  std::vector<std::int64_t> shown(rows.size());
  for_each_slice(store, rows, {SliceUse::update, SliceUse::read},
                 [&](const std::vector<RowPart>& parts) {
                   for (const auto& part : parts) {
                     shown[part.row] += part.tensors[0].numel();
                     part.tensors[0].sub_(part.tensors[1]);
                   }
                 });
  EXPECT_EQ(shown, (std::vector<std::int64_t>{kLarge - 20'000, 200, 0}));
  at::Tensor expected = values.clone();
  expected.narrow(0, 7, kLarge - 20'000).neg_();
  expected.narrow(0, kLarge - 300, 200).zero_();
  EXPECT_TRUE(parameters[1].equal(expected));
}

TEST_F(OffloadStores, KeepTheStatesOfTwoOptimizersApart) {
  const at::Tensor of_first = store.take_zero_state(parameters[0], 1);
  const auto bytes = store.bytes();
  store.reserve_state(parameters[1], 1);
  EXPECT_EQ(store.bytes(), bytes) << "other parameters have room in the same file";
  of_first.fill_(3);
  const at::Tensor of_second = store.take_zero_state(parameters[0], 1);
  EXPECT_NE(of_first.data_ptr(), of_second.data_ptr());
  EXPECT_EQ(of_second.sum().item<float>(), 0);
  EXPECT_GT(store.bytes(), bytes);
}

TEST_F(OffloadStores, GiveStateThatIsGoneToTheNextOptimizerAsZeros) {
  store.take_zero_state(parameters[0], 0).fill_(3);
  const auto bytes = store.bytes();
  EXPECT_EQ(store.take_zero_state(parameters[0], 0).sum().item<float>(), 0);
  store.take_zero_state(parameters[0], 0).fill_(4);
  EXPECT_EQ(store.take_state(parameters[0], 0).numel(), parameters[0].numel());
  EXPECT_EQ(store.take_zero_state(parameters[0], 0).sum().item<float>(), 0);
  EXPECT_EQ(store.bytes(), bytes);
}

TEST_F(OffloadStores, SayThatAFileWasCutShortInsteadOfMakingItLongAgain) {
  const fs::path cut = file("parameters.Float");
  fs::resize_file(cut, 4096);
  const at::Tensor memory = torch::zeros({kLarge});
  const std::vector<StoredRow> rows = {{{parameters[1], memory}}};
  const std::vector<std::function<void()>> uses = {
      [&] { store.read(parameters[1], memory.data_ptr()).wait(); },
      [&] { store.write(parameters[1], memory).wait(); },
      [&] { store.write(parameters[0], memory.narrow(0, 0, 1000)).wait(); },
      [&] { for_each_slice(store, rows, {SliceUse::update, SliceUse::read}, [](const auto&) {}); },
      [&] {
        EXPECT_EQ(parameters[1].sum().item<float>(), 0) << "lost pages are zeros";
        check_for_lost_pages();
      }};
  for (std::size_t i = 0; i < uses.size(); ++i)
    EXPECT_NE(message_of<FileError>(uses[i]).find(cut.string()), std::string::npos) << i;
  EXPECT_EQ(fs::file_size(cut), 4096);
}

TEST(OffloadStoresOnAFullDisk, SayWhatIsWantedAndFree) {
  const testing::TemporaryFolder root;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", root.path().c_str(), "tmpfs", 0, "size=100k") != 0) {
      ::_exit(77);
    }
    const auto store = OffloadStore::make({root.path(), {}}, "1-2", 0, {32 * 1024});
    try {
      store->add(Kind::parameters, 0, {at::kFloat});
    } catch (const FileError& error) {
      const std::string message = describe(error);
      const bool says = message.find("it takes 128.00 KB on this rank") != std::string::npos &&
                        message.find("96.00 KB") != std::string::npos;
      std::fprintf(stderr, "%s\n", message.c_str());
      ::_exit(says ? 0 : 2);
    }
    ::_exit(1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no right to make a mount namespace";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace accelerate
