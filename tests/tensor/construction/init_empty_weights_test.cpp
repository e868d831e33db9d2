// Models of torch::nn and of users, constructed without memory.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/parallel/replicated/distributed_data_parallel.h"
#include "accelerate/tensor/construction/init_on_device.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"
#include "tests/tensor/construction/models.h"

namespace accelerate {
namespace {

using testing::kind_and_message_of;
using testing::UserNet;
using MakeModule = std::function<std::shared_ptr<torch::nn::Module>()>;

template <typename Holder, typename... Arguments>
MakeModule of(Arguments... arguments) {
  return [=] { return Holder(arguments...).ptr(); };
}

torch::nn::TransformerEncoderLayerOptions encoder_layer() {
  return torch::nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16);
}

const std::vector<std::pair<std::string, MakeModule>>& kinds() {
  namespace nn = torch::nn;
  static const std::vector<std::pair<std::string, MakeModule>> all = {
      {"Linear", of<nn::Linear>(7, 5)},
      {"Bilinear", of<nn::Bilinear>(3, 4, 5)},
      {"Conv1d", of<nn::Conv1d>(nn::Conv1dOptions(3, 4, 3))},
      {"Conv2d", of<nn::Conv2d>(nn::Conv2dOptions(3, 8, 3))},
      {"ConvTranspose2d", of<nn::ConvTranspose2d>(nn::ConvTranspose2dOptions(4, 2, 3))},
      {"Embedding", of<nn::Embedding>(nn::EmbeddingOptions(11, 6).padding_idx(2))},
      {"EmbeddingBag", of<nn::EmbeddingBag>(nn::EmbeddingBagOptions(9, 4))},
      {"LayerNorm", of<nn::LayerNorm>(nn::LayerNormOptions({6}))},
      {"GroupNorm", of<nn::GroupNorm>(nn::GroupNormOptions(2, 6))},
      {"BatchNorm2d", of<nn::BatchNorm2d>(nn::BatchNorm2dOptions(5))},
      {"InstanceNorm2d",
       of<nn::InstanceNorm2d>(nn::InstanceNorm2dOptions(5).affine(true).track_running_stats(true))},
      {"PReLU", of<nn::PReLU>(nn::PReLUOptions().num_parameters(3))},
      {"RNN", of<nn::RNN>(nn::RNNOptions(4, 6))},
      {"LSTM", of<nn::LSTM>(nn::LSTMOptions(4, 6).num_layers(2).bidirectional(true))},
      {"GRU", of<nn::GRU>(nn::GRUOptions(4, 6).num_layers(2))},
      {"LSTMCell", of<nn::LSTMCell>(nn::LSTMCellOptions(4, 6))},
      {"MultiheadAttention", of<nn::MultiheadAttention>(nn::MultiheadAttentionOptions(8, 2))},
      {"TransformerEncoderLayer", of<nn::TransformerEncoderLayer>(encoder_layer())},
      {"TransformerEncoder",  // Its options hold a layer, which is constructed with them.
       [] {
         return nn::TransformerEncoder(nn::TransformerEncoderOptions(encoder_layer(), 3)).ptr();
       }},
      {"Transformer", of<nn::Transformer>(nn::TransformerOptions(8, 2, 2, 2).dim_feedforward(16))},
      {"AdaptiveLogSoftmaxWithLoss",
       of<nn::AdaptiveLogSoftmaxWithLoss>(
           nn::AdaptiveLogSoftmaxWithLossOptions(8, 20, std::vector<std::int64_t>{5, 10})
               .div_value(2))},
      {"Sequential",
       [] {
         return nn::Sequential(nn::Linear(3, 4), nn::ReLU(), nn::BatchNorm1d(4), nn::Linear(4, 2))
             .ptr();
       }},
      {"a user's net", of<UserNet>()},
  };
  return all;
}

void expect_equal(const torch::OrderedDict<std::string, at::Tensor>& ours,
                  const torch::OrderedDict<std::string, at::Tensor>& theirs,
                  const std::string& name) {
  ASSERT_EQ(ours.size(), theirs.size()) << name;
  for (const auto& item : theirs) {
    const auto& tensor = ours[item.key()];
    ASSERT_FALSE(tensor.is_meta()) << name << ' ' << item.key();
    EXPECT_EQ(tensor.dtype(), item.value().dtype()) << name << ' ' << item.key();
    EXPECT_EQ(tensor.requires_grad(), item.value().requires_grad()) << name << ' ' << item.key();
    EXPECT_TRUE(tensor.equal(item.value())) << name << ' ' << item.key();
  }
}

void expect_equal(const torch::nn::Module& ours, const torch::nn::Module& theirs,
                  const std::string& name) {
  expect_equal(ours.named_parameters(), theirs.named_parameters(), name);
  expect_equal(ours.named_buffers(), theirs.named_buffers(), name);
}

UserNet empty_net(const InitOptions& options = {}) {
  const auto scope = init_empty_weights(options);
  return UserNet();
}

TEST(InitEmptyWeights, MaterialisedModulesEqualThoseOfPlainConstructionBitForBit) {
  std::size_t compared = 0;
  for (const auto& [name, make] : kinds()) {
    for (const bool include_buffers : {false, true}) {
      torch::manual_seed(42);
      const auto plain = make();
      torch::manual_seed(42);
      const auto empty = [&, &make = make] {
        const auto scope = init_empty_weights({.include_buffers = include_buffers});
        return make();
      }();
      for (const auto& parameter : empty->parameters())
        EXPECT_EQ(parameter.is_meta(), parameter.requires_grad() || include_buffers) << name;
      for (const auto& buffer : empty->buffers())
        EXPECT_EQ(buffer.is_meta(), include_buffers) << name;
      materialise(*empty);
      expect_equal(*empty, *plain, name);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 46U);
}

TEST(InitEmptyWeights, PartsGetTheSameValuesInAnyOrder) {
  torch::manual_seed(1);
  UserNet plain;
  torch::manual_seed(1);
  auto net = empty_net();
  const auto children = net->children();
  ASSERT_EQ(children.size(), 3U);
  for (auto child = children.rbegin(); child != children.rend(); ++child) materialise(**child);
  expect_equal(*net, *plain, "a user's net");
}

TEST(InitEmptyWeights, AMaterialisedModelTrainsLikeThePlainOne) {
  const auto train = [](UserNet net) {
    torch::optim::AdamW optimizer(net->parameters(), 0.01);
    materialise(*net);  // Optimizers keep their tensors.
    torch::manual_seed(8);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      net(torch::randint(0, 10, {4, 5})).square().mean().backward();
      optimizer.step();
    }
    return net;
  };
  torch::manual_seed(1);
  UserNet plain;
  torch::manual_seed(1);
  auto empty = empty_net();
  expect_equal(*train(empty), *train(plain), "trained");
}

TEST(InitEmptyWeights, AHugeModelTakesNoMemory) {
  const auto scope = init_empty_weights();
  const torch::nn::Linear huge(1 << 20, 1 << 20);  // 4 TiB.
  EXPECT_EQ(huge->weight.numel(), std::int64_t{1} << 40);
  EXPECT_TRUE(huge->weight.is_meta());
}

TEST(InitEmptyWeights, CopiesOfModulesWithMemoryHaveTheirValues) {
  const torch::nn::Linear plain(3, 2);
  const auto scope = init_empty_weights();
  const auto copy = std::dynamic_pointer_cast<torch::nn::LinearImpl>(plain->clone());
  EXPECT_TRUE(copy->weight.equal(plain->weight));
  EXPECT_FALSE(copy->weight.is_alias_of(plain->weight));
}

TEST(InitEmptyWeights, TiedParametersStayTied) {
  struct TiedImpl : torch::nn::Module {
    TiedImpl() {
      first = register_parameter("first", torch::rand({3}));
      second = register_parameter("second", first);
    }
    at::Tensor first, second;
  };
  auto net = [] {
    const auto scope = init_empty_weights();
    return std::make_shared<TiedImpl>();
  }();
  materialise(*net);
  EXPECT_TRUE(net->first.is_same(net->second));
  EXPECT_TRUE(net->first.is_same(net->named_parameters()["second"]));
  EXPECT_FALSE(net->first.is_meta());
}

TEST(InitEmptyWeights, ConvertedWithinTheScopeItHasTheOtherDtype) {
  torch::manual_seed(1);
  UserNet plain;
  plain->to(torch::kBFloat16);
  torch::manual_seed(1);
  auto net = [] {
    const auto scope = init_empty_weights({.include_buffers = true});
    UserNet net;
    net->to(torch::kBFloat16);
    return net;
  }();
  materialise(*net);
  expect_equal(*net, *plain, "bf16");
}

TEST(InitEmptyWeights, TheVariableDecidesOnBuffersWhenTheProgramDoesNot) {
  const auto norm = [] {
    const auto scope = init_empty_weights();
    return torch::nn::BatchNorm1d(3);
  };
  constexpr const char* kVariable = "ACCELERATE_INIT_INCLUDE_BUFFERS";
  {
    const testing::ScopedEnv unset(kVariable, nullptr);
    EXPECT_FALSE(norm()->running_mean.is_meta());
  }
  {
    const testing::ScopedEnv yes(kVariable, "yes");
    EXPECT_TRUE(norm()->running_mean.is_meta());
  }
  const testing::ScopedEnv neither(kVariable, "perhaps");
  EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                      "ConfigError: ", kind_and_message_of([&] { (void)norm(); }));
}

TEST(InitOnDevice, MakesTensorsWhereItIsTold) {
  torch::manual_seed(1);
  const torch::nn::Linear plain(3, 2);
  torch::manual_seed(1);
  const auto scope = init_on_device(at::kCPU);
  EXPECT_TRUE(torch::nn::Linear(3, 2)->weight.equal(plain->weight));
  const auto inner = init_on_device(at::kMeta);
  EXPECT_TRUE(torch::nn::Linear(3, 2)->weight.is_meta());
}

TEST(Materialise, RefusesWhatItCannotKnowAndChangesNothing) {
  struct Row {
    std::string what, names;
    std::function<void(UserNet&)> spoil;
  };
  const std::vector<Row> rows = {
      {"made by hand", "head.scale of",
       [](UserNet& net) { net->head->register_parameter("scale", torch::empty({3}, at::kMeta)); }},
      {"initialised afterwards", "head.bias of",
       [](UserNet& net) { torch::nn::init::zeros_(net->head->bias); }},
      {"converted afterwards", "embed.weight of", [](UserNet& net) { net->to(torch::kBFloat16); }},
  };
  for (const auto& [what, names, spoil] : rows) {
    auto net = empty_net();
    spoil(net);
    const auto said = kind_and_message_of([&] { materialise(*net); });
    for (const auto& part : {std::string("UsageError: "), names,
                             std::string("UserNetImpl cannot get memory"), std::string("scope")})
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, said) << what;
    EXPECT_TRUE(net->embed->weight.is_meta() && net->head->weight.is_meta()) << what;
  }
}

std::string libtorch_says(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "nothing";
}

TEST(Materialise, AModelWithoutMemorySaysSoWhenItIsUsed) {
  auto net = [] {
    const auto scope = init_empty_weights();
    return torch::nn::Linear(3, 2);
  }();
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring,
      "UsageError: the model torch::nn::LinearImpl cannot be moved to cpu: weight has no memory",
      kind_and_message_of([&] { view_of(*net).to(at::kCPU); }));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "cannot be prepared for data parallel training",
                      kind_and_message_of([&] {
                        (void)DistributedDataParallel(view_of(*net), single_communicator());
                      }));
  for (const auto& read : std::vector<std::function<void()>>{
           [&] { (void)net->weight.sum().item<float>(); },
           [&] { (void)net(torch::ones({1, 3})).mean().item<float>(); },
           [&] { (void)net->weight.to(at::kCPU); }})
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "eta tensor", libtorch_says(read));
  EXPECT_EQ(net(torch::ones({5, 3}, at::kMeta)).sizes(), at::IntArrayRef({5, 2}))
      << "shapes can be asked for";
}

TEST(Materialise, RanksRefuseAModelWithoutMemoryTogether) {
  testing::run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    auto net = empty_net();
    EXPECT_THROW((DistributedDataParallel(view_of(*net), comm)), UsageError);
    if (comm->rank() == 0) materialise(*net);
    EXPECT_THROW((DistributedDataParallel(view_of(*net), comm)), CommError);
    comm->barrier();
  });
}

}  // namespace
}  // namespace accelerate
