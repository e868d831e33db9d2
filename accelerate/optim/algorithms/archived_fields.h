// Writes and reads the fields of options and state in LibTorch's archives, for torch::save and
// torch::load.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

namespace accelerate::detail {

/// Writes each field that it visits under its name. Leaves out undefined tensors.
struct WriteArchive {
  torch::serialize::OutputArchive& archive;

  void operator()(const char* name, const at::Tensor& value) const {
    if (value.defined()) archive.write(name, c10::IValue(value));
  }
  template <typename T>
  void operator()(const char* name, const T& value) const {
    archive.write(name, c10::IValue(value));
  }
};

/// Reads each field that it visits. Does not change fields that the archive lacks.
struct ReadArchive {
  torch::serialize::InputArchive& archive;

  template <typename T>
  void operator()(const char* name, T& value) const {
    c10::IValue stored;
    if (archive.try_read(name, stored)) value = stored.to<T>();
  }
};

}  // namespace accelerate::detail
