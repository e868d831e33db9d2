// The stack of layers that see operators.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "accelerate/parallel/recompute/recompute.h"
#include "accelerate/tensor/compat/deferred_init.h"
#include "accelerate/tensor/compat/interception.h"

namespace accelerate::compat {
namespace {

using Seen = std::vector<std::string>;

// Notes what it sees.
class Noting final : public Interceptor {
 public:
  Noting(Seen& seen, std::string prefix) : seen_(seen), prefix_(std::move(prefix)) {}
  void intercept(const InterceptedCall& call) override {
    seen_.push_back(prefix_ + call.op().schema().name());
    (void)torch::ones({1}).exp();  // Its own operators pass no layer.
    call.proceed();
  }

 private:
  Seen& seen_;
  std::string prefix_;
};

TEST(Interception, SeesACompositeOperatorOnce) {
  Seen seen;
  Noting noting(seen, "");
  const auto x = torch::ones({2, 3}), w = torch::ones({4, 3});
  {
    const InterceptionScope scope(Layer::recompute, noting);
    (void)torch::linear(x, w);
    const WithoutInterception unseen;
    (void)torch::tanh(x);
  }
  (void)torch::tanh(x);
  EXPECT_EQ(seen, Seen{"aten::linear"});
}

TEST(Interception, PassesLayersInTheirOrderHoweverScopesNest) {
  for (const bool construction_first : {true, false}) {
    Seen seen;
    Noting construction(seen, "1 "), recompute(seen, "2 ");
    const InterceptionScope outer(construction_first ? Layer::construction : Layer::recompute,
                                  construction_first ? construction : recompute);
    const InterceptionScope inner(construction_first ? Layer::recompute : Layer::construction,
                                  construction_first ? recompute : construction);
    (void)torch::tanh(torch::ones({1}));
    EXPECT_EQ(seen, (Seen{"1 aten::ones", "2 aten::ones", "1 aten::tanh", "2 aten::tanh"}));
  }
}

TEST(Interception, HasTheInnermostScopeOfALayer) {
  Seen seen;
  Noting first(seen, "first "), second(seen, "second ");
  const InterceptionScope outer(Layer::recompute, first);
  {
    const InterceptionScope inner(Layer::recompute, second);
    (void)torch::tanh(torch::ones({1}));
  }
  const auto x = torch::ones({1});
  EXPECT_EQ(seen, (Seen{"second aten::ones", "second aten::tanh", "first aten::ones"}));
}

TEST(Interception, ReturnsWhatTheOperatorThrows) {
  Seen seen;
  Noting noting(seen, "");
  const InterceptionScope scope(Layer::recompute, noting);
  EXPECT_THROW((void)torch::mm(torch::ones({2, 3}), torch::ones({2, 3})), c10::Error);
  EXPECT_NO_THROW((void)torch::mm(torch::ones({2, 3}), torch::ones({3, 2})));
}

// A unit of gradient checkpointing may make tensors on another device, or without memory.
TEST(Interception, LetsConstructionStandInAUnitThatIsRecorded) {
  const auto x = torch::ones({2}, torch::requires_grad());
  at::Tensor deferred;
  const auto y = checkpoint(
      [&](const at::Tensor& input) {
        const FactoryScope scope(c10::Device(c10::kMeta), /*buffers_too=*/true);
        deferred = torch::ones({3}).mul_(2);
        return input.exp();
      },
      x);
  y.sum().backward();
  EXPECT_TRUE(torch::allclose(x.grad(), y));
  EXPECT_TRUE(is_deferred(deferred));
  EXPECT_TRUE(deferred_value(deferred).equal(torch::full({3}, 2.0)));
}

}  // namespace
}  // namespace accelerate::compat
