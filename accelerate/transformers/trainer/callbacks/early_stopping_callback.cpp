#include "accelerate/transformers/trainer/callbacks/early_stopping_callback.h"

#include <cmath>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/trainer/arguments/training_arguments.h"
#include "accelerate/transformers/trainer/callbacks/best_metric.h"
#include "accelerate/transformers/trainer/ranks.h"

namespace accelerate {
void EarlyStoppingCallback::on_train_begin(TrainerEvent& event) {
  if (event.args.metric_for_best_model.empty())
    throw ConfigError(
        "EarlyStoppingCallback needs metric_for_best_model: name the metric that is to improve, or "
        "set load_best_model_at_end, which watches the loss");
  if (event.args.eval_strategy == IntervalStrategy::no)
    throw ConfigError(
        "EarlyStoppingCallback needs evaluations, and eval_strategy is 'no'; allowed are steps, "
        "epoch");
  if (!event.args.load_best_model_at_end)
    detail::trainer_logger().warning(
        "EarlyStoppingCallback without load_best_model_at_end: the training ends with its last "
        "weights, not with the best ones");
  if (std::exchange(goes_on_, false) && patience_counter_ >= options_.early_stopping_patience) {
    detail::trainer_logger().warning(
        "EarlyStoppingCallback had ended the training at this checkpoint, after " +
        std::to_string(patience_counter_) +
        " evaluations in a row that were not better: to continue, raise early_stopping_patience");
    event.control.should_training_stop = true;
  }
}

void EarlyStoppingCallback::on_evaluate(TrainerEvent& event, const LogValues& metrics) {
  const double* value = metrics.find(detail::evaluated_name(event.args.metric_for_best_model));
  if (value == nullptr) return;  // The metrics are those of another evaluation set.
  const auto& best = event.state.best_metric;
  const bool better = !best || (detail::is_better(event.args, *value, *best) &&
                                std::fabs(*value - *best) > options_.early_stopping_threshold);
  patience_counter_ = better ? 0 : patience_counter_ + 1;
  if (patience_counter_ >= options_.early_stopping_patience)
    event.control.should_training_stop = true;
}

Node EarlyStoppingCallback::state() const {
  return Node::map(
      {{"args", 0,
        Node::map(
            {{"early_stopping_patience", 0, Node::integer(options_.early_stopping_patience)},
             {"early_stopping_threshold", 0, Node::real(options_.early_stopping_threshold)}})},
       {"attributes", 0,
        Node::map({{"early_stopping_patience_counter", 0, Node::integer(patience_counter_)}})}});
}

void EarlyStoppingCallback::load_state(const Node& state) {
  const auto read = [&](const char* group, const char* name) -> std::optional<double> {
    const Node* section = state.find(group);
    const Node* value = section != nullptr ? section->find(name) : nullptr;
    return value != nullptr ? parse_double(value->text) : std::nullopt;
  };
  if (const auto patience = read("args", "early_stopping_patience"))
    options_.early_stopping_patience = static_cast<std::int64_t>(*patience);
  if (const auto threshold = read("args", "early_stopping_threshold"))
    options_.early_stopping_threshold = *threshold;
  if (const auto counter = read("attributes", "early_stopping_patience_counter"))
    patience_counter_ = static_cast<std::int64_t>(*counter);
  goes_on_ = true;
}

}  // namespace accelerate
