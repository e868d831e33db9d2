#include "accelerate/transformers/trainer/checkpoints/loop_record.h"

#include <algorithm>
#include <string_view>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/checkpoint/codecs.h"
#include "accelerate/checkpoint/planned_files.h"
#include "accelerate/checkpoint/state_file.h"

namespace accelerate::detail {
namespace {

constexpr const char* kStem = "training_loop";

// Visits each field with its name in the file.
template <typename Record, typename Field>
void for_each_field_of(Record& record, Field&& field) {
  field("run", record.run);
  field("epoch", record.epoch);
  field("updates", record.updates);
  field("epoch_over", record.epoch_over);
  field("epoch_ended", record.epoch_ended);
  field("strategy", record.cut.strategy);
  field("batch_size", record.cut.batch_size);
  field("ranks", record.cut.ranks);
  field("accumulation", record.cut.accumulation);
  field("max_tokens", record.cut.max_tokens);
  field("drop_last", record.cut.drop_last);
  field("split_batches", record.cut.split_batches);
  field("order_samples", record.cut.order_samples);
  field("offset", record.cut.offset);
  field("epoch_begin", record.epoch_begin);
  field("loader", record.loader);
  field("updates_per_epoch", record.updates_per_epoch);
  field("extra_steps", record.extra_steps);
  field("interrupted", record.interrupted);
  field("is_extra", record.is_extra);
  field("evaluate_due", record.evaluate_due);
  field("save_due", record.save_due);
  field("evaluated_sets", record.evaluated_sets);
  field("evaluated", record.evaluated);
  field("stop_due", record.stop_due);
  field("losses", record.losses);
  field("total_loss", record.total_loss);
  field("loss_before", record.loss_before);
  field("first_step", record.first_step);
  field("step_logged", record.step_logged);
  field("grad_norm", record.grad_norm);
  field("learning_rate", record.learning_rate);
}

template <typename T>
StateDict stored(const T& value) {
  return StateDict(value);
}
StateDict stored(const std::optional<double>& value) {
  return value ? StateDict(*value) : StateDict();
}
StateDict stored(const LoaderState& value) {
  return to_state_dict(value);
}

// A list of pairs: the order counts.
StateDict stored(const LogValues& values) {
  StateDict::List pairs;
  for (const auto& [name, value] : values)
    pairs.emplace_back(StateDict::List{StateDict(name), StateDict(value)});
  return StateDict(std::move(pairs));
}

template <typename T>
void restore(const StateDict& stored, T& value) {
  value = stored.to<T>();
}
void restore(const StateDict& stored, LoaderState& value) {
  value = loader_state_of(stored);
}
void restore(const StateDict& stored, std::optional<double>& value) {
  if (!stored.is_null()) value = stored.to<double>();
}
void restore(const StateDict& stored, std::vector<double>& value) {
  for (const StateDict& one : stored.list()) value.push_back(one.to<double>());
}

void restore(const StateDict& stored, LogValues& values) {
  for (const StateDict& pair : stored.list()) {
    if (pair.list().size() != 2) throw CheckpointError("a metric is no pair of name and value");
    values.set(pair.list()[0].to<std::string>(), pair.list()[1].to<double>());
  }
}

}  // namespace

void LoopRecord::write(const std::filesystem::path& folder) const {
  StateDict::Dict state;
  for_each_field_of(*this,
                    [&](const char* name, const auto& value) { state[name] = stored(value); });
  (void)write_planned(real_file_system(), folder, plan_state(kStem, state));
}

std::optional<LoopRecord> LoopRecord::read(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / (std::string(kStem) + ".json"))) return std::nullopt;
  const StateDict state = read_state_file(real_file_system(), folder, kStem);
  LoopRecord record;
  for_each_field_of(record, [&](const char* name, auto& value) {
    // Older checkpoints lack these two.
    if (!std::string_view(name).starts_with("evaluated") || state.find(name) != nullptr)
      restore(state.at(name), value);
  });
  const auto least = std::min({record.epoch, record.updates, record.first_step, record.step_logged,
                               record.cut.offset, record.cut.max_tokens, record.cut.batch_size - 1,
                               record.cut.ranks - 1, record.cut.accumulation - 1,
                               record.cut.order_samples - 1, record.evaluated_sets});
  if (least < 0)
    throw CheckpointError((folder / (std::string(kStem) + ".json")).string() +
                          " has a number that is too small: a count below 0, or a size below 1");
  return record;
}

}  // namespace accelerate::detail
