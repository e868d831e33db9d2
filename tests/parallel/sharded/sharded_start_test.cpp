// What a sharded model starts from: memory, what init_empty_weights() has noted, or rank 0's
// values.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>

#include "accelerate/accelerate.h"
#include "accelerate/parallel/inspection.h"
#include "accelerate/tensor/compat/leaf_memory.h"
#include "accelerate/tensor/construction/init_on_device.h"
#include "tests/support/counted_memory.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::Engine;
using testing::run_ranks_shared;

struct LayerImpl : torch::nn::Module {
  explicit LayerImpl(std::int64_t width)
      : linear(register_module("linear", torch::nn::Linear(width, width))),
        gain(register_parameter("gain", torch::rand({width}) * 0.1)) {
    torch::nn::init::xavier_normal_(linear->weight);
  }
  at::Tensor forward(const at::Tensor& x) { return x + linear(x) * gain; }
  torch::nn::Linear linear;
  at::Tensor gain;
};
TORCH_MODULE(Layer);

// Layers between an embedding and a head of the same weight, a table, and a part to be ignored.
struct SpeakerImpl : torch::nn::Module {
  static constexpr std::int64_t kWords = 11;
  explicit SpeakerImpl(std::int64_t width = 9)
      : words(register_module("words", torch::nn::Embedding(kWords, width))),
        places(register_buffer("places", torch::arange(width, torch::kFloat).sin())),
        extra(register_module("extra", torch::nn::Linear(width, 3))) {
    for (const char* name : {"layer0", "layer1", "layer2"})
      layers.push_back(register_module(name, Layer(width)));
    head = register_parameter("head", words->weight);
  }
  at::Tensor forward(const at::Tensor& x) {
    auto hidden = words(x) + places;
    for (auto& layer : layers) hidden = layer(hidden);
    return at::linear(hidden, head);
  }
  torch::nn::Embedding words;
  at::Tensor places, head;
  torch::nn::Linear extra;
  std::vector<Layer> layers;
};
TORCH_MODULE(Speaker);

FullyShardedDataParallelPlugin plugin_of(FullParametersHome home, bool sync) {
  FullyShardedDataParallelPlugin plugin;
  plugin.auto_wrap_policy = AutoWrapPolicy::TRANSFORMER_BASED_WRAP;
  plugin.transformer_cls_names_to_wrap = {{"Layer"}};
  plugin.ignored_modules = {{"extra"}};
  plugin.sync_module_states = sync;
  plugin.full_parameters = home;
  return plugin;
}

Speaker plain() {
  torch::manual_seed(7);
  return Speaker();
}

Speaker without_memory() {
  torch::manual_seed(7);
  const auto scope = init_empty_weights({.include_buffers = true});
  return Speaker();
}

// Nobody knows what it is to hold.
template <typename Net = Speaker>
Net without_values(Net net) {
  for (const auto& [name, tensor] : state_dict(view_of(*net)))
    compat::materialise_(tensor, at::empty_like(tensor, at::device(at::kMeta)));
  return net;
}

// The whole of `net` on rank `comm`, prepared by `plugin`, after two steps.
template <typename Optimizer = torch::optim::AdamW>
std::map<std::string, at::Tensor> train(const std::shared_ptr<Communicator>& comm, Speaker net,
                                        const FullyShardedDataParallelPlugin& plugin) {
  Accelerator accelerator({.fsdp_plugin = plugin, .communicator = comm});
  Optimizer inner(net->parameters(), 0.01);
  auto [model, optimizer] = accelerator.prepare(net, inner);
  for (int step = 0; step < 2; ++step) {
    accelerator.backward(model(torch::arange(6) + comm->rank()).square().mean());
    optimizer.step();
    optimizer.zero_grad();
  }
  const auto whole = model.summon_full_params({.writeback = false});
  std::map<std::string, at::Tensor> values;
  for (const auto& [name, tensor] : state_dict(view_of(*net)))
    values[name] = tensor.detach().clone();
  return values;
}

void expect_equal(const std::map<std::string, at::Tensor>& found,
                  const std::map<std::string, at::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected)
    EXPECT_TRUE(at::equal(found.at(name), tensor)) << name;
}

struct Place {
  Engine engine;
  FullParametersHome home;
};

constexpr Place kPlaces[] = {{Engine::gloo, FullParametersHome::gathered},
                             {Engine::shared_memory, FullParametersHome::gathered},
                             {Engine::shared_memory, FullParametersHome::shared_pages}};

TEST(ShardedStart, AModelWithoutMemoryTrainsAsAPlainOneBitForBit) {
  for (const auto& [engine, home] : kPlaces) {
    for (const bool sync : {false, true}) {
      // LibTorch shares its generator between threads, so that models are made before them.
      std::vector<Speaker> made{plain(), plain(), without_memory(), without_memory()};
      const auto plugin = plugin_of(home, sync);
      run_ranks_shared(2,
                       [&](const std::shared_ptr<Communicator>& comm) {
                         const auto rank = static_cast<std::size_t>(comm->rank());
                         const auto expected = train(comm, made[rank], plugin);
                         expect_equal(train(comm, made[2 + rank], plugin), expected);
                       },
                       {.engine = engine});
    }
  }
}

// Its constructor makes the state, which has no memory either.
TEST(ShardedStart, AdagradOfAModelWithoutMemoryStartsAsThatOfAPlainOne) {
  std::vector<Speaker> made{plain(), plain(), plain(), without_memory()};
  const auto body = [&](const std::shared_ptr<Communicator>& comm) {
    const auto rank = static_cast<std::size_t>(comm->rank());
    const auto plugin = plugin_of(FullParametersHome::automatic, /*sync=*/true);
    const auto expected = train<torch::optim::Adagrad>(comm, made[rank], plugin);
    expect_equal(train<torch::optim::Adagrad>(comm, made[2 + rank], plugin), expected);
  };
  run_ranks_shared(2, body, {.engine = Engine::shared_memory});
}

TEST(ShardedStart, OnlyRankZeroNeedsValuesWhenTheyGoToAll) {
  for (const auto& [engine, home] : kPlaces) {
    std::vector<Speaker> made{plain(), plain(), without_memory(), without_values(plain())};
    // What every rank keeps to itself everyone must have.
    const torch::nn::Linear own(9, 3);
    made[3]->extra = made[3]->replace_module("extra", torch::nn::Linear(9, 3));
    for (auto& net : made) {
      const torch::NoGradGuard no_grad;
      for (auto& parameter : net->extra->parameters())
        compat::materialise_(parameter, at::ones(parameter.sizes()));
    }
    run_ranks_shared(2,
                     [&](const std::shared_ptr<Communicator>& comm) {
                       const auto rank = static_cast<std::size_t>(comm->rank());
                       const auto expected = train(comm, made[rank], plugin_of(home, true));
                       auto plugin = plugin_of(home, false);
                       plugin.sync_module_states = std::nullopt;
                       plugin.cpu_ram_efficient_loading = true;
                       expect_equal(train(comm, made[2 + rank], plugin), expected);
                     },
                     {.engine = engine});
  }
}

struct Lack {
  std::string what;
  bool sync;
  std::function<void(Speaker&)> take_values;
  std::string says;
};

at::Tensor nothing_like(const at::Tensor& tensor) {
  return at::empty_like(tensor, at::device(at::kMeta));
}

// On one rank only, and all are told.
TEST(ShardedStart, ALackOfValuesIsNamedOnAllRanks) {
  const auto empty = [](const at::Tensor& tensor) {
    compat::materialise_(tensor, nothing_like(tensor));
  };
  const Lack lacks[] = {
      {"a parameter", false, [&](Speaker& net) { empty(net->layers[1]->linear->bias); },
       "rank 1: parameter 'layer1.linear.bias' of unit 'layer1' cannot be sharded"},
      {"a buffer", false, [&](Speaker& net) { empty(net->places); },
       "rank 1: buffer 'places' cannot be sharded"},
      {"an ignored parameter", true, [&](Speaker& net) { empty(net->extra->bias); },
       "rank 1: the ignored parameter 'extra.bias' cannot be sharded"},
      {"a parameter that was changed since", false,
       [](Speaker& net) {
         net = without_memory();
         torch::nn::init::zeros_(net->layers[0]->gain);
       },
       "rank 1: parameter 'layer0.gain' of unit 'layer0' cannot be sharded"},
  };
  for (const auto& lack : lacks) {
    std::vector<Speaker> made{plain(), plain()};
    lack.take_values(made[1]);
    run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
      Accelerator accelerator({.fsdp_plugin = plugin_of(FullParametersHome::automatic, lack.sync),
                               .communicator = comm});
      auto& net = made[static_cast<std::size_t>(comm->rank())];
      const auto message = testing::message_of<UsageError>([&] { (void)accelerator.prepare(net); });
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, lack.says, message) << lack.what;
    });
  }
}

// --- what it takes -------------------------------------------------------------------------------

constexpr std::int64_t kWidth = 256;
constexpr std::size_t kUnit = (kWidth * kWidth + 2 * kWidth) * sizeof(float);
constexpr std::size_t kSmall = 96 << 10;  // The rest of the model, and states of generators.

// The most that preparing `net` took beyond what was there.
std::size_t peak_of_preparing(const testing::CountedMemory& memory, Speaker net,
                              std::size_t& slices) {
  auto plugin = plugin_of(FullParametersHome::gathered, false);
  plugin.sync_module_states = std::nullopt;
  plugin.cpu_ram_efficient_loading = true;
  Accelerator accelerator({.fsdp_plugin = plugin});
  auto model = accelerator.prepare(net);
  slices = model.core()->parallel().inspection->memory().slice_bytes;
  return memory.peak();
}

RANK_MAIN(prepares_what_rank_zero_loads) {
  std::size_t slices = 0, peak = 0;
  {
    torch::manual_seed(7);
    const testing::CountedMemory memory;
    const bool loads = std::string(std::getenv("RANK")) == "0";
    const auto net = [&] {
      if (loads) return Speaker(kWidth);
      const auto scope = init_empty_weights();
      return Speaker(kWidth);
    }();
    peak = peak_of_preparing(memory, net, slices);
  }
  std::printf("%zu %zu\n", slices, peak);
  return 0;
}

TEST(ShardedStart, RanksThatLoadNothingNeverHoldMoreThanTheirSliceAndAUnit) {
  for (const auto& result : testing::run_processes(3, "prepares_what_rank_zero_loads",
                                                   {.env = {{"ACCELERATE_COMM", "gloo"}}})) {
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::size_t slices = 0, peak = 0;
    ASSERT_EQ(std::sscanf(result.out.c_str(), "%zu %zu", &slices, &peak), 2) << result.out;
    EXPECT_NEAR(static_cast<double>(slices), kUnit, kSmall);  // Three layers on three ranks.
    if (result.rank == 0) {
      EXPECT_GT(peak, 3 * kUnit);
    } else {
      EXPECT_LE(peak, slices + kUnit + kSmall);
      EXPECT_GE(peak, slices);
    }
  }
}

}  // namespace
}  // namespace accelerate
