// Names the fields of this folder's optimizers once, as Python names them: of their states and of
// their options. The classes are template parameters, so that the optimizers themselves can visit
// their fields.
#pragma once

namespace accelerate::detail {

template <typename Field, typename State>
void visit_adafactor_state(State& state, Field& field) {
  field("step", state.step());
  field("exp_avg", state.exp_avg());
  field("exp_avg_sq_row", state.exp_avg_sq_row());
  field("exp_avg_sq_col", state.exp_avg_sq_col());
  field("exp_avg_sq", state.exp_avg_sq());
  field("RMS", state.RMS());
}

template <typename Field, typename Options>
void visit_adafactor_options(Options& options, Field& field) {
  field("lr", options.lr());
  field("eps", options.eps());
  field("clip_threshold", options.clip_threshold());
  field("decay_rate", options.decay_rate());
  field("beta1", options.beta1());
  field("weight_decay", options.weight_decay());
  field("scale_parameter", options.scale_parameter());
  field("relative_step", options.relative_step());
  field("warmup_init", options.warmup_init());
}

template <typename Field, typename State>
void visit_lion_state(State& state, Field& field) {
  field("step", state.step());
  field("state1", state.state1());
}

template <typename Field, typename Options>
void visit_lion_options(Options& options, Field& field) {
  field("lr", options.lr());
  field("betas", options.betas());
  field("weight_decay", options.weight_decay());
}

template <typename Field, typename State>
void visit_schedule_free_state(State& state, Field& field) {
  field("z", state.z());
  field("exp_avg_sq", state.exp_avg_sq());
}

template <typename Field, typename Options>
void visit_schedule_free_options(Options& options, Field& field) {
  field("lr", options.lr());
  field("betas", options.betas());
  field("eps", options.eps());
  field("weight_decay", options.weight_decay());
  field("warmup_steps", options.warmup_steps());
  field("r", options.r());
  field("weight_lr_power", options.weight_lr_power());
  field("k", options.k());
  field("train_mode", options.train_mode());
  field("weight_sum", options.weight_sum());
  field("lr_max", options.lr_max());
  field("scheduled_lr", options.scheduled_lr());
}

}  // namespace accelerate::detail
