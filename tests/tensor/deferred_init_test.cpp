// Tensors that are made without memory and hold, once they get it, what plain code computes.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

#include "accelerate/tensor/compat/deferred_init.h"
#include "accelerate/tensor/seed.h"
#include "tests/support/errors.h"

namespace accelerate {
namespace {

using compat::deferred_value;
using compat::FactoryScope;
using compat::is_deferred;
using testing::message_of;
using Tensors = std::vector<at::Tensor>;

Tensors made(const std::function<Tensors()>& make) {
  const FactoryScope scope(at::kMeta, true);
  return make();
}

// What `make` gives with memory, and what it gives when it was made without; from one seed.
void expect_the_same(const std::function<Tensors()>& make, const std::string& what) {
  torch::manual_seed(7);
  const auto plain = make();
  torch::manual_seed(7);
  const auto deferred = made(make);
  ASSERT_EQ(plain.size(), deferred.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    ASSERT_TRUE(is_deferred(deferred[i])) << what;
    const auto value = deferred_value(deferred[i]);
    EXPECT_EQ(value.options().dtype(), plain[i].options().dtype()) << what;
    EXPECT_EQ(value.strides(), plain[i].strides()) << what;
    EXPECT_TRUE(value.equal(plain[i])) << what << '\n' << value << plain[i];
  }
}

TEST(DeferredInit, FactoriesMakeNoMemoryAndTheirValuesComeLater) {
  const std::vector<std::pair<std::string, std::function<Tensors()>>> factories = {
      {"zeros", [] { return Tensors{torch::zeros({2, 3})}; }},
      {"ones", [] { return Tensors{torch::ones({2}, torch::kBFloat16)}; }},
      {"full", [] { return Tensors{torch::full({2}, 3.5)}; }},
      {"full of integers", [] { return Tensors{torch::full({2}, 3)}; }},
      {"arange", [] { return Tensors{torch::arange(5), torch::arange(0.0, 1.0, 0.25)}; }},
      {"linspace", [] { return Tensors{torch::linspace(0, 1, 7)}; }},
      {"logspace", [] { return Tensors{torch::logspace(0, 1, 7)}; }},
      {"eye", [] { return Tensors{torch::eye(3), torch::eye(2, 4)}; }},
      {"rand", [] { return Tensors{torch::rand({4}), torch::rand({3})}; }},
      {"randn", [] { return Tensors{torch::randn({17}), torch::randn({40}, torch::kDouble)}; }},
      {"randint", [] { return Tensors{torch::randint(0, 100, {9})}; }},
      {"hann_window", [] { return Tensors{torch::hann_window(8)}; }},
      {"empty, filled", [] { return Tensors{torch::empty({3}).fill_(2)}; }},
      {"empty_strided", [] { return Tensors{torch::empty_strided({2, 3}, {1, 2}).zero_()}; }},
      {"like", [] { return Tensors{torch::ones_like(torch::rand({3})), torch::rand({2})}; }},
  };
  for (const auto& [what, make] : factories) expect_the_same(make, what);
}

TEST(DeferredInit, InitialisersAndArithmeticAreDoneLater) {
  namespace init = torch::nn::init;
  const std::vector<std::pair<std::string, std::function<Tensors()>>> programs = {
      {"kaiming", [] { return Tensors{init::kaiming_uniform_(torch::empty({4, 3}), 2.0)}; }},
      {"xavier", [] { return Tensors{init::xavier_normal_(torch::empty({4, 3}))}; }},
      {"orthogonal", [] { return Tensors{init::orthogonal_(torch::empty({4, 4}))}; }},
      {"dirac", [] { return Tensors{init::dirac_(torch::empty({3, 3, 3}))}; }},
      {"sparse", [] { return Tensors{init::sparse_(torch::empty({6, 3}), 0.5)}; }},
      {"eye", [] { return Tensors{init::eye_(torch::empty({3, 3}))}; }},
      {"scaled", [] { return Tensors{torch::randn({5}) * 0.02 + 1}; }},
      {"through views",
       [] {
         auto all = torch::zeros({4, 4});
         all.select(0, 1).fill_(2), all.narrow(1, 2, 2).normal_(), all.t()[3].mul_(2);
         return Tensors{all, all.t()};
       }},
      {"sinusoids",
       [] {
         const auto place = torch::arange(6, torch::kFloat).unsqueeze(1);
         const auto scale = torch::exp(torch::arange(0, 4, 2, torch::kFloat) * -2.3);
         auto table = torch::zeros({6, 4});
         using torch::indexing::None, torch::indexing::Slice;
         table.index_put_({Slice(), Slice(0, None, 2)}, torch::sin(place * scale));
         table.index_put_({Slice(), Slice(1, None, 2)}, torch::cos(place * scale));
         return Tensors{table.unsqueeze(0).transpose(0, 1)};
       }},
      {"literals",
       [] {
         const auto literal = torch::tensor({1.0F, 2.0F, 4.0F});
         return Tensors{torch::ones({3}) * literal, torch::cat({torch::zeros({1}), literal}),
                        torch::zeros({3}).copy_(literal).mul_(torch::tensor(2.0))};
       }},
      {"in place, without a meta kernel",
       [] { return Tensors{torch::randn({5, 2}).abs_().nan_to_num_().mul_(2)}; }},
      {"the options of another",
       [] {
         const auto first = torch::ones({2});
         return Tensors{torch::zeros({3}, first.options()).add_(1), first.to(first.device()),
                        first.new_full({2}, 4, first.options()), torch::rand({2}).to(first)};
       }},
      {"several results",
       [] {
         const auto [q, r] = torch::linalg_qr(torch::randn({4, 4}));
         return Tensors{q, r, torch::randn({6}).chunk(3)[1]};
       }},
      {"under autograd", [] { return Tensors{(torch::rand({3}).requires_grad_() * 2).detach()}; }},
  };
  for (const auto& [what, make] : programs) expect_the_same(make, what);
}

TEST(DeferredInit, ADeviceThatTheCallerNamesIsKept) {
  const FactoryScope scope(at::kMeta, true);
  EXPECT_TRUE(torch::ones({2}, at::kCPU).device().is_cpu());
  EXPECT_TRUE(torch::tensor({1, 2, 3}).device().is_cpu());
  EXPECT_EQ(torch::tensor({1, 2, 3}).sum().item<int>(), 6);
  EXPECT_TRUE(torch::ones({2}).is_meta());
}

TEST(DeferredInit, ValuesThatCodeAsksForAreThoseOfPlainCode) {
  torch::manual_seed(3);
  const auto plain = torch::rand({3});
  torch::manual_seed(3);
  const FactoryScope scope(at::kMeta, true);
  EXPECT_DOUBLE_EQ(torch::linspace(0, 0.5, 6)[2].item<double>(),
                   torch::linspace(0, 0.5, 6, at::kCPU)[2].item<double>());
  const auto drawn = torch::rand({3});
  EXPECT_EQ(drawn[1].item<float>(), plain[1].item<float>());
  EXPECT_TRUE(drawn.is_meta());
  EXPECT_EQ(torch::ones({4}).nonzero().numel(), 4);
  EXPECT_TRUE(drawn.index({drawn > 2}).numel() == 0);
  EXPECT_TRUE(torch::zeros({2}).equal(torch::zeros({2})));
  auto rates = torch::zeros({2}, at::kCPU);
  rates[1] = torch::ones({1}).squeeze();
  EXPECT_EQ(rates[1].item<float>(), 1);
}

// LibTorch has no meta kernel for these, so that they have memory at once.
TEST(DeferredInit, WhatTheMetaDeviceCannotDoIsDoneAtOnceWithTheSameNumbers) {
  torch::manual_seed(3);
  const auto before = torch::rand({3}), order = torch::randperm(11), after = torch::rand({3});
  torch::manual_seed(3);
  const FactoryScope scope(at::kMeta, true);
  const auto first = torch::rand({3}), permuted = torch::randperm(11), last = torch::rand({3});
  EXPECT_TRUE(permuted.equal(order));
  EXPECT_TRUE(first.index_select(0, torch::tensor({2L})).equal(before.slice(0, 2)));
  EXPECT_TRUE(torch::tril_indices(3, 3).device().is_cpu());
  EXPECT_TRUE(deferred_value(last).equal(after));
  EXPECT_TRUE(deferred_value(first).equal(before));
}

TEST(DeferredInit, TensorsMayBeAskedForInAnyOrderAndTwice) {
  torch::manual_seed(5);
  const auto plain = Tensors{torch::rand({3}), torch::randn({20}), torch::rand({2})};
  torch::manual_seed(5);
  const auto deferred =
      made([] { return Tensors{torch::rand({3}), torch::randn({20}), torch::rand({2})}; });
  for (const std::size_t i : {2, 0, 1, 2, 1})
    EXPECT_TRUE(deferred_value(deferred[i]).equal(plain[i])) << i;
}

TEST(DeferredInit, NumbersThatNobodyKeptAreDrawnToo) {
  torch::manual_seed(5);
  (void)torch::rand({100});
  const auto plain = torch::rand({2});
  torch::manual_seed(5);
  const auto deferred = made([] {
    (void)torch::rand({100});
    return Tensors{torch::rand({2})};
  });
  EXPECT_TRUE(deferred_value(deferred[0]).equal(plain));
}

TEST(DeferredInit, AGeneratorOfOnesOwnIsAskedAsItWasThen) {
  auto generator = at::detail::createCPUGenerator(11);
  const auto plain = torch::empty({4}).normal_(0, 1, generator);
  generator.set_current_seed(11);
  const auto deferred =
      made([&] { return Tensors{torch::empty({4}).normal_(0, 1, generator), torch::rand({2})}; });
  generator.set_current_seed(99);
  EXPECT_TRUE(deferred_value(deferred[0]).equal(plain));
}

TEST(DeferredInit, OneScopeAfterAnotherDrawsWhatPlainCodeDraws) {
  const auto draw = [] { return Tensors{torch::randn({20})}; };
  torch::manual_seed(5);
  const auto first = draw()[0], second = draw()[0];
  for (const bool first_is_gone : {false, true}) {
    torch::manual_seed(5);
    auto one = made(draw);
    if (first_is_gone) {
      EXPECT_TRUE(deferred_value(one[0]).equal(first));
      one.clear();
    }
    const auto two = made(draw);
    EXPECT_TRUE(deferred_value(two[0]).equal(second)) << first_is_gone;
    EXPECT_TRUE(first_is_gone || deferred_value(one[0]).equal(first));
  }
}

TEST(DeferredInit, LaterNumbersAreNotThoseOfTheScopeAndTheSeedStays) {
  torch::manual_seed(5);
  const auto deferred = made([] { return Tensors{torch::rand({8})}; });
  EXPECT_EQ(initial_seed(), 5u);
  const auto later = torch::rand({8});
  const auto value = deferred_value(deferred[0]);
  EXPECT_FALSE(value.equal(later));
  EXPECT_FALSE(value.slice(0, 1).equal(later.slice(0, 0, 7)));
  torch::manual_seed(5);
  EXPECT_TRUE(torch::rand({8}).equal(value));
}

TEST(DeferredInit, AskingForValuesDrawsNoNumbers) {
  const auto deferred = made([] { return Tensors{torch::rand({8}), torch::empty({3}).normal_()}; });
  const auto before = rng_state().at("cpu").to<at::Tensor>();
  (void)deferred_value(deferred[0]), (void)deferred_value(deferred[1]);
  EXPECT_TRUE(rng_state().at("cpu").to<at::Tensor>().equal(before));
}

TEST(DeferredInit, ALaterScopeMayChangeTensorsOfAnEarlierOne) {
  torch::manual_seed(5);
  auto plain = torch::rand({4});
  plain.mul_(3).add_(torch::rand({4}));
  torch::manual_seed(5);
  const auto early = made([] { return Tensors{torch::rand({4})}; });
  const auto late = made([&] { return Tensors{early[0].mul_(3).add_(torch::rand({4}))}; });
  EXPECT_TRUE(deferred_value(early[0]).equal(plain));
  EXPECT_TRUE(deferred_value(late[0]).equal(plain));
}

TEST(DeferredInit, MemoryCanBeGivenWhileTheScopeIsAlive) {
  torch::manual_seed(5);
  const auto plain = torch::rand({4}).mul_(2);
  torch::manual_seed(5);
  const FactoryScope scope(at::kMeta, true);
  const auto leaf = torch::rand({4}).mul_(2);
  compat::materialise_deferred_({leaf}, at::kCPU);
  EXPECT_TRUE(leaf.equal(plain));
  leaf.zero_();
  EXPECT_EQ(leaf.sum().item<float>(), 0);
}

TEST(DeferredInit, ScopesNest) {
  const FactoryScope outer(at::kMeta, true);
  at::Tensor real;
  {
    const FactoryScope inner(at::kCPU, true);
    real = torch::ones({2});
  }
  EXPECT_TRUE(real.device().is_cpu());
  EXPECT_TRUE(torch::ones({2}).is_meta());
}

TEST(DeferredInit, OtherThreadsAndTheTimeAfterwardsAreLeftAlone) {
  at::Tensor elsewhere;
  {
    const FactoryScope scope(at::kMeta, true);
    std::thread([&] { elsewhere = torch::ones({2}); }).join();
  }
  EXPECT_TRUE(elsewhere.device().is_cpu());
  EXPECT_TRUE(torch::ones({2}).device().is_cpu());
}

TEST(DeferredInit, BuffersGetMemoryWhenTheScopeEnds) {
  at::Tensor parameter, buffer, view;
  {
    const FactoryScope scope(at::kMeta, false);
    parameter = torch::ones({2}).requires_grad_();
    buffer = torch::arange(6).view({2, 3});
    view = buffer.t();
    EXPECT_TRUE(buffer.is_meta());
  }
  EXPECT_TRUE(parameter.is_meta());
  EXPECT_TRUE(buffer.equal(torch::arange(6).view({2, 3})));
  EXPECT_TRUE(view.is_alias_of(buffer));
  EXPECT_TRUE(view.equal(buffer.t()));
}

TEST(DeferredInit, AnExceptionEndsAScopeWithoutWork) {
  at::Tensor kept;
  EXPECT_THROW(
      {
        const FactoryScope scope(at::kMeta, false);
        kept = torch::ones({2});
        throw std::runtime_error("in a constructor");
      },
      std::runtime_error);
  EXPECT_TRUE(is_deferred(kept));
  EXPECT_TRUE(torch::ones({2}).device().is_cpu());
}

TEST(DeferredInit, ErrorsOfTheProgramStayItsOwn) {
  const FactoryScope scope(at::kMeta, true);
  EXPECT_THROW((void)(torch::ones({2, 3}) + torch::ones({4})), c10::Error);
  EXPECT_THROW((void)torch::mm(torch::ones({2, 3}), torch::ones({2, 3})), c10::Error);
  EXPECT_THROW(torch::ones({2}).copy_(torch::ones({3})), c10::Error);
  EXPECT_TRUE(torch::ones({2}).is_meta());
}

TEST(DeferredInit, ReadingDataIsLibTorchsErrorAndNoCrash) {
  const auto deferred = made([] { return Tensors{torch::ones({2})}; });
  for (const auto& read :
       std::vector<std::function<void()>>{[&] { (void)deferred[0].data_ptr<float>(); },
                                          [&] { (void)deferred[0].accessor<float, 1>(); }}) {
    try {
      read();
      ADD_FAILURE() << "read";
    } catch (const c10::Error& error) {
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, "its data is not allocated yet",
                          std::string(error.what_without_backtrace()));
    }
  }
}

TEST(DeferredInit, RefusesWhatItCannotKnow) {
  const auto by_hand = torch::ones({2}, at::kMeta);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "made on the meta device by hand",
                      message_of<UsageError>([&] { (void)deferred_value(by_hand); }));
  const auto changed = made([] { return Tensors{torch::ones({2})}; });
  changed[0].normal_();
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "changed in place after init_empty_weights",
                      message_of<UsageError>([&] { (void)deferred_value(changed[0]); }));
  auto constant = torch::ones({2});
  const auto taken = made([&] { return Tensors{torch::zeros({2}) + constant}; });
  constant.add_(1);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "aten::add.Tensor took",
                      message_of<UsageError>([&] { (void)deferred_value(taken[0]); }));
}

TEST(DeferredInit, NothingIsKeptOnceAllTensorsHaveMemory) {
  const auto constant = torch::ones({2});
  const auto leaf = made([&] { return Tensors{torch::rand({2}) + constant}; })[0];
  EXPECT_GT(constant.use_count(), 1U);
  compat::materialise_deferred_({leaf}, at::kCPU);
  EXPECT_EQ(constant.use_count(), 1U);
}

TEST(DeferredInit, MaterialisedTensorsShareWhatTheyShared) {
  auto leaves = made([] {
    auto all = torch::rand({2, 3});
    return Tensors{all, all.t(), torch::zeros({4}).requires_grad_()};
  });
  compat::materialise_deferred_(leaves, at::kCPU);
  EXPECT_TRUE(leaves[1].is_alias_of(leaves[0]));
  EXPECT_TRUE(leaves[1].equal(leaves[0].t()));
  EXPECT_TRUE(leaves[2].equal(torch::zeros({4})) && leaves[2].requires_grad());
  leaves[0].data_ptr<float>()[0] = 1;  // Has memory.
}

}  // namespace
}  // namespace accelerate
