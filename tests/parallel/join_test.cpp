// Ranks with unequal numbers of batches, on the engines themselves.
#include "accelerate/parallel/replicated/join.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "accelerate/base/error.h"
#include "tests/support/ranks.h"
#include "tests/support/reference.h"

namespace accelerate {
namespace {

using testing::run_ranks_shared;

const testing::RanksOptions kSomeTime{.timeout = std::chrono::seconds(10)};

// loss = weight · factor, trained by plain SGD with rate 1.
struct Model {
  explicit Model(const std::shared_ptr<Communicator>& comm,
                 const DistributedDataParallelKwargs& kwargs = {}) {
    {
      torch::NoGradGuard no_grad;
      for (auto& parameter : net->parameters()) parameter.fill_(1);
    }
    engine = std::make_unique<DistributedDataParallel>(view_of(*net), comm, kwargs);
  }

  at::Tensor loss(double factor) {
    engine->before_forward(true);
    const auto weight = net->named_parameters()["0.weight"];
    return (weight * factor).sum() + 0 * net->named_parameters()["0.bias"].sum();
  }
  void update() {
    torch::NoGradGuard no_grad;
    for (auto& parameter : net->parameters()) {
      if (parameter.grad().defined()) parameter.sub_(parameter.grad());
      parameter.mutable_grad().reset();
    }
  }
  double weight() const { return net->named_parameters()["0.weight"].item<double>(); }

  torch::nn::Sequential net{torch::nn::Linear(1, 1)};
  std::unique_ptr<DistributedDataParallel> engine;
};

void train(JoinedInputs& joined, Model& model, double factor) {
  const auto loss = model.loss(factor);
  joined.run_backward({model.engine.get()}, {.loss = loss}, [&] { loss.backward(); });
  model.update();
}

struct Uneven {
  std::vector<int> steps;  // one a rank
  DistributedDataParallelKwargs kwargs = {};
};

class JoinedRanks : public ::testing::TestWithParam<Uneven> {};

// In step s the ranks that are still there contribute rank + 1 + s, the others nothing.
TEST_P(JoinedRanks, TrainOnUntilAllAreThroughAndThenAgree) {
  const auto& steps = GetParam().steps;
  const int n = static_cast<int>(steps.size());
  double expected = 1;
  for (int s = 0; s < *std::max_element(steps.begin(), steps.end()); ++s) {
    for (int rank = 0; rank < n; ++rank) {
      if (s < steps[static_cast<std::size_t>(rank)]) expected -= (rank + 1.0 + s) / n;
    }
  }
  run_ranks_shared(
      n,
      [&](const std::shared_ptr<Communicator>& comm) {
        Model model(comm, GetParam().kwargs);
        JoinedInputs joined({model.engine.get()}, comm);
        for (int s = 0; s < steps[static_cast<std::size_t>(comm->rank())]; ++s)
          train(joined, model, comm->rank() + 1.0 + s);
        joined.finish();
        EXPECT_NEAR(model.weight(), expected, 1e-5);
        comm->barrier();  // the group is in step
      },
      kSomeTime);
}

DistributedDataParallelKwargs power_sgd() {
  return {.comm_hook = DDPCommunicationHookType::power_sgd,
          .comm_state_option = {.start_powerSGD_iter = 1}};
}

INSTANTIATE_TEST_SUITE_P(Steps, JoinedRanks,
                         ::testing::Values(Uneven{{3, 1}}, Uneven{{1, 3}}, Uneven{{2, 2}},
                                           Uneven{{0, 2}}, Uneven{{0, 0}}, Uneven{{4, 1, 2}},
                                           Uneven{{1, 5, 3, 2}},
                                           Uneven{{3, 1}, {.bucket_cap_mb = 1e-6}},
                                           Uneven{{1, 3, 2}, {.find_unused_parameters = true}},
                                           Uneven{{0, 3, 2}, {.static_graph = true}},
                                           Uneven{{1, 3}, {.static_graph = true}},
                                           Uneven{{1, 3, 2}, power_sgd()}));

TEST(JoinedInputs, NothingIsSentAtTheEndWhenAllCameAtOnce) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Model model(comm);
    JoinedInputs joined({model.engine.get()}, comm);
    train(joined, model, 1);
    EXPECT_FALSE(joined.finish().has_value());
  });
}

TEST(JoinedInputs, GradientsOfARankThatShadowsStayItsOwn) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Model model(comm);
    JoinedInputs joined({model.engine.get()}, comm);
    const auto backward = [&](double factor) {
      const auto loss = model.loss(factor);
      joined.run_backward({model.engine.get()}, {.loss = loss}, [&] { loss.backward(); });
    };
    backward(2);
    if (comm->rank() == 0) {
      model.net->zero_grad();
      backward(6);
    }
    joined.finish();
    const auto grad = model.net->named_parameters()["0.weight"].grad().item<double>();
    EXPECT_EQ(grad, comm->rank() == 0 ? 3.0 : 2.0);
  });
}

TEST(JoinedInputs, BuffersComeFromARankThatStillTrains) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    torch::nn::Sequential net(torch::nn::Linear(2, 2), torch::nn::BatchNorm1d(2));
    DistributedDataParallel engine(view_of(*net), comm);
    JoinedInputs joined({&engine}, comm);
    if (comm->rank() == 1) {
      for (int s = 0; s < 2; ++s) {
        engine.before_forward(true);
        const auto loss = net->forward(torch::eye(2)).pow(3).sum();
        joined.run_backward({&engine}, {.loss = loss}, [&] { loss.backward(); });
      }
    }
    EXPECT_EQ(joined.finish().value_or(-1), 1);
    EXPECT_EQ(net->named_buffers()["1.num_batches_tracked"].item<std::int64_t>(), 2);
  });
}

at::Tensor waves(double phase) {
  return torch::sin(torch::arange(8, at::kDouble) * 0.7 + phase).to(at::kFloat).view({4, 2});
}

TEST(JoinedInputs, LeaveTheBuffersThatPyTorchLeaves) {
  const auto rows = nlohmann::json::parse(testing::read_reference("join_buffers.json"));
  ASSERT_EQ(rows.size(), 6U);
  for (const auto& row : rows) {
    run_ranks_shared(3, [&](const std::shared_ptr<Communicator>& comm) {
      const auto rank = static_cast<std::size_t>(comm->rank());
      torch::nn::BatchNorm1d norm(2);
      DistributedDataParallel engine(
          view_of(*norm), comm, {.broadcast_buffers = row.at("broadcast_buffers").get<bool>()});
      JoinedInputs joined({&engine}, comm);
      for (int step = 0; step < row.at("steps").at(rank).get<int>(); ++step) {
        engine.before_forward(true);
        const auto loss = norm(waves(step + 10.0 * comm->rank())).square().sum();
        joined.run_backward({&engine}, {.loss = loss}, [&] { loss.backward(); });
        norm->zero_grad();
      }
      joined.finish();
      const auto expected = row.at("ranks").at(rank).get<std::vector<double>>();
      const auto& mean = norm->running_mean;
      EXPECT_NEAR(mean[0].item<double>(), expected[0], 1e-6) << row.at("steps");
      EXPECT_NEAR(mean[1].item<double>(), expected[1], 1e-6) << row.at("steps");
      EXPECT_EQ(norm->num_batches_tracked.item<double>(), expected[2]) << row.at("steps");
    });
  }
}

TEST(JoinedInputs, WithoutSynchronisationNothingIsAnnounced) {
  run_ranks_shared(
      2,
      [](const std::shared_ptr<Communicator>& comm) {
        Model model(comm);
        JoinedInputs joined({model.engine.get()}, comm);
        // Three and one micro-batches, of which the last communicates.
        const int batches = comm->rank() == 0 ? 3 : 1;
        for (int i = 1; i <= batches; ++i) {
          model.engine->set_synchronize(i == batches);
          const auto loss = model.loss(2);
          joined.run_backward({model.engine.get()}, {.loss = loss}, [&] { loss.backward(); });
        }
        EXPECT_FALSE(joined.finish().has_value());
        EXPECT_EQ(model.net->named_parameters()["0.weight"].grad().item<double>(), 4.0);
      },
      kSomeTime);
}

TEST(JoinedInputs, TwoModelsTrainInOneScope) {
  run_ranks_shared(
      3,
      [](const std::shared_ptr<Communicator>& comm) {
        Model a(comm), b(comm);
        JoinedInputs joined({a.engine.get(), b.engine.get()}, comm);
        const std::vector<DistributedDataParallel*> both = {a.engine.get(), b.engine.get()};
        for (int s = 0; s <= comm->rank(); ++s) {
          const auto first = a.loss(3) + b.loss(6);
          joined.run_backward(both, {.loss = first}, [&] { first.backward(); });
          b.update();
          const auto second = b.loss(3);
          joined.run_backward(both, {.loss = second}, [&] { second.backward(); });
          a.update();
          b.update();
        }
        joined.finish();
        EXPECT_NEAR(a.weight(), 1 - (3 + 2 + 1), 1e-5);
        EXPECT_NEAR(b.weight(), 1 - 3 * (3 + 2 + 1), 1e-5);
      },
      kSomeTime);
}

TEST(JoinedInputs, RanksThatDisagreeAboutModelsAllSaySo) {
  run_ranks_shared(
      3,
      [](const std::shared_ptr<Communicator>& comm) {
        Model a(comm), b(comm);
        JoinedInputs joined({a.engine.get(), b.engine.get()}, comm);
        try {
          if (comm->rank() < 2) {
            const auto loss = comm->rank() == 0 ? a.loss(1) : b.loss(1);
            joined.run_backward({a.engine.get(), b.engine.get()}, {.loss = loss},
                                [&] { loss.backward(); });
          }
          joined.finish();
          ADD_FAILURE();
        } catch (const UsageError& error) {
          EXPECT_NE(std::string(error.what()).find("on 1 of the 2 ranks"), std::string::npos)
              << error.what();
        }
      },
      kSomeTime);
}

TEST(JoinedInputs, AModelOutsideTheScopeAndAScopeWithoutModelsAreUsageErrors) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Model inside(comm), outside(comm);
    JoinedInputs joined({inside.engine.get()}, comm);
    const auto loss = outside.loss(1);
    EXPECT_THROW(joined.run_backward({inside.engine.get(), outside.engine.get()}, {.loss = loss},
                                     [&] { loss.backward(); }),
                 UsageError);
    EXPECT_THROW(JoinedInputs({}, comm), UsageError);
  });
}

}  // namespace
}  // namespace accelerate
