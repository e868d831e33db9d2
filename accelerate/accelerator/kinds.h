// Recognises what prepare() is given, without LibTorch's expensive headers.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>

#include "accelerate/data/data_loader.h"
#include "accelerate/tensor/module_view.h"

namespace torch {
namespace detail {
struct ModuleHolderIndicator;
}
namespace nn {
class AnyModule;
class Module;
}  // namespace nn
namespace jit {
struct Module;
}
namespace optim {
class LRScheduler;
class Optimizer;
class ReduceLROnPlateauScheduler;
}  // namespace optim
}  // namespace torch

namespace accelerate {

class LRScheduler;
class SharedScheduler;

namespace detail {

template <typename T>
inline constexpr bool kIsHolder = std::is_base_of_v<torch::detail::ModuleHolderIndicator, T>;
template <typename T>
inline constexpr bool kIsModule = std::is_base_of_v<torch::nn::Module, T>;
template <typename T>
inline constexpr bool kIsScript = std::is_base_of_v<torch::jit::Module, T>;
template <typename T>
inline constexpr bool kIsOptimizer = std::is_base_of_v<torch::optim::Optimizer, T>;

template <typename T>
inline constexpr bool kIsSharedModule = false;
template <typename T>
inline constexpr bool kIsSharedModule<std::shared_ptr<T>> = kIsModule<T>;

// A schedule of ours, or one of LibTorch's two kinds.
template <typename T>
inline constexpr bool kIsScheduler =
    std::is_base_of_v<LRScheduler, T> || std::is_base_of_v<torch::optim::LRScheduler, T> ||
    std::is_base_of_v<torch::optim::ReduceLROnPlateauScheduler, T>;
template <typename T>
inline constexpr bool kIsSharedScheduler = false;
template <typename T>
inline constexpr bool kIsSharedScheduler<std::shared_ptr<T>> = kIsScheduler<T>;
template <>
inline constexpr bool kIsSharedScheduler<SharedScheduler> = true;

template <typename T>
inline constexpr bool kIsLoader = false;
template <typename Batch>
inline constexpr bool kIsLoader<DataLoader<Batch>> = true;

// Recognises torch::data loaders, which come in unique_ptrs, by a set of members that only they
// have.
template <typename T>
concept TorchDataLoader = requires(T& loader) {
  loader.begin();
  loader.join();
  loader.options().max_jobs;
};
template <typename T>
inline constexpr bool kIsTorchDataLoader = TorchDataLoader<T>;
template <typename T, typename D>
inline constexpr bool kIsTorchDataLoader<std::unique_ptr<T, D>> = TorchDataLoader<T>;

// Pointers that prepare() does not unwrap: it would hand back their objects unprepared.
template <typename T>
inline constexpr bool kIsBarePointer = false;
template <typename T>
inline constexpr bool kIsBarePointer<T*> = kIsModule<T> || kIsOptimizer<T> || kIsScheduler<T>;
template <typename T, typename D>
inline constexpr bool kIsBarePointer<std::unique_ptr<T, D>> =
    kIsModule<T> || kIsOptimizer<T> || kIsScheduler<T>;
template <typename T>
inline constexpr bool kIsBarePointer<std::shared_ptr<T>> = kIsOptimizer<T>;
template <typename T>
inline constexpr bool kIsAnyModule = std::is_same_v<T, torch::nn::AnyModule>;

/// Fails to compile, with a sentence that says what to do, for what prepare() cannot use.
template <typename Object>
consteval void require_preparable_type() {
  using T = std::remove_cvref_t<Object>;
  static_assert(
      !kIsTorchDataLoader<T>,
      "prepare() was given a torch::data loader, which hides its dataset and sampler and so "
      "cannot be shared between ranks: make it with accelerate::make_data_loader(dataset, "
      "{.batch_size = …, .shuffle = …}) instead");
  static_assert(
      !kIsBarePointer<T> && !kIsAnyModule<T>,
      "prepare() was given a pointer or an AnyModule, which it would hand back unprepared: "
      "pass the module, optimizer or schedule itself (*pointer), a module holder, or a "
      "shared_ptr to a module or a schedule");
  static_assert(
      std::is_lvalue_reference_v<Object> ||
          !(kIsModule<T> || kIsScript<T> || kIsOptimizer<T> || kIsScheduler<T>),
      "prepare() was given a temporary module or optimizer, or a schedule not in a shared_ptr, "
      "which ends with this line, while what prepare() returns keeps using it: give it a name "
      "first");
}

/// What prepare() was given, as the ranks compare it and as it is checked.
struct GivenObject {
  const char* kind;                              ///< "a model".
  const LoaderPlan* loader = nullptr;            ///< Set if the object is a loader.
  torch::optim::Optimizer* optimizer = nullptr;  ///< Set if it is an optimizer.
  const void* module = nullptr;                  ///< Its address, if it is a model.
  std::function<ModuleView()> view = nullptr;    ///< The model's.
};

/// Describes a model. `module` must outlive what is returned.
[[nodiscard]] GivenObject given_module(const torch::nn::Module& module);
[[nodiscard]] GivenObject given_module(const torch::jit::Module& module);

inline constexpr const char* kModelKind = "a model";

template <typename Object>
[[nodiscard]] GivenObject given_object(const Object& object) {
  if constexpr (kIsHolder<Object>) {
    return given_module(*object.ptr());
  } else if constexpr (kIsSharedModule<Object>) {
    return given_module(*object);
  } else if constexpr (kIsModule<Object> || kIsScript<Object>) {
    return given_module(object);
  } else if constexpr (kIsLoader<Object>) {
    return {.kind = "a loader", .loader = &object.core().plan};
  } else if constexpr (kIsOptimizer<Object>) {
    return {.kind = "an optimizer", .optimizer = const_cast<Object*>(&object)};
  } else if constexpr (kIsScheduler<Object> || kIsSharedScheduler<Object>) {
    return {.kind = "a schedule"};
  } else {
    return {.kind = "something else"};
  }
}

}  // namespace detail
}  // namespace accelerate
