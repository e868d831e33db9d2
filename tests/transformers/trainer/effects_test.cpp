// What each argument of a training changes: a row an argument. Arguments whose effect needs no
// training (aliases, refusals, sharding, precision) have their rows in arguments_*_test.cpp, those
// of pushes and of several ranks in tests/examples/trainer_test.py and tests/transformers/trainer/loop_live.py.
#include <gtest/gtest.h>

#include <ATen/Context.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/base/logger.h"
#include "accelerate/transformers/trainer/arguments/argument_table.h"
#include "accelerate/transformers/trainer/metrics/metrics.h"
#include "tests/support/support.h"
#include "tests/transformers/trainer/small_training.h"

namespace accelerate {
namespace {

using std::filesystem::exists;
using testing::are_equal;
using testing::logged;
using testing::TemporaryFolder;

// What a training left.
struct Outcome {
  TrainerState state;
  std::vector<at::Tensor> weights;
  LogValues evaluation;
  std::vector<double> decays, betas;   // Of the optimizer's groups.
  std::vector<std::size_t> predicted;  // Rows that compute_metrics got, call by call.
  bool had_inputs = false, had_losses = false, by_batch = false;
  std::vector<std::string> warnings;
  std::filesystem::path folder;
};

struct GroupsSeen final : TrainerCallback {
  explicit GroupsSeen(Outcome& outcome) : outcome(outcome) {}
  void on_train_begin(TrainerEvent& event) override {
    outcome.decays.clear();
    for (auto& group : event.optimizer->param_groups()) {
      if (auto* adam = dynamic_cast<torch::optim::AdamWOptions*>(&group.options())) {
        outcome.decays.push_back(adam->weight_decay());
        outcome.betas = {std::get<0>(adam->betas()), std::get<1>(adam->betas()), adam->eps()};
      }
    }
  }
  Outcome& outcome;
};

using Change = std::function<void(TrainerOptions&)>;

// Trains 6 steps of 4 rows, the last of 2, and evaluates 10 rows.
Outcome train(const TemporaryFolder& folder, const Change& change) {
  Outcome outcome;
  auto options = testing::small_training(testing::quiet_arguments(folder.path()));
  options.compute_metrics = [&outcome](const EvalPrediction& prediction) -> LogValues {
    outcome.by_batch = !prediction.batches.empty();
    outcome.predicted.push_back(outcome.by_batch
                                    ? prediction.batches.size()
                                    : static_cast<std::size_t>(prediction.predictions.size(0)));
    outcome.had_inputs = prediction.inputs.defined();
    outcome.had_losses = prediction.losses.defined();
    return {{"rows", static_cast<double>(outcome.predicted.back())}};
  };
  change(options);
  options.callbacks.push_back(std::make_shared<GroupsSeen>(outcome));
  const auto sink =
      set_log_sink([&](const LogRecord& record) { outcome.warnings.emplace_back(record.text); });
  Trainer trainer(std::move(options));
  trainer.train();
  outcome.evaluation = trainer.evaluate();
  set_log_sink(nullptr);
  set_log_level(std::nullopt);
  outcome.state = trainer.state();
  outcome.weights = testing::weights_of(trainer.model());
  outcome.folder = folder.path();
  return outcome;
}

// How the outcome of a training with the argument differs from one without.
struct Effect {
  const char* argument;
  Change change;
  std::function<bool(const Outcome& without, const Outcome& with)> seen;
};

bool other_weights(const Outcome& a, const Outcome& b) {
  return !are_equal(a.weights, b.weights);
}
bool same_weights(const Outcome& a, const Outcome& b) {
  return are_equal(a.weights, b.weights);
}
std::size_t logs(const Outcome& outcome, const char* name) {
  return logged(outcome.state, name).size();
}
std::size_t checkpoints(const Outcome& outcome) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(outcome.folder))
    count += entry.path().filename().string().starts_with("checkpoint-") ? 1U : 0U;
  return count;
}

#define ARGUMENT(field, value) #field, [](TrainerOptions& o) { o.args.field = value; }

const std::vector<Effect>& effects() {
  using O = TrainerOptions;
  using R = const Outcome&;
  static const std::vector<Effect> rows{
      {"output_dir", [](O& o) { o.args.output_dir += "/below"; },
       [](R, R b) { return exists(b.folder / "below" / "run_log.jsonl"); }},
      {ARGUMENT(per_device_train_batch_size, 11), [](R, R b) { return b.state.global_step == 2; }},
      {ARGUMENT(num_train_epochs, 1.5), [](R, R b) { return b.state.global_step == 9; }},
      {ARGUMENT(max_steps, 2), [](R, R b) { return b.state.global_step == 2; }},
      {ARGUMENT(learning_rate, 1e-4),
       [](R, R b) { return logged(b.state, "learning_rate").front() == 1e-4; }},
      {ARGUMENT(lr_scheduler_type, "constant"),
       [](R, R b) { return logged(b.state, "learning_rate").back() == 5e-3; }},
      {"lr_scheduler_kwargs",
       [](O& o) {
         o.args.lr_scheduler_type = "polynomial";
         o.args.lr_scheduler_kwargs.lr_end = 4e-3;
       },
       [](R, R b) { return logged(b.state, "learning_rate").back() > 4e-3; }},
      {ARGUMENT(warmup_steps, 3),
       [](R, R b) { return logged(b.state, "learning_rate").front() == 0; }},
      {ARGUMENT(warmup_ratio, 0.5),
       [](R, R b) {
         const auto rates = logged(b.state, "learning_rate");
         return rates.front() == 0 && rates[3] == 5e-3;
       }},
      {ARGUMENT(gradient_accumulation_steps, 4), [](R, R b) { return b.state.global_step == 2; }},
      {ARGUMENT(max_grad_norm, 1e-3),
       [](R a, R b) {
         return other_weights(a, b) &&
                logged(a.state, "grad_norm").front() == logged(b.state, "grad_norm").front();
       }},
      {ARGUMENT(label_smoothing_factor, 0.4),
       [](R a, R b) { return logged(a.state, "loss") != logged(b.state, "loss"); }},
      {ARGUMENT(seed, 7), other_weights},
      {ARGUMENT(data_seed, 7), other_weights},
      {ARGUMENT(full_determinism, true),
       [](R a, R b) {
         const bool on = at::globalContext().deterministicAlgorithms();
         at::globalContext().setDeterministicAlgorithms(false, false);
         return on && same_weights(a, b);
       }},
      {ARGUMENT(optim, "sgd"), [](R a, R b) { return other_weights(a, b) && b.decays.empty(); }},
      {"optim_args",
       [](O& o) {
         o.args.optim = "sgd";
         o.args.optim_args = "momentum=0.9";
       },
       other_weights},
      {ARGUMENT(weight_decay, 0.25),
       [](R a, R b) {
         return a.decays == std::vector<double>{0, 0} && b.decays == std::vector<double>{0.25, 0};
       }},
      {ARGUMENT(adam_beta1, 0.5), [](R, R b) { return b.betas[0] == 0.5; }},
      {ARGUMENT(adam_beta2, 0.5), [](R, R b) { return b.betas[1] == 0.5; }},
      {ARGUMENT(adam_epsilon, 1e-3), [](R, R b) { return b.betas[2] == 1e-3; }},
      {ARGUMENT(bf16_full_eval, true),
       [](R a, R b) {
         const double full = *a.evaluation.find("eval_loss"),
                      half = *b.evaluation.find("eval_loss");
         return full != half && std::fabs(full - half) < 0.02 && same_weights(a, b);
       }},
      {ARGUMENT(fp16_full_eval, true),
       [](R a, R b) {
         return *a.evaluation.find("eval_loss") != *b.evaluation.find("eval_loss") &&
                same_weights(a, b);
       }},
      {ARGUMENT(tf32, true), [](R, R) { return at::globalContext().allowTF32CuBLAS(); }},
      {ARGUMENT(gradient_checkpointing, true), same_weights},
      {ARGUMENT(auto_find_batch_size, true), same_weights},  // FindsABatchSizeThatFits.
      {ARGUMENT(torch_empty_cache_steps, 1), same_weights},
      {ARGUMENT(neftune_noise_alpha, 5.0),
       [](R a, R b) { return logged(a.state, "loss") != logged(b.state, "loss"); }},
      {ARGUMENT(use_cache, true),
       [](R a, R b) {
         return same_weights(a, b) && std::ranges::any_of(b.warnings, [](const std::string& text) {
                  return text.find("use_cache") != std::string::npos;
                });
       }},
      {ARGUMENT(logging_strategy, "epoch"), [](R, R b) { return logs(b, "loss") == 1; }},
      {ARGUMENT(logging_steps, 0.5), [](R, R b) { return logs(b, "loss") == 2; }},
      {"logging_first_step",
       [](O& o) {
         o.args.logging_steps = 4;
         o.args.logging_first_step = true;
       },
       [](R, R b) { return logs(b, "loss") == 2; }},
      {"logging_nan_inf_filter",
       [](O& o) {
         o.args.logging_nan_inf_filter = false;
         o.compute_loss_func = [](const ModelOutput& out, const at::Tensor&, const at::Tensor&) {
           return out.logits.mean() * NAN;
         };
       },
       [](R, R b) { return std::isnan(logged(b.state, "loss").front()); }},
      {ARGUMENT(log_level, "error"), [](R, R b) { return b.warnings.empty(); }},
      {ARGUMENT(report_to, "jsonl"),
       [](R, R b) {
         for (const auto& entry : std::filesystem::recursive_directory_iterator(b.folder / "runs"))
           if (entry.is_regular_file()) return true;
         return false;
       }},
      {"run_name",
       [](O& o) {
         o.args.report_to = "jsonl";
         o.args.run_name = "a-name";
       },
       [](R, R b) { return exists(b.folder / "runs" / "a-name"); }},
      {ARGUMENT(disable_tqdm, false), same_weights},  // The bar is looked at in progress_test.
      {ARGUMENT(include_num_input_tokens_seen, "non_padding"),
       [](R, R b) { return b.state.num_input_tokens_seen == 107; }},
      {ARGUMENT(eval_strategy, "epoch"), [](R, R b) { return logs(b, "eval_loss") == 2; }},
      {"eval_steps",
       [](O& o) {
         o.args.eval_strategy = "steps";
         o.args.eval_steps = 2;
       },
       [](R, R b) { return logs(b, "eval_loss") == 4; }},
      {"eval_delay",
       [](O& o) {
         o.args.eval_strategy = "steps";
         o.args.eval_steps = 2;
         o.args.eval_delay = 5;
       },
       [](R, R b) { return logs(b, "eval_loss") == 2; }},
      {ARGUMENT(eval_on_start, true),
       [](R, R b) { return *b.state.log_history.front().find("step") == 0; }},
      {ARGUMENT(per_device_eval_batch_size, 3),
       [](R a, R b) {
         return std::fabs(*a.evaluation.find("eval_loss") - *b.evaluation.find("eval_loss")) < 1e-5;
       }},
      {ARGUMENT(prediction_loss_only, true),
       [](R, R b) {
         return b.predicted.empty() && b.evaluation.find("eval_rows") == nullptr &&
                b.evaluation.find("eval_loss") != nullptr;
       }},
      {ARGUMENT(eval_accumulation_steps, 1),
       [](R, R b) { return b.predicted == std::vector<std::size_t>{10}; }},
      {ARGUMENT(eval_do_concat_batches, false),
       [](R, R b) { return b.by_batch && b.predicted == std::vector<std::size_t>{2}; }},
      {"batch_eval_metrics",
       [](O& o) {
         o.args.batch_eval_metrics = true;
         o.compute_metrics = [seen = 0.0](const EvalPrediction& batch, bool last) mutable {
           seen += static_cast<double>(batch.predictions.size(0));
           return last ? LogValues{{"seen", seen}} : LogValues{};
         };
       },
       [](R, R b) { return *b.evaluation.find("eval_seen") == 10; }},
      {"include_for_metrics", [](O& o) { o.args.include_for_metrics = {"inputs", "loss"}; },
       [](R a, R b) { return !a.had_inputs && b.had_inputs && b.had_losses; }},
      {ARGUMENT(label_names, "labels"), [](R, R b) { return !b.predicted.empty(); }},
      {ARGUMENT(save_strategy, "epoch"), [](R, R b) { return checkpoints(b) == 1; }},
      {"save_steps",
       [](O& o) {
         o.args.save_strategy = "steps";
         o.args.save_steps = 2;
       },
       [](R, R b) { return checkpoints(b) == 3; }},
      {"save_total_limit",
       [](O& o) {
         o.args.save_strategy = "steps";
         o.args.save_steps = 2;
         o.args.save_total_limit = 1;
       },
       [](R, R b) { return checkpoints(b) == 1 && exists(b.folder / "checkpoint-6"); }},
      {"save_only_model",
       [](O& o) {
         o.args.save_strategy = "epoch";
         o.args.save_only_model = true;
       },
       [](R, R b) {
         const auto checkpoint = b.folder / "checkpoint-6";
         return exists(checkpoint / "model.safetensors") && !exists(checkpoint / "optimizer.json");
       }},
      {"save_on_each_node",
       [](O& o) {
         o.args.save_strategy = "epoch";
         o.args.save_on_each_node = true;
       },
       [](R, R b) { return exists(b.folder / "checkpoint-6" / "config.json"); }},
      {"load_best_model_at_end",
       [](O& o) {
         o.args.eval_strategy = "epoch";
         o.args.save_strategy = "epoch";
         o.args.load_best_model_at_end = true;
       },
       [](R, R b) { return b.state.best_global_step == 6; }},
      {"metric_for_best_model",
       [](O& o) {
         o.args.eval_strategy = "epoch";
         o.args.metric_for_best_model = "rows";
       },
       [](R, R b) { return b.state.best_metric == 10.0; }},
      {"greater_is_better",
       [](O& o) {
         o.args.eval_strategy = "steps";
         o.args.eval_steps = 3;
         o.args.metric_for_best_model = "loss";
         o.args.greater_is_better = true;
       },
       [](R, R b) {
         const auto losses = logged(b.state, "eval_loss");
         return *b.state.best_metric == std::max(losses[0], losses[1]);
       }},
      {ARGUMENT(dataloader_num_workers, 2), same_weights},
      {"dataloader_prefetch_factor",
       [](O& o) {
         o.args.dataloader_num_workers = 2;
         o.args.dataloader_prefetch_factor = 5;
       },
       same_weights},
      {ARGUMENT(dataloader_pin_memory, false), same_weights},
      {ARGUMENT(dataloader_drop_last, true), [](R, R b) { return b.state.global_step == 5; }},
      {"remove_unused_columns",
       [](O& o) {
         o.train_dataset = testing::small_rows(22).map([](const Row& row) {
           Row more = row;
           more.set("more", 1);
           return more;
         });
       },
       same_weights},
      {ARGUMENT(train_sampling_strategy, "sequential"), other_weights},
      {"length_column_name",
       [](O& o) {
         o.args.train_sampling_strategy = "group_by_length";
         o.args.length_column_name = "label";
       },
       other_weights},
      {ARGUMENT(max_tokens_per_batch, 14), [](R, R b) { return b.state.global_step > 6; }},
      {"accelerator_config", [](O& o) { o.args.accelerator_config.use_seedable_sampler = false; },
       [](R, R b) { return b.state.global_step == 6; }},
  };
  return rows;
}
#undef ARGUMENT

TEST(Effects, EachArgumentDoesWhatItSays) {
  const TemporaryFolder folder;
  const Outcome without = train(folder, [](TrainerOptions&) {});
  for (const Effect& effect : effects()) {
    const TemporaryFolder own;
    try {
      EXPECT_TRUE(effect.seen(without, train(own, effect.change))) << effect.argument;
    } catch (const std::exception& error) {
      set_log_sink(nullptr);
      ADD_FAILURE() << effect.argument << ": " << error.what();
    }
  }
}

// Looked at elsewhere: without a training, on several ranks, or against a hub.
const std::set<std::string> kElsewhere{"do_train",
                                       "do_eval",
                                       "do_predict",  // For the program to read.
                                       "average_tokens_across_devices",
                                       "bf16",
                                       "fp16",
                                       "activation_checkpointing",
                                       "project",
                                       "log_on_each_node",
                                       "log_level_replica",
                                       "overwrite_output_dir",
                                       "resume_from_checkpoint",
                                       "enable_jit_checkpoint",
                                       "ignore_data_skip",
                                       "restore_callback_states_from_checkpoint",
                                       "verify_resume",
                                       "fsdp",
                                       "fsdp_strategy",
                                       "fsdp_config",
                                       "deepspeed",
                                       "ddp_find_unused_parameters",
                                       "ddp_bucket_cap_mb",
                                       "ddp_broadcast_buffers",
                                       "ddp_static_graph",
                                       "ddp_backend",
                                       "ddp_timeout",
                                       "use_cpu",
                                       "push_to_hub",
                                       "hub_model_id",
                                       "hub_strategy",
                                       "hub_token",
                                       "hub_private_repo",
                                       "hub_always_push",
                                       "hub_revision"};

TEST(Effects, NoArgumentIsForgotten) {
  std::set<std::string> here = kElsewhere;
  for (const Effect& effect : effects()) here.insert(effect.argument);
  for (const auto& argument : detail::argument_table().keys)
    EXPECT_TRUE(here.contains(argument.name)) << argument.name << " has no row";
}

// Callbacks get what they had saved, and a resumed epoch begins anew if it is told to.
struct Counting final : TrainerCallback {
  std::int64_t steps = 0;
  [[nodiscard]] std::string name() const override { return "Counting"; }
  void on_step_end(TrainerEvent& event) override {
    if (++steps == 2 && event.state.global_step == 2) event.control.should_training_stop = true;
  }
  [[nodiscard]] Node state() const override {
    return Node::map({{"attributes", 0, Node::map({{"steps", 0, Node::integer(steps)}})}});
  }
  void load_state(const Node& state) override {
    steps = std::stoll(state.find("attributes")->find("steps")->text);
  }
};

TEST(Effects, OfGoingOn) {
  const TemporaryFolder folder;
  auto args = testing::quiet_arguments(folder.path());
  args.save_strategy = "steps";
  args.save_steps = 2;
  auto options = testing::small_training(args);
  options.callbacks = {std::make_shared<Counting>()};
  Trainer(std::move(options)).train();
  args.resume_from_checkpoint = true;
  args.ignore_data_skip = true;
  args.restore_callback_states_from_checkpoint = true;
  options = testing::small_training(args);
  const auto counting = std::make_shared<Counting>();
  options.callbacks = {counting};
  Trainer resumed(std::move(options));
  resumed.train();
  EXPECT_EQ(resumed.state().global_step, 6);
  EXPECT_EQ(counting->steps, 6);  // 2 from the checkpoint, 4 of the epoch that began anew.
}

}  // namespace
}  // namespace accelerate
