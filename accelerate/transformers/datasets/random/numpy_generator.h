// NumPy's random numbers, bit for bit: numpy.random.default_rng(seed).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace accelerate::detail {

/// PCG64 (XSL-RR 128/64), seeded by SeedSequence. For one thread. Source: numpy/random/src/pcg64,
/// bit_generator.pyx and distributions.c of NumPy 2.
class NumpyGenerator {
 public:
  explicit NumpyGenerator(std::uint64_t seed);

  [[nodiscard]] std::uint64_t next_uint64();
  /// Returns the lower half of a 64-bit draw; the next call returns its upper half.
  [[nodiscard]] std::uint32_t next_uint32();
  /// Draws from 0 to `most`, both included, as Generator.integers does.
  [[nodiscard]] std::uint64_t bounded(std::uint64_t most);
  /// Draws from 0 to `most`, both included, as Generator.shuffle does.
  [[nodiscard]] std::uint64_t interval(std::uint64_t most);

  template <typename T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i-- > 1;) std::swap(values[i], values[interval(i)]);
  }
  /// Returns 0 … count - 1, shuffled.
  [[nodiscard]] std::vector<std::uint64_t> permutation(std::size_t count);
  /// Draws `size` different numbers below `count`. Needs size <= count <= 10,000; beyond that NumPy
  /// uses another algorithm.
  [[nodiscard]] std::vector<std::uint64_t> choice(std::size_t count, std::size_t size);

 private:
  __extension__ using Wide = unsigned __int128;
  void step();

  Wide state_ = 0, increment_ = 0;
  bool has_half_ = false;
  std::uint32_t half_ = 0;
};

}  // namespace accelerate::detail
