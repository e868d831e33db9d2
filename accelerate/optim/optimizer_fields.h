// Names the fields of LibTorch's optimizers once, as Python names them, for all code that visits
// them. The optimizers in algorithms/ name their own.
#pragma once

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <type_traits>
#include <typeinfo>

#include "accelerate/optim/algorithms/adafactor.h"
#include "accelerate/optim/algorithms/lion.h"
#include "accelerate/optim/algorithms/muon.h"
#include "accelerate/optim/algorithms/muon_with_aux_adam.h"
#include "accelerate/optim/algorithms/schedule_free_adamw.h"

namespace accelerate::detail {

template <typename Field, typename Adam>
void visit_adam_state(Adam& state, Field& field) {
  field("step", state.step());
  field("exp_avg", state.exp_avg());
  field("exp_avg_sq", state.exp_avg_sq());
  field("max_exp_avg_sq", state.max_exp_avg_sq());
}

template <typename Field, typename Adam>
void visit_adam_options(Adam& options, Field& field) {
  field("lr", options.lr());
  field("betas", options.betas());
  field("eps", options.eps());
  field("weight_decay", options.weight_decay());
  field("amsgrad", options.amsgrad());
}

/// A known optimizer: its classes of state and options.
template <typename O, typename S, typename P>
struct OptimizerKind {
  using Optimizer = O;
  using State = S;
  using Options = P;
};

struct Adam
    : OptimizerKind<torch::optim::Adam, torch::optim::AdamParamState, torch::optim::AdamOptions> {
  static constexpr const char* name = "Adam";
  static void state(State& state, auto& field) { visit_adam_state(state, field); }
  static void options(Options& options, auto& field) { visit_adam_options(options, field); }
};

struct AdamW : OptimizerKind<torch::optim::AdamW, torch::optim::AdamWParamState,
                             torch::optim::AdamWOptions> {
  static constexpr const char* name = "AdamW";
  static void state(State& state, auto& field) { visit_adam_state(state, field); }
  static void options(Options& options, auto& field) { visit_adam_options(options, field); }
};

struct SGD
    : OptimizerKind<torch::optim::SGD, torch::optim::SGDParamState, torch::optim::SGDOptions> {
  static constexpr const char* name = "SGD";
  static void state(State& state, auto& field) {
    field("momentum_buffer", state.momentum_buffer());
  }
  static void options(Options& options, auto& field) {
    field("lr", options.lr());
    field("momentum", options.momentum());
    field("dampening", options.dampening());
    field("weight_decay", options.weight_decay());
    field("nesterov", options.nesterov());
  }
};

struct Adagrad : OptimizerKind<torch::optim::Adagrad, torch::optim::AdagradParamState,
                               torch::optim::AdagradOptions> {
  static constexpr const char* name = "Adagrad";
  static void state(State& state, auto& field) {
    field("step", state.step());
    field("sum", state.sum());
  }
  static void options(Options& options, auto& field) {
    field("lr", options.lr());
    field("lr_decay", options.lr_decay());
    field("weight_decay", options.weight_decay());
    field("initial_accumulator_value", options.initial_accumulator_value());
    field("eps", options.eps());
  }
};

struct RMSprop : OptimizerKind<torch::optim::RMSprop, torch::optim::RMSpropParamState,
                               torch::optim::RMSpropOptions> {
  static constexpr const char* name = "RMSprop";
  static void state(State& state, auto& field) {
    field("step", state.step());
    field("square_avg", state.square_avg());
    field("momentum_buffer", state.momentum_buffer());
    field("grad_avg", state.grad_avg());
  }
  static void options(Options& options, auto& field) {
    field("lr", options.lr());
    field("alpha", options.alpha());
    field("eps", options.eps());
    field("weight_decay", options.weight_decay());
    field("momentum", options.momentum());
    field("centered", options.centered());
  }
};

struct LBFGS : OptimizerKind<torch::optim::LBFGS, torch::optim::LBFGSParamState,
                             torch::optim::LBFGSOptions> {
  static constexpr const char* name = "LBFGS";
  static void state(State& state, auto& field) {
    field("func_evals", state.func_evals());
    field("n_iter", state.n_iter());
    field("t", state.t());
    field("prev_loss", state.prev_loss());
    field("d", state.d());
    field("H_diag", state.H_diag());
    field("prev_flat_grad", state.prev_flat_grad());
    field("old_dirs", state.old_dirs());
    field("old_stps", state.old_stps());
    field("ro", state.ro());
    field("al", state.al());
  }
  static void options(Options& options, auto& field) {
    field("lr", options.lr());
    field("max_iter", options.max_iter());
    field("max_eval", options.max_eval());
    field("tolerance_grad", options.tolerance_grad());
    field("tolerance_change", options.tolerance_change());
    field("history_size", options.history_size());
    field("line_search_fn", options.line_search_fn());
  }
};

/// An optimizer of ours, whose classes name their fields themselves.
template <typename O, typename S, typename P>
struct AlgorithmKind : OptimizerKind<O, S, P> {
  static constexpr const char* name = P::kOptimizer;
  static void state(S& state, auto& field) { state.visit(field); }
  static void options(P& options, auto& field) { options.visit(field); }
};

struct Adafactor : AlgorithmKind<accelerate::Adafactor, AdafactorParamState, AdafactorOptions> {};
struct Lion : AlgorithmKind<accelerate::Lion, LionParamState, LionOptions> {};
struct Muon : AlgorithmKind<accelerate::Muon, MuonParamState, MuonOptions> {};
struct MuonWithAuxAdam : AlgorithmKind<accelerate::MuonWithAuxAdam, MuonWithAuxAdamParamState,
                                       MuonWithAuxAdamOptions> {};
struct ScheduleFreeAdamW : AlgorithmKind<accelerate::ScheduleFreeAdamW, ScheduleFreeAdamWParamState,
                                         ScheduleFreeAdamWOptions> {};

/// The names of the optimizers that any_optimizer_kind knows, for messages.
inline constexpr const char* kKnownOptimizers =
    "SGD, Adam, AdamW, Adagrad, RMSprop, LBFGS, Adafactor, Lion, Muon, MuonWithAuxAdam, "
    "ScheduleFreeAdamW";

/// Calls `visit(Kind{})` for each known optimizer until one call returns true. Returns whether one
/// did.
template <typename Visit>
bool any_optimizer_kind(const Visit& visit) {
  return visit(Adam{}) || visit(AdamW{}) || visit(SGD{}) || visit(Adagrad{}) || visit(RMSprop{}) ||
         visit(LBFGS{}) || visit(Adafactor{}) || visit(Lion{}) || visit(Muon{}) ||
         visit(MuonWithAuxAdam{}) || visit(ScheduleFreeAdamW{});
}

}  // namespace accelerate::detail
