// Communication hooks against PyTorch's (tests/reference/comm_hooks.py), and bad options.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/parallel/gradients/comm_hook.h"
#include "accelerate/parallel/gradients/power_sgd.h"
#include "accelerate/parallel/gradients/power_sgd_impl.h"
#include "accelerate/parallel/replicated/ddp_kwargs.h"
#include "tests/support/ranks.h"
#include "tests/support/reference.h"

namespace accelerate {
namespace {

using testing::run_ranks;

using Shape = std::vector<std::int64_t>;
using Settings = std::map<std::string, std::string>;

struct HookCase {
  std::string name;
  Settings settings;
  std::vector<std::vector<float>> steps;
};

struct Golden {
  std::vector<Shape> shapes;
  std::vector<HookCase> cases;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

Golden read_golden() {
  Golden golden;
  std::istringstream file(testing::read_reference("comm_hooks.txt"));
  for (std::string line; std::getline(file, line);) {
    const auto words = split(line, ' ');
    if (words[0] == "shapes") {
      for (const auto& text : split(words[1], ',')) {
        auto& shape = golden.shapes.emplace_back();
        for (const auto& size : split(text, 'x')) shape.push_back(std::stoll(size));
      }
    } else if (words[0] == "case") {
      auto& added = golden.cases.emplace_back(HookCase{words[1], {}, {}});
      for (std::size_t i = 2; i < words.size(); ++i) {
        const auto setting = split(words[i], '=');
        added.settings[setting[0]] = setting[1];
      }
    } else {
      auto& values = golden.cases.back().steps.emplace_back();
      for (const auto& word : words) values.push_back(std::stof(word));
    }
  }
  return golden;
}

DDPCommunicationHookType hook_type(const std::string& name) {
  using Type = DDPCommunicationHookType;
  return std::map<std::string, Type>{{"no", Type::no},
                                     {"fp16", Type::fp16},
                                     {"bf16", Type::bf16},
                                     {"power_sgd", Type::power_sgd},
                                     {"batched_power_sgd", Type::batched_power_sgd}}
      .at(name);
}

DistributedDataParallelKwargs kwargs_of(Settings settings) {
  DistributedDataParallelKwargs kwargs;
  kwargs.comm_hook = hook_type(settings["kind"]);
  kwargs.comm_wrapper = hook_type(settings["wrapper"]);
  auto& option = kwargs.comm_state_option;
  const auto set = [&](const char* key, auto& field) {
    const auto found = settings.find(key);
    if (found == settings.end()) return;
    const auto& text = found->second;
    using Field = std::remove_reference_t<decltype(field)>;
    field = static_cast<Field>(text == "True" ? 1.0 : text == "False" ? 0.0 : std::stod(text));
  };
  set("matrix_approximation_rank", option.matrix_approximation_rank);
  set("start_powerSGD_iter", option.start_powerSGD_iter);
  set("min_compression_rate", option.min_compression_rate);
  set("use_error_feedback", option.use_error_feedback);
  set("warm_start", option.warm_start);
  set("orthogonalization_epsilon", option.orthogonalization_epsilon);
  set("random_seed", option.random_seed);
  set("batch_tensors_with_same_shape", option.batch_tensors_with_same_shape);
  return kwargs;
}

at::Tensor gradient(int rank, std::int64_t step, std::int64_t numel) {
  const auto i = torch::arange(numel, at::kDouble);
  return (torch::sin(0.37 * i * (1 + 0.1 * static_cast<double>(step)) + rank) +
          torch::cos(0.011 * i * i + 2 * step))
      .to(at::kFloat);
}

GradientBucket bucket_of(std::size_t index, std::vector<Shape> shapes, const at::Tensor& flat) {
  GradientBucket bucket{.index = index, .is_last = index == 1, .buffer = flat, .gradients = {}};
  std::int64_t offset = 0;
  for (const auto& shape : shapes) {
    const auto numel = c10::multiply_integers(shape);
    bucket.gradients.push_back(flat.narrow(0, offset, numel).view(shape));
    offset += numel;
  }
  return bucket;
}

// One step over both buckets, as the script does it.
at::Tensor step(Communicator& group, const CommHook& hook, const std::vector<Shape>& shapes,
                std::int64_t number) {
  std::vector<at::Tensor> results;
  for (std::size_t index = 0; index < 2; ++index) {
    const std::vector<Shape> part(shapes.begin() + (index == 0 ? 0 : 4),
                                  index == 0 ? shapes.begin() + 4 : shapes.end());
    std::int64_t numel = 0;
    for (const auto& shape : part) numel += c10::multiply_integers(shape);
    const auto flat = gradient(group.rank(), number + 10 * static_cast<std::int64_t>(index), numel);
    auto bucket = bucket_of(index, part, flat);
    hook(group, bucket).wait();
    results.push_back(flat);
  }
  return torch::cat(results);
}

// Float arithmetic of another order: the tolerance is that of a few roundings. Those in 16 bits
// are roundings to 16 bits.
double tolerance(const HookCase& golden) {
  const auto& settings = golden.settings;
  if (settings.at("kind") == "fp16" || settings.at("kind") == "bf16") return 0;
  if (settings.at("wrapper") == "fp16") return 4e-3;
  if (settings.at("wrapper") == "bf16") return 3e-2;
  return 2e-5;
}

TEST(CommHooks, MakeOfGradientsWhatPyTorchsMake) {
  const Golden golden = read_golden();
  ASSERT_EQ(golden.cases.size(), 17u);
  for (const auto& entry : golden.cases) {
    ASSERT_EQ(entry.steps.size(), 4u);
    run_ranks(2, [&](Communicator& group) {
      const auto hook = make_comm_hook(kwargs_of(entry.settings));
      for (std::size_t s = 0; s < entry.steps.size(); ++s) {
        const auto ours = step(group, hook, golden.shapes, static_cast<std::int64_t>(s));
        const auto theirs = torch::tensor(entry.steps[s]);
        ASSERT_EQ(ours.numel(), theirs.numel());
        EXPECT_LE((ours - theirs).abs().max().item<double>(), tolerance(entry))
            << entry.name << " step " << s;
      }
    });
  }
}

TEST(PowerSGD, WithEnoughColumnsLosesNothingAndRemembersNothing) {
  run_ranks(3, [](Communicator& group) {
    const auto hook = power_sgd_hook(
        {.matrix_approximation_rank = 6, .start_powerSGD_iter = 0, .min_compression_rate = 0.1});
    for (int s = 0; s < 2; ++s) {
      const auto flat = gradient(group.rank(), s, 60);
      const auto mean = (gradient(0, s, 60) + gradient(1, s, 60) + gradient(2, s, 60)) / 3;
      auto bucket = bucket_of(1, {{6, 10}}, flat);
      hook(group, bucket).wait();
      EXPECT_LE((flat - mean).abs().max().item<double>(), 1e-5);
    }
  });
}

// Upstream's columns of zeros become NaN, which a rank without inputs would bring about.
TEST(PowerSGD, GradientsOfZeroStayZero) {
  run_ranks(2, [](Communicator& group) {
    for (const auto make : {power_sgd_hook, batched_power_sgd_hook}) {
      const auto hook = make({.start_powerSGD_iter = 0});
      for (int s = 0; s < 2; ++s) {
        auto bucket = bucket_of(1, {{8, 8}}, torch::zeros({64}));
        hook(group, bucket).wait();
        EXPECT_TRUE(bucket.buffer.equal(torch::zeros({64})));
      }
    }
  });
}

TEST(CompressHook, RefusesOtherDtypes) {
  EXPECT_THROW((void)compress_hook(at::kInt), ConfigError);
  EXPECT_THROW((void)compress_wrapper(at::kDouble, all_reduce_hook()), ConfigError);
}

struct BadKwargs {
  DistributedDataParallelKwargs kwargs;
  std::string says;
};

TEST(DistributedDataParallelKwargs, WhatContradictsOrMakesNoSenseIsAConfigError) {
  using Type = DDPCommunicationHookType;
  const auto power = [](PowerSGDOptions options) {
    return DistributedDataParallelKwargs{.comm_hook = Type::power_sgd,
                                         .comm_state_option = options};
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<BadKwargs> table = {
      {{.dim = 1}, "dim is 1; allowed is 0"},
      {{.bucket_cap_mb = 0}, "bucket_cap_mb is 0"},
      {{.bucket_cap_mb = -1}, "greater than 0"},
      {{.bucket_cap_mb = nan}, "bucket_cap_mb is nan"},
      {{.comm_wrapper = Type::fp16}, "nothing to wrap"},
      {{.comm_hook = Type::fp16, .comm_wrapper = Type::power_sgd}, "allowed are no, fp16 and bf16"},
      {{.comm_state_option = {.matrix_approximation_rank = 2}}, "leave comm_state_option out"},
      {{.comm_hook = Type::bf16, .comm_state_option = {.random_seed = 2}}, "comm_state_option"},
      {{.comm_hook = static_cast<Type>(77)}, "is not one of no, fp16"},
      {power({.matrix_approximation_rank = 0}), "matrix_approximation_rank is 0"},
      {power({.start_powerSGD_iter = -1}), "start_powerSGD_iter is -1"},
      {power({.min_compression_rate = 0}), "min_compression_rate is 0"},
      {power({.min_compression_rate = nan}), "min_compression_rate is nan"},
      {power({.orthogonalization_epsilon = -1e-8}), "orthogonalization_epsilon"},
  };
  for (const auto& [kwargs, says] : table) {
    try {
      (void)make_comm_hook(kwargs);
      ADD_FAILURE() << says;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace accelerate
