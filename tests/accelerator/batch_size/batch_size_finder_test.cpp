// What is tried when memory runs out, what is not, and how ranks agree.
#include "accelerate/accelerator/batch_size/batch_size_finder.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>

#include "accelerate/accelerate.h"
#include "accelerate/parallel/replicated/sync_batch_norm.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::kind_and_message_of;
using testing::run_ranks;
using testing::run_ranks_shared;
using Sizes = std::vector<std::int64_t>;

// As LibTorch's CPU allocator says it.
[[noreturn]] void run_out_of_memory() {
  TORCH_CHECK(false, "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.");
}

// The sizes that are tried when `fits` is the largest that fits.
Sizes sizes_until(std::int64_t fits, const BatchSizeOptions& options = {}) {
  Sizes tried;
  auto search = find_executable_batch_size(
      [&](std::int64_t batch_size) {
        tried.push_back(batch_size);
        if (batch_size > fits) run_out_of_memory();
      },
      options);
  search();
  return tried;
}

TEST(FindExecutableBatchSize, ShrinksByATenthUntilItFits) {
  EXPECT_EQ(sizes_until(8), (Sizes{128, 115, 103, 92, 82, 73, 65, 58, 52, 46, 41, 36,
                                   32,  28,  25,  22, 19, 17, 15, 13, 11, 9,  8}));
  EXPECT_EQ(sizes_until(1, {.starting_batch_size = 9}), (Sizes{9, 8, 7, 6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(sizes_until(128), (Sizes{128}));
}

TEST(FindExecutableBatchSize, TakesTheUsersWayDown) {
  const BatchSizeOptions halves{.starting_batch_size = 128,
                                .reduce_batch_size_fn = [](std::int64_t n) { return n / 2; }};
  EXPECT_EQ(sizes_until(8, halves), (Sizes{128, 64, 32, 16, 8}));
}

// The searches of a table: what fits, from where, with how many trials, and what is tried.
TEST(FindExecutableBatchSize, LooksUpwardsForTheLargestThatFits) {
  struct Search {
    std::int64_t fits;
    BatchSizeOptions options;
    Sizes tried;
  };
  const std::vector<Search> searches = {
      {100, {.upward_trials = 10}, {128, 115, 103, 92, 97, 100, 101, 100}},
      {100, {.upward_trials = 1}, {128, 115, 103, 92, 97}},
      {102, {.upward_trials = 10}, {128, 115, 103, 92, 97, 100, 101, 102}},
      {9, {.starting_batch_size = 2, .upward_trials = 10}, {2, 4, 8, 16, 12, 10, 9}},
      {1000, {.starting_batch_size = 2, .upward_trials = 2}, {2, 4, 8}},
      {1000, {.starting_batch_size = 6, .upward_trials = 9, .max_batch_size = 20}, {6, 12, 20}},
      {8, {.starting_batch_size = 8, .upward_trials = 9, .max_batch_size = 8}, {8}},
      {1, {.starting_batch_size = 1, .upward_trials = 9}, {1, 2, 1}},
  };
  for (const auto& search : searches) {
    EXPECT_EQ(sizes_until(search.fits, search.options), search.tried) << search.fits;
  }
}

TEST(FindExecutableBatchSize, LooksUpwardsOnAllRanksAlikeAndOnlyInTheFirstCall) {
  run_ranks(2, [](Communicator& comm) {
    Sizes tried;
    auto search = find_executable_batch_size(comm,
                                             [&](std::int64_t batch_size) {
                                               tried.push_back(batch_size);
                                               if (batch_size > 12 - 2 * comm.rank()) {
                                                 run_out_of_memory();
                                               }
                                               comm.barrier();
                                               return batch_size;
                                             },
                                             {.starting_batch_size = 8, .upward_trials = 9});
    EXPECT_EQ(search(), 10);
    EXPECT_EQ(tried, (Sizes{8, 16, 12, 10, 11, 10}));
    EXPECT_EQ(search(), 10);
    EXPECT_EQ(tried.size(), 7u);
  });
  // Also where a larger size may be left.
  Sizes tried;
  auto search = find_executable_batch_size([&](std::int64_t size) { tried.push_back(size); },
                                           {.starting_batch_size = 2, .upward_trials = 2});
  search();
  search();
  EXPECT_EQ(tried, (Sizes{2, 4, 8, 8}));
}

TEST(FindExecutableBatchSize, PassesArgumentsOnAndReturnsTheResult) {
  auto search = find_executable_batch_size(
      [](std::int64_t batch_size, const std::string& name) {
        if (batch_size > 16) run_out_of_memory();
        return name + std::to_string(batch_size);
      },
      {.starting_batch_size = 20});
  EXPECT_EQ(search("fits "), "fits 16");
  EXPECT_EQ(search.batch_size(), 16);
  EXPECT_EQ(search("again "), "again 16") << "a second call begins with the size that fitted";
}

TEST(FindExecutableBatchSize, SaysWhatItTriedWhenNotEvenOneSampleFits) {
  const auto text = kind_and_message_of([] { sizes_until(0, {.starting_batch_size = 3}); });
  EXPECT_NE(text.find("UsageError: no batch size fits into memory: 3, 2, 1 were tried"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("because: DefaultCPUAllocator"), std::string::npos) << text;
}

TEST(FindExecutableBatchSize, LetsOtherErrorsThrough) {
  int attempts = 0;
  auto search = find_executable_batch_size([&](std::int64_t) {
    ++attempts;
    throw DataError("Oops, we had an error!");
  });
  EXPECT_THROW(search(), DataError);
  EXPECT_EQ(attempts, 1);
}

TEST(FindExecutableBatchSize, RecognisesMemoryThatRanOutAndNothingElse) {
  const auto says = [](const std::string& text) {
    return should_reduce_batch_size(std::runtime_error(text));
  };
  EXPECT_TRUE(says("CUDA out of memory. Tried to allocate 20.00 MiB"));
  EXPECT_TRUE(says("MPS backend out of memory (MPS allocated: 1 GB)"));
  EXPECT_TRUE(says("cannot reserve 4.00 GB of shared memory: this machine has 3.00 GB left"));
  EXPECT_TRUE(says("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear"));
  EXPECT_TRUE(says("FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size 1"));
  EXPECT_FALSE(says("the disk is out of space"));
  EXPECT_FALSE(says("out of memory"));
  EXPECT_TRUE(should_reduce_batch_size(std::bad_alloc()));
  try {
    try {
      run_out_of_memory();
    } catch (...) {
      throw_with_context<DataError>("sample 3 cannot be loaded");
    }
  } catch (const std::exception& error) {
    EXPECT_TRUE(should_reduce_batch_size(error)) << "also when nested";
  }
}

TEST(FindExecutableBatchSize, RecognisesLibTorchsOwnError) {
  EXPECT_EQ(sizes_until(100).size(), 4u);
  auto search = find_executable_batch_size(
      [](std::int64_t batch_size) {
        if (batch_size > 1) (void)at::empty({std::int64_t{1} << 62}, at::kByte);
      },
      {.starting_batch_size = 3});
  search();
  EXPECT_EQ(search.batch_size(), 1);
}

TEST(FindExecutableBatchSize, RefusesWhatCannotBeSearched) {
  const auto stays = [](std::int64_t n) { return n; };
  EXPECT_NE(kind_and_message_of([] {
              sizes_until(1, {.starting_batch_size = -2});
            }).find("starting_batch_size is -2; a number of samples from 1 up"),
            std::string::npos);
  EXPECT_NE(kind_and_message_of([] {
              sizes_until(1, {.starting_batch_size = 0});
            }).find("starting_batch_size is 0; a number of samples from 1 up"),
            std::string::npos);
  EXPECT_NE(kind_and_message_of([] {
              sizes_until(1, {.max_batch_size = 9});
            }).find("max_batch_size is 9; a number from starting_batch_size, 128, up"),
            std::string::npos);
  EXPECT_NE(kind_and_message_of([] {
              sizes_until(1, {.upward_trials = -1});
            }).find("upward_trials is -1; a number from 0 up"),
            std::string::npos);
  EXPECT_NE(kind_and_message_of([&] {
              sizes_until(1, {.starting_batch_size = 2, .reduce_batch_size_fn = stays});
            }).find("reduce_batch_size_fn made 2 of 2; a smaller number"),
            std::string::npos);
}

TEST(FindExecutableBatchSize, AllRanksTakeTheSizeOfThePoorest) {
  run_ranks(3, [](Communicator& comm) {
    Sizes tried;
    auto search = find_executable_batch_size(comm,
                                             [&](std::int64_t batch_size) {
                                               tried.push_back(batch_size);
                                               if (comm.rank() == 1 && batch_size > 6)
                                                 run_out_of_memory();
                                               return batch_size;
                                             },
                                             {.starting_batch_size = 8});
    EXPECT_EQ(search(), 6);
    EXPECT_EQ(tried, (Sizes{8, 7, 6}));
    const at::Tensor one = at::ones({1});
    comm.all_reduce(one, ReduceOp::sum).wait();
    EXPECT_EQ(one.item<int>(), 3) << "the group works afterwards";
  });
}

TEST(FindExecutableBatchSize, ARankInsideACollectiveIsFreedWhenItsPeerRunsOut) {
  run_ranks(3, [](Communicator& comm) {
    auto search = find_executable_batch_size(comm,
                                             [&](std::int64_t batch_size) {
                                               if (comm.rank() == 2 && batch_size > 2)
                                                 run_out_of_memory();
                                               const at::Tensor sum =
                                                   at::full({1000}, comm.rank(), at::kLong);
                                               comm.all_reduce(sum, ReduceOp::sum).wait();
                                               comm.barrier();
                                               return sum[999].item<std::int64_t>();
                                             },
                                             {.starting_batch_size = 4});
    EXPECT_EQ(search(), 3);
    EXPECT_EQ(search.batch_size(), 2);
  });
}

// SyncBatchNorm communicates in a group of its own, which here outlives an attempt.
TEST(FindExecutableBatchSize, ARankInsideASyncBatchNormIsFreedWhenItsPeerRunsOut) {
  run_ranks_shared(2, [](std::shared_ptr<Communicator> comm) {
    Accelerator accelerator({.communicator = comm});
    SyncBatchNorm norm(torch::nn::BatchNormOptions(2));
    auto model = accelerator.prepare(norm);
    std::vector<std::string> errors;
    auto search = find_executable_batch_size(
        accelerator,
        [&](std::int64_t batch_size) {
          if (comm->rank() == 0) run_out_of_memory();
          errors.push_back(kind_and_message_of([&] { (void)model(torch::ones({batch_size, 2})); }));
          throw CommError(errors.back());
        },
        {.starting_batch_size = 2});
    EXPECT_THROW(search(), UsageError);
    if (comm->rank() == 0) return;
    ASSERT_EQ(errors.size(), 2u);
    EXPECT_NE(errors[0].find("Rank 0 gave up: it ran out of memory"), std::string::npos)
        << errors[0];
  });
}

TEST(FindExecutableBatchSize, AModelFromBeforeTheSearchGoesOnInItAndSavesInTheBackground) {
  const testing::TemporaryFolder home;
  run_ranks_shared(2, [&](std::shared_ptr<Communicator> comm) {
    Accelerator accelerator({.communicator = comm});
    SyncBatchNorm norm(torch::nn::BatchNormOptions(2));
    auto model = accelerator.prepare(norm);
    accelerator.save_state(home.path() / "before", {.asynchronous = true});
    auto search = find_executable_batch_size(accelerator,
                                             [&](std::int64_t batch_size) {
                                               if (comm->rank() == 0 && batch_size > 1)
                                                 run_out_of_memory();
                                               (void)model(torch::ones({batch_size, 2}));
                                               accelerator.save_state(home.path() / "within",
                                                                      {.asynchronous = true});
                                               accelerator.wait_for_save();
                                             },
                                             {.starting_batch_size = 2});
    search();
    EXPECT_EQ(search.batch_size(), 1);
    accelerator.load_state(home.path() / "within");
  });
}

TEST(FindExecutableBatchSize, AFailureOnOneRankEndsTheSearchOnAll) {
  run_ranks(3, [](Communicator& comm) {
    auto search = find_executable_batch_size(comm, [&](std::int64_t) {
      if (comm.rank() == 1) throw DataError("sample 17 is broken");
      comm.barrier();
    });
    const auto text = kind_and_message_of([&] { search(); });
    const std::string expected =
        comm.rank() == 1
            ? "DataError: sample 17 is broken"
            : "CommError: the attempt with batch size 128 failed on rank 1: sample 17 is broken";
    EXPECT_EQ(text.substr(0, expected.size()), expected);
    comm.barrier();
  });
}

TEST(FindExecutableBatchSize, RanksThatBeginWithDifferentSizesAreTold) {
  run_ranks(2, [](Communicator& comm) {
    auto search = find_executable_batch_size(comm, [](std::int64_t) {},
                                             {.starting_batch_size = 8 + comm.rank()});
    const auto text = kind_and_message_of([&] { search(); });
    EXPECT_NE(text.find("rank 0: find_executable_batch_size of batch size 8"), std::string::npos)
        << text;
  });
}

TEST(FindExecutableBatchSize, TrainsAPreparedModelThatRanOutInTheMiddleOfBackward) {
  run_ranks_shared(2, [](std::shared_ptr<Communicator> comm) {
    Accelerator accelerator({.communicator = comm});
    torch::nn::Linear net(4, 1);
    {
      const torch::NoGradGuard no_grad;
      for (auto& p : net->parameters()) p.fill_(0.5);
    }
    torch::optim::SGD sgd(net->parameters(), 0.1);
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    auto search = find_executable_batch_size(
        accelerator,
        [&, &model = model, &optimizer = optimizer](std::int64_t batch_size) {
          optimizer.zero_grad();
          auto out = model(at::full({batch_size, 4}, 1.0 + comm->rank()));
          out.register_hook([&](const at::Tensor&) {
            if (comm->rank() == 0 && batch_size > 2) run_out_of_memory();
          });
          accelerator.backward(out.mean());
          return net->weight.grad().clone();
        },
        {.starting_batch_size = 4});
    EXPECT_TRUE(search().equal(at::full({1, 4}, 1.5))) << "the mean of the ranks' gradients";
    EXPECT_EQ(search.batch_size(), 2);
  });
}

}  // namespace
}  // namespace accelerate
