// Communication hooks of a replicated model, and backwards that fail.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/parallel/gradients/comm_hook.h"
#include "tests/parallel/branches.h"
#include "tests/support/errors.h"

namespace accelerate {
namespace {

using testing::Branches;
using testing::message_of;
using testing::run_ranks_shared;
using testing::says;

TEST(CommHook, OfTheProgramSeesBucketsInOrderAndDecidesWhatGradientsBecome) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Branches replica(comm, {.bucket_cap_mb = 1e-6});
    std::vector<std::size_t> order;
    std::vector<bool> last;
    replica.engine.register_comm_hook([&](Communicator& group, GradientBucket& bucket) {
      order.push_back(bucket.index);
      last.push_back(bucket.is_last);
      EXPECT_EQ(bucket.gradients.at(0).sizes(), replica.left->weight.sizes());
      EXPECT_EQ(bucket.buffer[0].item<double>(), comm->rank() + 1.0) << "not divided yet";
      return group.all_reduce(bucket.buffer, ReduceOp::max);
    });
    replica.backward(replica.use(replica.left, replica.mine()) +
                     replica.use(replica.right, replica.mine()));
    EXPECT_EQ(Branches::gradient(replica.left), 2.0);
    EXPECT_EQ(order, (std::vector<std::size_t>{0, 1}));
    EXPECT_EQ(last, (std::vector<bool>{false, true}));
  });
}

TEST(CommHook, IsToldTheLastBucketThatTravelsAlsoWhenNobodyUsesALaterOne) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Branches replica(comm, {.bucket_cap_mb = 1e-6, .find_unused_parameters = true});
    std::vector<std::pair<std::size_t, bool>> seen;
    replica.engine.register_comm_hook([&](Communicator& group, GradientBucket& bucket) {
      seen.emplace_back(bucket.index, bucket.is_last);
      return all_reduce_hook()(group, bucket);
    });
    replica.backward(replica.use(replica.right, 1));
    replica.backward(replica.use(replica.right, 1) + replica.use(replica.left, 1));
    EXPECT_EQ(seen, (decltype(seen){{0, true}, {0, false}, {1, true}}));
  });
}

TEST(CommHook, AnEmptyOneReducesAsTheKeywordsWithoutAHook) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Branches replica(comm, {.comm_hook = DDPCommunicationHookType::fp16});
    replica.engine.register_comm_hook({});
    replica.backward(replica.use(replica.left, 1e6 * replica.mine()) +
                     replica.use(replica.right, 1));
    EXPECT_EQ(Branches::gradient(replica.left), 1.5e6) << "more than fp16 holds";
  });
}

// Where a hook fails: as it starts, or as its result is waited for.
class FailingHook : public ::testing::TestWithParam<bool> {
 protected:
  static CommHook on_rank(int rank) {
    return [rank, at_start = GetParam()](Communicator& group, GradientBucket& bucket) {
      const auto fail = [&group, rank] {
        if (group.rank() == rank) throw std::runtime_error("no codebook");
      };
      if (at_start) fail();
      return followed_by(all_reduce_hook()(group, bucket), fail);
    };
  }
};
INSTANTIATE_TEST_SUITE_P(AtItsStart, FailingHook, ::testing::Bool());

TEST_P(FailingHook, FreesThePeersThatWaitForItsGradients) {
  run_ranks_shared(2,
                   [](const std::shared_ptr<Communicator>& comm) {
                     Branches replica(comm, {.static_graph = true});  // reduces after backward
                     replica.engine.register_comm_hook(on_rank(0));
                     try {
                       for (int step = 0; step < 2; ++step)
                         replica.backward(replica.use(replica.left, 1));
                       ADD_FAILURE() << "nothing was thrown";
                     } catch (const std::exception& error) {
                       EXPECT_TRUE(says(describe(error), "no codebook")) << describe(error);
                     }
                   },
                   {.timeout = std::chrono::seconds(60)});
}

TEST(RunBackward, ThatFailsBeforeAnyGradientCameFreesThePeers) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Branches replica(comm);
    const auto loss = replica.use(replica.left, 1) + replica.use(replica.right, 1);
    if (comm->rank() == 0) {
      loss.register_hook([](const at::Tensor&) { throw std::runtime_error("no more memory"); });
    }
    try {
      replica.backward(loss);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::exception& error) {
      EXPECT_TRUE(says(describe(error), "no more memory")) << describe(error);
    }
  });
}

// A later loss.backward() must be told from one inside run_backward.
TEST(RunBackward, IsOverHoweverItFails) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Branches replica(comm);
    auto other = Branches::weight();
    other->weight.requires_grad_(false);
    DistributedDataParallel thawed(view_of(*other), comm);
    other->weight.requires_grad_(true);
    const auto loss = replica.use(replica.left, 1);
    const auto expect_over = [&] {
      const auto text = message_of<UsageError>([&] { loss.backward({}, /*retain_graph=*/true); });
      EXPECT_TRUE(says(text, "computed by loss.backward()")) << text;
    };
    EXPECT_THROW(run_backward({&replica.engine}, {.loss = loss}, [] { throw 7; }), int);
    expect_over();
    EXPECT_THROW(run_backward({&replica.engine, &thawed}, {.loss = loss}, [] {}), UsageError);
    expect_over();
  });
}

TEST(CommHook, OfTheKeywordsReducesAsWithoutOneUpToItsPrecision) {
  using Type = DDPCommunicationHookType;
  for (const auto type :
       {Type::no, Type::fp16, Type::bf16, Type::power_sgd, Type::batched_power_sgd}) {
    run_ranks_shared(3, [type](const std::shared_ptr<Communicator>& comm) {
      DistributedDataParallelKwargs kwargs{.comm_hook = type};
      if (type == Type::power_sgd || type == Type::batched_power_sgd)
        kwargs.comm_state_option.start_powerSGD_iter = 1;
      Branches replica(comm, kwargs);
      for (int step = 0; step < 3; ++step) {
        replica.zero_grad();
        replica.backward(replica.use(replica.left, replica.mine()) +
                         replica.use(replica.right, replica.mine()));
        EXPECT_NEAR(Branches::gradient(replica.left), 2.0, 0.02) << static_cast<int>(type);
      }
    });
  }
}

}  // namespace
}  // namespace accelerate
